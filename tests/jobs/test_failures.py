"""What Spark and Java say, in one sentence that tells why; the texts are shortened ones of Spark 4.3."""

from __future__ import annotations

import pytest

from braided.jobs.failures import first_line, last_words, missing_format

READING = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/0.csv.  SQLSTATE: KD001"
NO_PARQUET = "file:/in/0.csv is not a Parquet file"
PROXY = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
py4j.protocol.Py4JJavaError: An error occurred while calling o530.save.
: {raised}
\tat org.apache.hadoop.fs.RawLocalFileSystem.mkdirs(RawLocalFileSystem.java:873)
"""
JAVA = """\
WARNING: Using incubator modules: jdk.incubator.vector
26/11/16 18:35:51 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
{said}
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""


class Captured(Exception):
    """As PySpark hands on an error of the JVM."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self._cause = cause


def test_a_function_of_python_that_failed_in_the_jvm_says_why() -> None:
    """With a sink for late rows every failure was "An exception was raised by the Python Proxy"."""
    raised = "org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: file:/x"
    assert first_line(Captured(PROXY.format(raised=raised))) == "Parent path is not a directory: file:/x"
    read = f"org.apache.spark.SparkException: {READING}\n\tat a.b(C.java:1)\nCaused by: java.X: {NO_PARQUET}"
    assert first_line(Captured(PROXY.format(raised=read))) == (
        f"Encountered error while reading file file:///in/0.csv: {NO_PARQUET}"
    )


def test_a_file_that_cannot_be_read_is_told_with_its_cause() -> None:
    inner = Captured(f"java.lang.RuntimeException: {NO_PARQUET}")
    wrong = Captured(READING + "\n=== Streaming Query ===\nIdentifier: x", Captured(READING, inner))
    assert first_line(wrong) == f"Encountered error while reading file file:///in/0.csv: {NO_PARQUET}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[PARSE] Cannot resolve `foo` on [`a`]. SQLSTATE: 42883; line 1 pos 0",
            "Cannot resolve `foo` on [`a`]; line 1 pos 0",
        ),
        (
            "An error occurred while calling o1.start.\n: java.io.IOException: no room\n\tat a.b(C.java:1)",
            "no room",
        ),
        ("An error occurred while calling o1.start.", "An error occurred while calling o1.start"),
        ("", "Captured"),
    ],
)
def test_codes_and_stack_traces_are_left_out(text: str, line: str) -> None:
    assert first_line(Captured(text)) == line


def test_a_format_is_named_whole() -> None:
    said = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: com.foo.Bar. Make sure the provider"
    assert missing_format(Captured(said)) == "com.foo.Bar"
    assert missing_format(Captured("Failed to find the data source: cvs. Make sure")) == "cvs"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must start with local',
            "Master must start with local",
        ),
        ("Invalid maximum heap size: -Xmxlots", "Invalid maximum heap size: -Xmxlots"),
        (
            "java.lang.UnsupportedClassVersionError: a/B has been compiled",
            "this Java is too old, it needs 17 or newer",
        ),
        ("Aborted", None),
    ],
)
def test_why_java_ended_is_in_what_it_printed(said: str, why: str | None) -> None:
    assert last_words(JAVA.format(said=said)) == why
