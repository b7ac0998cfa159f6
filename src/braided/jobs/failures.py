"""What Spark raises, as one sentence that says where the mistake is and what to do."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from contextlib import contextmanager

from braided.jobs.formats import SINKS, SOURCES, format_of
from braided.jobs.loading import Job
from braided.jobs.problems import JobFailed
from braided.query.errors import BraidedError, InvalidValue, did_you_mean

_OURS = re.compile(r"braided\.query\.errors\.\w+: ([^\n]+)")
_CODES = re.compile(r"\[[A-Z][A-Z_.0-9]+\] |[.;]? *SQLSTATE: \w+")
# what was raised and what it says: "Caused by: java.io.IOException: no room"
_RAISED = re.compile(r"^(?:: |Caused by: )?[a-z]\w*(?:\.[\w$]+)+: (.+)$", re.MULTILINE)
_LAST = re.compile(r'^Exception in thread "main" [\w.$]+: (.+)$|^(?:Error: )?(Invalid .+)$', re.MULTILINE)
_UNKNOWN = re.compile(r"[Ff](?:ailed to|ail to)? ?find (?:the )?data source: ?`?([\w.-]+?)`?\.?\s")
_EMPTY = re.compile(r"An exception was raised by the Python Proxy|An error occurred while calling ")
_VAGUE = re.compile(r"Encountered error while reading file|Error while instantiating|Job aborted|Task failed")


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
    match = _UNKNOWN.search(f"{wrong} ")
    return match[1] if match else None


def _how_to_get(format_: str, end: str) -> str:
    package = format_of(format_).package
    if package is not None:
        package = package.format(spark=importlib.metadata.version("pyspark"))
        return (
            f"Spark has no format {format_!r} on its class path; add the package to the job: "
            f"spark: {{spark.jars.packages: {package}}}"
        )
    hint = did_you_mean(format_, SOURCES if end == "sources" else SINKS)
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
    """What an error says in one line: no stack trace, no codes of Spark, nothing of what handed it on.

    Where that does not say why, its cause is added.
    """
    every = list(dict.fromkeys(_sentences(wrong))) or [type(wrong).__name__]
    lines = [line for line in every if not _EMPTY.match(line)] or every
    why = f": {lines[1]}" if _VAGUE.match(lines[0]) and len(lines) > 1 else ""
    return lines[0] + why


def _sentences(wrong: BaseException) -> Iterator[str]:
    """What an error and its causes say, a line each, outermost first."""
    text = str(wrong)
    lines = (line.strip() for line in text.splitlines())
    first = next((s for s in lines if s and not s.startswith(("at ", "===", "Traceback"))), "")
    for line in (first, *_RAISED.findall(text)):
        plain = _CODES.sub("", _RAISED.sub(r"\1", line)).strip().rstrip(".;:")
        if plain:
            yield plain
    cause = getattr(wrong, "_cause", None)  # as PySpark keeps it
    if isinstance(cause, BaseException):
        yield from _sentences(cause)


def last_words(log: str) -> str | None:
    """Why a Java that has ended says it did, in the words of what it printed."""
    if "UnsupportedClassVersionError" in log:
        return "this Java is too old, it needs 17 or newer"
    match = _LAST.search(log)
    return (match[1] or match[2]).strip().rstrip(".") if match else None
