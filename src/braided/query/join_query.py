"""What is joined, and what comes out: the whole of a query's meaning, plus how to run it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from braided.query import condition
from braided.query.bounds import INFINITE_US, Bounds, Within, close
from braided.query.checks import check
from braided.query.condition import Condition
from braided.query.durations import Duration, to_us
from braided.query.errors import about
from braided.query.explain.chapters import chapters
from braided.query.explain.diagram import mermaid
from braided.query.explain.expected_state import expected_state
from braided.query.explain.text import explain
from braided.query.join_graph import Attribute, JoinGraph, attributes, column_name, read_on
from braided.query.layout import explain_layout
from braided.query.meaning import PARTS, difference
from braided.query.memory import Memory
from braided.query.outer import Kinds, arranged
from braided.query.overload import Overload
from braided.query.parts import read_select, read_streams, read_within
from braided.query.plan_tree import Plan, operators, read_plan
from braided.query.stream import Stream
from braided.query.tuning import Tuning
from braided.query.values import Value

WithinOption: TypeAlias = Mapping[tuple[str, str], Duration | tuple[Duration, Duration]]
_BY_NAMES: dict[str, Callable[[Any, Sequence[str]], Any]] = {
    "on": read_on,
    "plan": read_plan,
    "within": read_within,
    "select": read_select,
}


class JoinQuery(Value):
    """A join of two to sixteen streams on a common key, or `on` pairs of equal columns.

    A result is a combination of one row of each stream with equal, non-null keys, inside every
    window and `within` bound, for which `where` is true. `select` maps output names to
    `stream.column`; without it all columns come out as `<stream>_<column>`. With `on` the streams' own
    keys join nothing; they say what promises are about. `plan` is a tree of operators; it never changes the
    result. With `emit_punctuations` a row in which the output column `punctuation` is true says that no more
    results with its key will come.
    """

    streams: Sequence[Stream]
    on: Sequence[tuple[str, str]] | None = None
    _: dataclasses.KW_ONLY
    within: WithinOption | None = None
    where: str | None = None
    select: Mapping[str, str] | None = None
    plan: Plan = "mjoin"
    tuning: Tuning = Tuning()
    overload: Overload | None = None
    memory: Memory | None = None
    emit_punctuations: bool = False

    def _check(self) -> None:
        object.__setattr__(self, "streams", read_streams(self.streams))
        for option, read in _BY_NAMES.items():
            with about(option):
                object.__setattr__(self, option, read(getattr(self, option), self.names))
        if self.on is not None:
            object.__setattr__(self, "streams", tuple(map(self.graph.with_promised_key, self.streams)))
        check(self)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The streams' names, in order."""
        return tuple(s.name for s in self.streams)

    @functools.cached_property
    def kinds(self) -> Kinds:
        """Which streams are required and which are optional, and what follows from it."""
        return Kinds(self)

    @functools.cached_property
    def graph(self) -> JoinGraph:
        """Which columns must be equal."""
        if self.on is not None:
            return JoinGraph(attributes(self.on))
        keys = zip(*(s.key_columns for s in self.streams), strict=True)
        return JoinGraph(tuple(tuple(zip(self.names, columns, strict=True)) for columns in keys))

    @functools.cached_property
    def tree(self) -> Plan:
        """The plan as nested tuples of stream names; one operator is the flat plan."""
        if self.kinds.optional and isinstance(self.plan, str):
            return arranged(self.graph, self.plan, self.kinds.core, self.kinds.optional)
        if self.plan == "mjoin":
            return self.graph.plan(self.names)
        return self.graph.linear(self.names) if self.plan == "linear" else self.plan

    @property
    def flat(self) -> bool:
        """Whether one operator joins all streams at once."""
        return len(operators(self.tree)) == 1

    @functools.cached_property
    def bounds(self) -> Bounds:
        """The closed matrix of time bounds."""
        at = {name: i for i, name in enumerate(self.names)}
        within_us = [(at[a], at[b], to_us(low), to_us(high)) for (a, b), (low, high) in self.pairs]
        return close(self.streams, within_us)

    def stay_us(self, stream: Stream) -> int | None:
        """Return how long a stream's rows can meet rows to come, or None if time never ends that."""
        retention_us = self.bounds.retention_us(self.names.index(stream.name))
        return None if retention_us >= INFINITE_US else max(0, retention_us)

    @property
    def pairs(self) -> Within:
        """The `within` bounds: ((first, second), (from, to)), in the order of the streams."""
        return self.within or ()  # type: ignore[return-value]

    @property
    def keyless(self) -> bool:
        """Whether only `where` and times say what joins: every pair of rows is compared."""
        return self.on is None and all(s.key is None for s in self.streams)

    @property
    def counts(self) -> bool:
        """Whether any stream has a count window, so that results wait for the watermark."""
        return any(s.count_window for s in self.streams)

    def counts_apart(self, stream: Stream) -> bool:
        """Whether a stream's window counts rows by another key than that of its operator, or in a tree."""
        same = self.operator_key(stream) == self.graph.columns(stream.name)
        return stream.counts_keys and not (self.flat and same)

    def operator_key(self, stream: Stream) -> tuple[str, ...]:
        """Return the columns of a stream that all inputs of its operator have in common."""
        return tuple(
            self.graph.source(a, stream.name)[1] for a in self.graph.key(self.kinds.operator_of(stream.name))
        )

    @property
    def promises(self) -> bool:
        """Whether what streams promise of rows to come is used, to forget others early.

        It is about columns that join; and rows that count for a window must not go before their time.
        """
        return not self.keyless and not self.counts and any(s.promises for s in self.streams)

    def promised(self, stream: Stream) -> tuple[Attribute, ...]:
        """Return the attributes that a stream's promises are about, in the order of the graph's."""
        columns = {(stream.name, column) for column in stream.key_columns}
        return tuple(a for a in self.graph.attributes if stream.promises and columns.intersection(a))

    @functools.cached_property
    def one_key(self) -> bool:
        """Whether all streams have one key, and all promises are about the whole of it.

        Of a stream with two columns that must be equal it is the first.
        """
        graph = self.graph
        if self.on is None or graph.key(self.names) != graph.attributes:
            return self.on is None
        firsts = {s: {graph.source(a, s.name)[1] for a in graph.attributes} for s in self.streams}
        return all(set(s.key_columns) == columns for s, columns in firsts.items() if s.promises)

    @property
    def one_stage(self) -> bool:
        """Whether something needs all operators in one place: budgets, count windows, promises of any key."""
        promised = self.promises and not self.one_key
        return bool(self.overload or self.memory or self.counts or self.kinds.optional or promised)

    @property
    def windowed(self) -> bool:
        """Whether time limits what may join, so that rows can come too late."""
        return self.counts or self.bounds.any

    @property
    def condition(self) -> Condition | None:
        """The parsed `where`."""
        return None if self.where is None else condition.parse(self.where)

    @property
    def selected(self) -> tuple[tuple[str, str, str], ...] | None:
        """(output name, stream, column) of `select`, or None for all columns."""
        if self.select is None:
            return None
        return tuple((name, *column_name(source)) for name, source in dict(self.select).items())

    def explain(
        self,
        *,
        rates: Mapping[str, float] | None = None,
        row_bytes: Mapping[str, float] | None = None,
        buckets: int | None = None,
        keys: float | Mapping[str, float] | None = None,
        batch_period: Duration | None = None,
    ) -> str:
        """Describe the plan in words and as a tree, and what may go wrong.

        With `rates` (rows a second) also how many rows will be stored, what that costs on this machine, and
        what budgets lose; with `row_bytes` (the bytes of a row's columns) how much memory rows take; with
        `buckets` (8 on Spark if nothing is said) how much of it is in each, and where rows go. `keys` is how
        many different keys there are (with `on` by column, such as {"orders.item": 1000}), `batch_period` how
        often a batch comes (None: as `target_batch` says, else every second).
        """
        state = expected_state(self, rates, row_bytes, buckets if rates is not None else None)
        more = chapters(state, keys, batch_period)
        return explain(self, state, explain_layout(self, buckets, rates), more)

    def diagram(self) -> str:
        """Draw the plan as a Mermaid flowchart; `braided.query.explain.svg.diagram_svg` draws the same."""
        return mermaid(self)

    def fingerprint(self) -> str:
        """Return a text that identifies the query's meaning; plan, tuning and budgets are not meaning."""
        return hashlib.sha256(json.dumps(self.meaning(), sort_keys=True).encode()).hexdigest()[:32]

    def meaning(self) -> dict[str, Any]:
        """Return the part of the query that decides the result."""
        return {part: value for part, value in self.to_dict().items() if part in PARTS}

    def difference(self, earlier: Mapping[str, Any]) -> str | None:
        """Describe how an earlier query's meaning differs from this one's; None if it does not."""
        return difference(earlier, self.meaning())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only; `from_dict` undoes it."""
        values = super().to_dict()
        if self.within:
            values["within"] = [{"streams": list(p), "from": a, "to": b} for p, (a, b) in self.pairs]
        if self.select:
            values["select"] = dict(self.select)
        return values
