"""What is joined, and what comes out: the whole of a query's meaning, plus how to run it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from braided.query import condition
from braided.query.bounds import INFINITE_US, Bounds, Within, close
from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidType, InvalidValue, UnknownName, about, did_you_mean, shown
from braided.query.explain import diagram
from braided.query.explain import text as explain
from braided.query.join_graph import JoinGraph, attributes, read_on
from braided.query.memory import Memory
from braided.query.overload import Overload
from braided.query.plan_tree import Plan, operators, read_plan
from braided.query.stream import Stream
from braided.query.tuning import Tuning
from braided.query.values import PlainDict, freeze, value_class

WithinOption: TypeAlias = Mapping[tuple[str, str], Duration | tuple[Duration, Duration]]
MAX_STREAMS = 8
RESULT_TIME = "result_time"
PUNCTUATION = "punctuation"
MEANING = ("streams", "on", "within", "where", "select", "emit_punctuations")


@value_class
class JoinQuery(PlainDict):
    """A join of two to eight streams on a common key, or `on` pairs of equal columns.

    A result is a combination of one row of each stream with equal, non-null keys, inside every
    window and `within` bound, for which `where` is true. `select` maps output names to
    `stream.column`; without it all columns come out as `<stream>_<column>`. With `on` the streams' own
    keys join nothing. `plan` is a tree of operators; it never changes the result. With `emit_punctuations`
    a row in which the output column `punctuation` is true says that no more results with its key will come.
    """

    streams: Sequence[Stream]
    on: Sequence[tuple[str, str]] | None = None
    within: WithinOption | None = dataclasses.field(default=None, kw_only=True)
    where: str | None = dataclasses.field(default=None, kw_only=True)
    select: Mapping[str, str] | None = dataclasses.field(default=None, kw_only=True)
    plan: Plan = dataclasses.field(default="mjoin", kw_only=True)
    tuning: Tuning = dataclasses.field(default=Tuning(), kw_only=True)
    overload: Overload | None = dataclasses.field(default=None, kw_only=True)
    memory: Memory | None = dataclasses.field(default=None, kw_only=True)
    emit_punctuations: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        freeze(self, streams=_streams(self.streams), tuning=_tuning(self.tuning))
        freeze(self, overload=_overload(self.overload), memory=_memory(self.memory))
        if not isinstance(self.emit_punctuations, bool):
            raise InvalidType.must("emit_punctuations", "True or False", self.emit_punctuations)
        self._check_names()
        freeze(self, on=read_on(self.on, self.names))
        self._check_keys()
        with about("plan"):
            freeze(self, plan=read_plan(self.plan, self.names) or self.plan)
        self.graph.check(self.tree)
        freeze(self, within=_within(self.within, self.names))
        freeze(self, select=_select(self.select, self.names))
        self._check_times()
        self._check_windows()
        self._check_tuning()
        self._check_overload()
        self._check_memory()
        self._check_promises()
        if self.where is not None:
            with about("where"):
                for stream, column in sorted(condition.parse(self.where).columns()):
                    _known(stream, self.names, f"where uses {stream}.{column}")
        _ = self.bounds

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The streams' names, in order."""
        return tuple(s.name for s in self.streams)

    @functools.cached_property
    def graph(self) -> JoinGraph:
        """Which columns must be equal."""
        if self.on is not None:
            return JoinGraph(attributes(self.on))
        keys = [s.key_columns for s in self.streams]
        return JoinGraph(
            tuple(tuple(zip(self.names, columns, strict=True)) for columns in zip(*keys, strict=True))
        )

    @functools.cached_property
    def tree(self) -> Plan:
        """The plan as nested tuples of stream names; one operator is the flat plan."""
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

    @property
    def promises(self) -> bool:
        """Whether what streams promise of rows to come is used, to forget others early.

        It is about one key that all streams have; and rows that count for a window must not go before their
        time.
        """
        usable = self.on is None and not self.keyless and not self.counts
        return usable and any(s.promises for s in self.streams)

    @property
    def windowed(self) -> bool:
        """Whether time limits what may join, so that rows can come too late."""
        return self.counts or self.bounds.any

    @property
    def condition(self) -> condition.Condition | None:
        """The parsed `where`."""
        return None if self.where is None else condition.parse(self.where)

    @property
    def selected(self) -> tuple[tuple[str, str, str], ...] | None:
        """(output name, stream, column) of `select`, or None for all columns."""
        if self.select is None:
            return None
        pairs: Iterable[tuple[str, str]] = self.select  # type: ignore[assignment]
        return tuple((name, *source.split(".", 1)) for name, source in pairs)  # type: ignore[misc]

    def explain(
        self,
        *,
        rates: Mapping[str, float] | None = None,
        row_bytes: Mapping[str, float] | None = None,
        buckets: int | None = None,
    ) -> str:
        """Describe the plan in words and as a tree, and what may go wrong.

        With `rates` (rows a second) also how many rows will be stored; with `row_bytes` (the bytes of a row's
        columns) how much memory that takes; with `buckets` how much of it is in each.
        """
        return explain.explain(self, rates, row_bytes, buckets)

    def diagram(self) -> str:
        """Draw the plan as a Mermaid flowchart; `braided.query.explain.svg.diagram_svg` draws the same."""
        return diagram.mermaid(self)

    def fingerprint(self) -> str:
        """Return a text that identifies the query's meaning; plan, tuning and budgets are not meaning."""
        text = json.dumps(self.meaning(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def meaning(self) -> dict[str, Any]:
        """Return the part of the query that decides the result."""
        said = self.to_dict()
        return {name: said[name] for name in MEANING if name in said}

    def difference(self, meaning: Mapping[str, Any]) -> str | None:
        """Describe how an earlier query's meaning differs from this one's; None if it does not."""
        now = self.meaning()
        for part in MEANING:
            if now.get(part) != meaning.get(part):
                if part == "streams" and (said := _stream_difference(meaning.get(part), now[part])):
                    return said
                return f"{part} was {meaning.get(part)!r} and is {now.get(part)!r}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only; `from_dict` undoes it."""
        said = super().to_dict()
        if self.within:
            said["within"] = [
                {"streams": [a, b], "from": low, "to": high} for (a, b), (low, high) in self.pairs
            ]
        if self.select:
            said["select"] = dict(self.select)
        return said

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JoinQuery:
        """Build the query that `to_dict` described; unknown names raise with a hint.

        Two spellings are friendlier in files: `streams` may map names to options, and a pair of `within` may
        be a text such as "orders, payments".
        """
        if isinstance(data, Mapping) and isinstance(data.get("streams"), Mapping | list | tuple):
            data = {**data, "streams": _read_streams(data["streams"])}
        return super().from_dict(data)

    def _check_names(self) -> None:
        for i, name in enumerate(self.names):
            if name in self.names[:i]:
                raise InvalidValue(
                    f"stream {name!r} is given twice; stream names must differ",
                    option="streams",
                    position=(i,),
                )

    def _check_keys(self) -> None:
        if self.on is not None:
            return
        if self.keyless:
            if self.where is None:
                raise InvalidValue.of(
                    self.names[0],
                    "key",
                    "key is missing; name its key column (a join without any key needs where)",
                )
            for stream in self.streams:
                if _counts_keys(stream):
                    raise InvalidValue.of(
                        stream.name, "window", "counting rows by key needs a key; use per='stream'"
                    )
            return
        first = self.streams[0]
        for stream in self.streams:
            if stream.key is None:
                raise InvalidValue.of(
                    stream.name, "key", "key is missing; name its key column, or leave out all keys"
                )
            if len(stream.key) != len(first.key_columns):
                raise InvalidValue(
                    f"stream {stream.name!r} has {_columns(stream)}, stream {first.name!r} has "
                    f"{_columns(first)}; all streams need the same number of key columns",
                    stream=stream.name,
                    option="key",
                    value=stream.key,
                )

    def _check_times(self) -> None:
        why = next((f"stream {s.name!r} has a window" for s in self.streams if _has_window(s)), "")
        why = why or ("within bounds times" if self.within else "")
        for stream in self.streams:
            if why and stream.time is None:
                raise InvalidValue.of(
                    stream.name, "time", f"time is missing; {why}, so every stream needs a time column"
                )

    def _check_windows(self) -> None:
        for stream in self.streams:
            if stream.count_window is not None and not self.flat:
                raise InvalidValue.of(
                    stream.name,
                    "window",
                    "a window that counts rows needs all streams in one operator (plan='mjoin', one key); "
                    f"this plan has {len(operators(self.tree))}; use a time window",
                )
            joined = self.graph.columns(stream.name)
            if self.on is not None and _counts_keys(stream) and (stream.key or joined) != joined:
                raise InvalidValue.of(
                    stream.name,
                    "key",
                    f"its window counts rows by {stream.key!r}, but `on` joins it by {joined!r}; leave key "
                    "out to count by these",
                )
            if stream.freshness is not None:
                self._check_freshness(stream)

    def _check_freshness(self, stream: Stream) -> None:
        why = None
        if self.overload is None:
            why = "only goes with overload; leave it out"
        elif stream.time is None:
            why = "needs a time column; give it time=..."
        elif stream.window_us is not None and (stream.freshness_us or 0) < stream.window_us:
            least = to_text(stream.window_us)
            why = f"must be at least the window, {least}; raise it, or shorten the window"
        if why is not None:
            raise InvalidValue.of(stream.name, "freshness", f"freshness={stream.freshness!r} {why}")

    def _check_promises(self) -> None:
        if self.emit_punctuations and not self.promises:
            raise InvalidValue(
                "emit_punctuations=True needs a stream that is unique, punctuated, clustered or ordered, one "
                "key that all streams have and no window that counts rows: nothing else tells when a key is "
                "complete",
                option="emit_punctuations",
            )
        for stream in self.streams:
            if stream.upto is not None and len(stream.key_columns) > 1:
                raise InvalidValue.of(
                    stream.name,
                    "punctuation",
                    f"a RangePunctuation needs a key of one column; it has {_columns(stream)}",
                )

    def _check_tuning(self) -> None:
        if isinstance(self.tuning.index, tuple):
            for name, _ in self.tuning.index:
                with about("tuning", "index", name):
                    _known(name, self.names, "Tuning: index")
        for stream in self.streams:
            with about("tuning", "index", stream=stream.name):
                _check_index(self, stream, self.tuning.index_of(stream.name))
        with about("tuning", "selectivities"):
            self._check_selectivities()

    def _check_selectivities(self) -> None:
        for names, _ in self.tuning.selectivities:
            for stream in names:
                _known(stream, self.names, "Tuning: selectivities")
        alone = {names[0] for names, _ in self.tuning.selectivities if len(names) == 1}
        missing = [name for name in self.names if name not in alone]
        if alone and missing:
            raise InvalidValue(
                f"Tuning: selectivities gives some streams' but not that of {missing[0]!r}; give all or none"
            )

    def _check_overload(self) -> None:
        if self.overload is not None:
            with about("overload"):
                self._check_budgets(self.overload)

    def _check_budgets(self, overload: Overload) -> None:
        if overload.target_batch is not None and overload.drops_input:
            raise InvalidValue(
                "Overload: target_batch rations probes (shed='probes'); with shed='input' give probes, how "
                "many rows a batch are let in",
                option="target_batch",
            )
        by_window = overload.allocation.startswith("window") and overload.state_rows is None
        for i, stream in enumerate(self.streams):
            if stream.count_window is not None and (overload.drops_input or overload.state_rows is not None):
                raise InvalidValue(
                    f"Overload: stream {stream.name!r} has a window that counts rows; rows that are dropped "
                    "would keep others inside it, so results would be wrong; use a time window",
                    stream=stream.name,
                )
            if overload.state_rows is not None and stream.time is None:
                raise InvalidValue(
                    f"Overload: state_rows needs a time column in stream {stream.name!r}; give it time=...",
                    stream=stream.name,
                    option="state_rows",
                )
            if by_window and self.bounds.retention_us(i) >= INFINITE_US:
                raise InvalidValue(
                    f"Overload: allocation={overload.allocation!r} needs a window for stream "
                    f"{stream.name!r}; give it one, or use 'equal'",
                    stream=stream.name,
                    option="allocation",
                )

    def _check_memory(self) -> None:
        if self.memory is None:
            return
        if self.overload is not None:
            raise InvalidValue(
                "memory keeps results exact and overload does not; give one of them (overload's state_rows "
                "bounds memory, too)",
                option="memory",
            )
        if self.keyless:
            raise InvalidValue(
                "memory needs a key: rows go to disk by slices of keys; give the streams one", option="memory"
            )
        for stream in self.streams:
            if stream.count_window is not None:
                raise InvalidValue.of(
                    stream.name,
                    "window",
                    "memory does not go with a window that counts rows yet; use a time window",
                )


def _stream_difference(old: Any, new: list[dict[str, Any]]) -> str | None:
    """The option in which a stream differs, or their order, if the streams are the same ones."""
    before = {stream["name"]: stream for stream in old or ()}
    names = [stream["name"] for stream in new]
    if sorted(before) != sorted(names):
        return None
    for now in new:
        was = before[now["name"]]
        for option in [*was, *now]:
            if was.get(option) != now.get(option):
                old_value, new_value = was.get(option), now.get(option)
                return f"streams: {option} of {now['name']!r} was {old_value!r} and is {new_value!r}"
    return f"streams: their order, which is that of the result's columns, was {list(before)} and is {names}"


def _check_index(query: JoinQuery, stream: Stream, index: str) -> None:
    if index == "hash" and query.keyless:
        raise InvalidValue(
            f"Tuning: index='hash' cannot serve stream {stream.name!r}, which has no key; use 'auto'"
        )
    if index == "scan" and stream.count_window is not None and stream.count_window.per == "key":
        raise InvalidValue(
            f"Tuning: index='scan' cannot serve stream {stream.name!r}, whose window counts rows by key; "
            "use 'auto' or 'hash'"
        )


def _overload(overload: object) -> Overload | None:
    if overload is None or isinstance(overload, Overload):
        return overload
    if isinstance(overload, Mapping):
        with about("overload"):
            return Overload.from_dict(overload)
    raise InvalidType.must("overload", "a bd.Overload", overload)


def _memory(value: object) -> Memory | None:
    if value is None or isinstance(value, Memory):
        return value
    if isinstance(value, Mapping):
        with about("memory"):
            return Memory.from_dict(value)
    raise InvalidType.must("memory", "a bd.Memory or None", value)


def _columns(stream: Stream) -> str:
    names = stream.key_columns
    return f"{len(names)} key column{'s' if len(names) > 1 else ''} ({', '.join(names)})"


def _counts_keys(stream: Stream) -> bool:
    return stream.count_window is not None and stream.count_window.per == "key"


def _has_window(stream: Stream) -> bool:
    return stream.window_us is not None or stream.count_window is not None


def _known(stream: str, names: Sequence[str], where: str) -> None:
    if stream not in names:
        raise UnknownName(f"{where}: no stream {shown(stream)}; {did_you_mean(stream, names)}", value=stream)


def _read_streams(streams: Any) -> list[Stream]:
    """Streams out of options by name, or out of a list with a name each."""
    made = []
    for key, options in streams.items() if isinstance(streams, Mapping) else enumerate(streams):
        if isinstance(options, Stream):
            made.append(options)
        elif isinstance(streams, Mapping):
            with about(stream=str(key)):
                made.append(Stream.from_dict(_named(str(key), options)))
        else:
            with about("streams", key):
                made.append(Stream.from_dict(options))
    return made


def _named(name: str, options: object) -> dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidType(f"stream {name!r} must be a mapping of options; got {shown(options)}")
    stream = {"name": name, **(options or {})}
    if stream["name"] != name:
        raise InvalidValue.of(
            name, "name", f"name is given twice, the other is {stream['name']!r}; leave it out"
        )
    return stream


def _streams(streams: object) -> tuple[Stream, ...]:
    if isinstance(streams, Stream) or not isinstance(streams, Iterable):
        raise InvalidType.must("streams", "a list of bd.Stream", streams, owner="JoinQuery")
    frozen = tuple(streams)
    for stream in frozen:
        if not isinstance(stream, Stream):
            raise InvalidType.must("streams", "bd.Stream values", stream, owner="JoinQuery")
    if not 2 <= len(frozen) <= MAX_STREAMS:
        raise InvalidValue(
            f"JoinQuery: a join needs 2 to {MAX_STREAMS} streams; got {len(frozen)}"
            + (f" ({frozen[0].name!r})" if len(frozen) == 1 else ""),
            option="streams",
        )
    return frozen


def _tuning(tuning: object) -> Tuning:
    if isinstance(tuning, Mapping):
        with about("tuning"):
            return Tuning.from_dict(tuning)
    if not isinstance(tuning, Tuning):
        raise InvalidType.must("tuning", "bd.Tuning", tuning, owner="JoinQuery")
    return tuning


def _within(within: Any, names: Sequence[str]) -> Within | None:
    if not within:
        return None
    tightest: dict[tuple[str, str], tuple[int, int]] = {}
    for position, pair, bound in _within_items(within):
        with about("within", position):
            first, second = _within_pair(pair, names)
            low, high = _within_bound(bound, f"within ({first!r}, {second!r})")
        if names.index(first) > names.index(second):
            first, second, low, high = second, first, -high, -low
        old = tightest.get((first, second), (low, high))
        tightest[first, second] = (max(low, old[0]), min(high, old[1]))
    return tuple((pair, (to_text(a), to_text(b))) for pair, (a, b) in sorted(tightest.items()))


def _within_items(within: Any) -> list[tuple[Any, Any, Any]]:
    """Where each bound is, its pair of streams, and the bound itself."""
    if isinstance(within, Mapping):
        return [(pair, pair, bound) for pair, bound in within.items()]
    try:
        return [
            (i, tuple(w["streams"]), (w["from"], w["to"])) if isinstance(w, Mapping) else (i, w[0], w[1])
            for i, w in enumerate(within)
        ]
    except (TypeError, KeyError, IndexError):
        raise InvalidType(
            "within must map pairs of streams to bounds, such as "
            f"{{('orders', 'payments'): '1 hour'}}; got {shown(within)}",
            option="within",
        ) from None


def _within_pair(pair: Any, names: Sequence[str]) -> tuple[str, str]:
    if isinstance(pair, str):
        pair = [name.strip() for name in pair.split(",")]
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidType(f"within: each entry bounds a pair of streams; got {shown(pair)}")
    first, second = pair
    for name in (first, second):
        _known(name, names, "within")
    if first == second:
        raise InvalidValue(f"within: a pair must name two different streams; got {first!r} twice")
    return first, second


def _within_bound(bound: Any, owner: str) -> tuple[int, int]:
    if isinstance(bound, tuple | list):
        if len(bound) != 2:
            raise InvalidType(f"{owner} must be a duration or a (from, to) pair; got {shown(bound)}")
        low, high = (to_us(b, owner=owner) for b in bound)
    else:
        high = to_us(bound, owner=owner)
        low = -high
    if low > high:
        raise InvalidValue(f"{owner}: from must not be above to; got {bound!r}")
    return low, high


def _select(select: Any, names: Sequence[str]) -> tuple[tuple[str, str], ...] | None:
    if select is None:
        return None
    try:
        pairs = tuple((name, source) for name, source in dict(select).items())
    except (TypeError, ValueError):
        pairs = ()
    if not pairs:
        raise InvalidType(
            "select must map output names to stream.column, such as "
            f"{{'order_id': 'orders.order_id'}}; got {shown(select)}",
            option="select",
        )
    for name, source in pairs:
        with about("select", name):
            _check_selected(name, source, names)
    return pairs


def _check_selected(name: Any, source: Any, names: Sequence[str]) -> None:
    if not isinstance(name, str) or not isinstance(source, str) or "." not in source:
        raise InvalidValue(f"select {shown(name)} must be 'stream.column'; got {shown(source)}", value=source)
    _known(source.split(".", 1)[0], names, f"select {name!r}")
    if name == RESULT_TIME:
        raise InvalidValue(f"select: the name {RESULT_TIME!r} is taken by the result's time")
