"""What is wrong with a job file: all of it, each with its line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from braided.query.errors import InvalidValue

if TYPE_CHECKING:
    from braided.jobs.document import Document

Place: TypeAlias = tuple[str | int, ...]  # how to get to a value: ("sources", "orders", "path")


@dataclass(frozen=True)
class Problem:
    """A sentence about the value at a place of the file."""

    at: Place
    message: str


class JobError(InvalidValue):
    """A job file with mistakes; `lines` holds one sentence a problem, each with file and line."""

    @property
    def lines(self) -> tuple[str, ...]:
        """One sentence a problem."""
        lines = str(self).split("\n")
        return tuple(lines if len(lines) == 1 else lines[1:])


class JobFailed(InvalidValue):
    """A job that could not be started, or that stopped with an error."""


def refuse(document: Document, problems: Iterable[Problem]) -> None:
    """Raise if there are problems: all of them, in the order of the file."""
    numbered = dict.fromkeys((document.line(p.at), " ".join(p.message.splitlines())) for p in problems)
    lines = sorted(numbered, key=lambda one: one[0])
    if lines:
        sentences = [f"{document.name}:{line}: {message}" for line, message in lines]
        head = f"{document.name} has {len(lines)} problems:\n" if len(lines) > 1 else ""
        raise JobError(head + "\n".join(sentences))


def called(at: Place) -> str:
    """A place in words: "sources.orders.path"."""
    return ".".join(map(str, at)) or "the job"
