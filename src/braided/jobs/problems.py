"""What is wrong with a job file: all of it, each with its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from braided.query.errors import InvalidValue

Place: TypeAlias = tuple[str | int, ...]  # how to get to a value: ("sources", "orders", "path")


@dataclass(frozen=True)
class Problem:
    """A sentence about the value at a place of the file."""

    at: Place
    message: str


class Problems(list[Problem]):
    """All that is wrong with a file so far."""

    def add(self, at: Place, message: str) -> None:
        """Add a sentence about the value at a place."""
        self.append(Problem(at, message))

    def must(self, at: Place, wanted: str, value: Any, hint: str = "") -> None:
        """Add that a value must be something else; YAML's empty value is nothing."""
        given = "nothing" if value is None else repr(value)
        self.add(at, f"{called(at)} must be {wanted}; got {given}{hint}")


class JobError(InvalidValue):
    """A job file with mistakes; `lines` holds one sentence a problem, each with file and line."""

    @property
    def lines(self) -> tuple[str, ...]:
        """One sentence a problem."""
        lines = str(self).split("\n")
        return tuple(lines if len(lines) == 1 else lines[1:])


class JobFailed(InvalidValue):
    """A job that could not be started, or that stopped with an error."""


def called(at: Place) -> str:
    """A place in words: "sources.orders.path"."""
    return ".".join(map(str, at)) or "the job"
