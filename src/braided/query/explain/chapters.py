"""Chapters of `explain` that need more than the query: what it costs, and what budgets lose.

The layers above write them, because they have the models and know the machine. Here is only where they are: a
chapter is imported when `explain` is asked for it, so that a query by itself needs neither.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from braided.query.durations import Duration, to_us
from braided.query.errors import InvalidType, InvalidValue, did_you_mean, shown
from braided.query.explain.expected_state import ExpectedState
from braided.query.join_graph import Attribute, JoinGraph

CHAPTERS = ("braided.engine.outlook.chapters:cost", "braided.engine.outlook.chapters:overload")
_SECOND_US = 1_000_000


@dataclass(frozen=True)
class Outlook:
    """What is expected of a query: its state, the different values of what joins, how long a batch is.

    `keys` is None if it is not known.
    """

    state: ExpectedState
    keys: Mapping[Attribute, float] | None
    batch_us: int


Chapter: TypeAlias = Callable[[Outlook], Iterable[str]]


def chapters(state: ExpectedState | None, keys: Any, batch_period: Duration | None) -> Iterator[str]:
    """Yield the lines of all chapters; none if no rates are given."""
    if state is None:
        for option, given in (("keys", keys), ("batch_period", batch_period)):
            if given is not None:
                raise InvalidValue(
                    f"explain: {option} says nothing without rates; give rates={{stream: rows/s}}"
                )
        return
    outlook = Outlook(state, _keys(state, keys), _batch_us(state, batch_period))
    for home in CHAPTERS:
        module, _, name = home.partition(":")
        chapter: Chapter = getattr(importlib.import_module(module), name)
        yield from chapter(outlook)


def _batch_us(state: ExpectedState, given: Duration | None) -> int:
    """How long a batch is: as asked, else as it should be, else a second."""
    overload = state.query.overload
    period = given if given is not None else overload.target_batch if overload else None
    us = _SECOND_US if period is None else to_us(period, owner="explain: batch_period")
    if us <= 0:
        raise InvalidValue(f"explain: batch_period must be above zero; got {shown(given)}")
    return us


def _keys(state: ExpectedState, given: Any) -> Mapping[Attribute, float] | None:
    """The different values of each attribute; of a key of several columns the first counts for all."""
    if given is None:
        return None
    query = state.query
    attributes = query.graph.attributes
    if not isinstance(given, Mapping):
        number = _positive("keys", given)
        several = query.on is not None
        return {a: number if several or i == 0 else 1.0 for i, a in enumerate(attributes)}
    if query.on is None:
        raise InvalidType(f"explain: keys must be one number, because there is one key; got {shown(given)}")
    return _by_column(query.graph, given)


def _by_column(graph: JoinGraph, given: Mapping[Any, Any]) -> Mapping[Attribute, float]:
    homes = {f"{stream}.{column}": a for a in graph.attributes for stream, column in a}
    for column in given:
        if column not in homes:
            close = did_you_mean(column, homes)
            raise InvalidValue(f"explain: keys: no column {shown(column)} is joined; {close}")
    found = {homes[column]: _positive(f"keys of {column!r}", number) for column, number in given.items()}
    for attribute in graph.attributes:
        if attribute not in found:
            missing = " = ".join(f"{s}.{c}" for s, c in attribute)
            raise InvalidValue(f"explain: keys must give a number for {missing}, too")
    return found


def _positive(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType(f"explain: {option} must be a number of different values; got {shown(value)}")
    if not 1 <= value < math.inf:
        raise InvalidValue(f"explain: {option} must be 1 or more different values; got {shown(value)}")
    return float(value)
