"""Every error a user can cause is a `BraidedError`, and also the built-in error it resembles.

Messages name the stream, the value, and what would be right: "X must be Y; got Z".
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BraidedError(Exception):
    """Base of all errors Braided raises for a user's mistake or for damaged input."""


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


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint for a mistyped name: the closest known one, else the list of all.

    >>> did_you_mean("windw", ["window", "time"])
    "did you mean 'window'?"
    """
    names = [str(k) for k in known]
    close = difflib.get_close_matches(str(name), names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + ", ".join(repr(n) for n in names)


def require_choice(owner: str, option: str, value: object, known: tuple[str, ...]) -> None:
    """Raise unless `value` is one of the literal choices of an option."""
    if value not in known:
        raise InvalidValue(
            f"{owner}: {option} must be one of {', '.join(map(repr, known))}; "
            f"got {value!r}; {did_you_mean(value, known)}"
        )


def os_reason(wrong: OSError) -> str:
    """Why a file or a folder cannot be made; of a file where a folder should be, that it is one."""
    if isinstance(wrong, FileExistsError | NotADirectoryError):
        return f"{wrong.filename} is a file, or lies in one"
    return wrong.strerror or str(wrong)
