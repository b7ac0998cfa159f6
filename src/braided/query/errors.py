"""Every error a user can cause is a `BraidedError`, and also the built-in error it resembles.

Messages name the stream, the value, and what would be right: "X must be Y; got Z". What an error is about is
in its fields, so that nobody has to read the message to find out; a job file's line is looked up by them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeAlias

from braided.query.masking import masked

Position: TypeAlias = tuple[str | int, ...]
_PLAIN = (str, int, float, bool, type(None))


class BraidedError(Exception):
    """Base of all errors Braided raises for a user's mistake or for damaged input.

    `stream` is the name of the stream it is about, `option` an option of that stream, of the query or of the
    part that was made, `value` what was given, and `position` where in the option's value the mistake is:
    keys and indexes, or line and column of a text. A field is None where it says nothing.
    Credentials are masked in the message.
    """

    def __init__(
        self,
        *args: object,
        stream: str | None = None,
        option: str | None = None,
        value: Any = None,
        position: Position | None = None,
    ) -> None:
        super().__init__(*map(masked, args))
        self.stream, self.option, self.value, self.position = stream, option, value, position

    def __reduce__(self) -> tuple[Any, ...]:
        """Let errors travel between processes, whatever value they are about."""
        value = self.value if isinstance(self.value, _PLAIN) else shown(self.value)
        return type(self), self.args, {**self.__dict__, "value": value}

    @classmethod
    def must(cls, option: str, wanted: str, value: object, *, owner: str | None = None) -> Self:
        """Build the error "OWNER: OPTION must be WANTED; got VALUE"."""
        named = option if owner is None else f"{owner}: {option}"
        return cls(f"{named} must be {wanted}; got {shown(value)}", option=option, value=value)

    @classmethod
    def of(cls, stream: str, option: str, message: str) -> Self:
        """Build the error "stream STREAM: MESSAGE" about an option."""
        return cls(f"stream {stream!r}: {message}", stream=stream, option=option)


class InvalidValue(BraidedError, ValueError):
    """A value of the right type that makes no sense."""


class BrokenPromise(InvalidValue):
    """A row came that its stream had promised would not."""


class InvalidType(BraidedError, TypeError):
    """A value, column or option of the wrong type."""


class SpillFailed(BraidedError, OSError):
    """Rows that do not fit into memory could not be written to disk, or read back."""


class UnknownName(BraidedError, KeyError):
    """A stream, column or part that does not exist."""

    def __str__(self) -> str:  # KeyError would print the message's repr
        return str(self.args[0]) if self.args else ""


@contextmanager
def about(option: str | None = None, *position: str | int, stream: str | None = None) -> Iterator[None]:
    """Complete the fields of errors raised meanwhile: they are about this stream, or inside this option."""
    try:
        yield
    except BraidedError as wrong:
        wrong.stream = wrong.stream or stream
        if option is not None:
            inner = () if wrong.option in (None, option) else (wrong.option,)
            wrong.position = (*position, *inner, *(wrong.position or ())) or None
            wrong.option = option
        raise


def shown(value: object) -> str:
    """Return a value as messages show it: its repr, as far as that is readable."""
    try:
        text = repr(value)
    except ValueError:  # a whole number with too many digits to be printed
        return f"a value that is too long to print ({type(value).__name__})"
    return text if len(text) <= 300 else f"{text[:300]}..."


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Suggest the known name closest to a mistyped one, or list all.

    >>> did_you_mean("windw", ["window", "time"])
    "did you mean 'window'?"
    """
    names = [str(k) for k in known]
    close = difflib.get_close_matches(name[:100] if isinstance(name, str) else shown(name), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(map(repr, names))}"


def require_choice(owner: str, option: str, value: object, known: tuple[str, ...]) -> None:
    """Raise unless `value` is one of the literal choices of an option."""
    if value not in known:
        wanted = f"one of {', '.join(map(repr, known))}; got {shown(value)}; {did_you_mean(value, known)}"
        raise InvalidValue(f"{owner}: {option} must be {wanted}", option=option, value=value)


def require_stream(name: Any, streams: Sequence[str], where: str) -> None:
    """Raise unless the query has a stream of this name; `where` says who uses it."""
    if name not in streams:
        raise UnknownName(f"{where}: no stream {shown(name)}; {did_you_mean(name, streams)}", value=name)


def os_reason(wrong: OSError) -> str:
    """Say why a file or a folder cannot be made, also where a file stands in place of a folder."""
    if isinstance(wrong, FileExistsError | NotADirectoryError):
        return f"{wrong.filename} is a file, or lies in one"
    return wrong.strerror or str(wrong)
