"""What Spark raises, as one sentence that says where the mistake is and what to do."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from contextlib import contextmanager

from braided.jobs.definitions import FORMATS, SINKS
from braided.jobs.loading import Job
from braided.jobs.problems import JobFailed
from braided.query.errors import BraidedError, InvalidValue, did_you_mean

_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "avro": "org.apache.spark:spark-avro_2.13:{spark}",
    "delta": "io.delta:delta-spark_2.13:<version>",
}
_OURS = re.compile(r"braided\.query\.errors\.\w+: ([^\n]+)")
_CODES = re.compile(r"\[[A-Z][A-Z_.0-9]+\] | ?SQLSTATE: \w+")


@contextmanager
def named(job: Job, *at: str) -> Iterator[None]:
    """Spark's errors about an end of the job, at its line."""
    try:
        yield
    except BraidedError:
        raise
    except Exception as wrong:
        unknown = missing_format(wrong)
        if unknown is None:
            raise job.complain(f"{'.'.join(at)}: {first_line(wrong)}", *at) from wrong
        raise job.complain(_how_to_get(unknown, at[0]), *at, "format") from wrong


def missing_format(wrong: Exception) -> str | None:
    """The format that Spark does not find."""
    found = re.search(
        r"[Ff](?:ailed to|ail to)? ?find (?:the )?data source: ?`?([\w.-]+?)`?[.\s]", f"{wrong} "
    )
    return found[1] if found else None


def _how_to_get(format_: str, end: str) -> str:
    if format_ in _PACKAGES:
        package = _PACKAGES[format_].format(spark=importlib.metadata.version("pyspark"))
        return (
            f"Spark has no format {format_!r} on its class path; add the package to the job: "
            f"spark: {{spark.jars.packages: {package}}}"
        )
    hint = did_you_mean(format_, FORMATS if end == "sources" else SINKS)
    if not hint.startswith("did you mean"):
        hint += "; others need their package: spark: {spark.jars.packages: group:artifact:version}"
    return f"Spark knows no format {format_!r}; {hint}"


@contextmanager
def plain_errors(job: Job) -> Iterator[None]:
    """What Spark raises, as one sentence; the whole of it is the cause."""
    try:
        yield
    except BraidedError:
        raise
    except Exception as wrong:
        ours = _OURS.search(str(wrong))
        if ours:
            raise InvalidValue(f"{job.document.name}: {ours[1]}") from wrong
        raise JobFailed(
            f"{job.document.name}: the query stopped: {first_line(wrong)}; mend it and run the job again: it "
            "goes on from its checkpoint; --debug shows all that Spark says"
        ) from wrong


def first_line(wrong: BaseException) -> str:
    """The first line of what an error says that is no stack trace, without Spark's codes."""
    lines = [_CODES.sub("", line).strip() for line in str(wrong).splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "===", "Traceback"))]
    return (lines[0] if lines else type(wrong).__name__).rstrip(".;")
