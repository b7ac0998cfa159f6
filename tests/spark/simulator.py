"""Histories of a join on Spark, without Spark: a seeded simulator of everything that may happen to its tasks.

It packs, routes, keeps every bucket's state in versions, and commits batch by batch. In between, attempts are
killed at any call to the state store, repeated, raced (one attempt's output is paired with another's state)
or lost with the whole batch; workers lose their live engines, or find those of attempts that never counted;
the query is restarted as it was, or with other windows, conditions, buckets, layouts, hot keys, plans and
lateness.

What comes out is compared with the definition: every epoch's results by nested loops over the rows that were
accepted, and late rows, each once. What is stored at the end is compared with what must be.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import braided as bd
from braided.query.layout import Layout, choose
from braided.spark import epochs
from braided.spark.bucket import Bucket
from braided.spark.plan import LATE_COLUMN, JoinPlan
from braided.spark.storage.store import META, Meta
from braided.spark.wire import blobs
from braided.spark.wire.pack import beat, pack
from braided.spark.wire.packed import Packed, packed_rows
from braided.testing import bag, expected

Tables = dict[str, pa.Table]


class Killed(Exception):
    """A worker died."""


@dataclasses.dataclass
class Stored:
    """A bucket's state in the state store; as an attempt sees it, it may die at one of its calls."""

    meta: bytes | None = None
    chunks: dict[int, bytes] = dataclasses.field(default_factory=dict)
    calls_left: int | None = None

    def copy(self, calls_left: int | None = None) -> Stored:
        return Stored(self.meta, dict(self.chunks), calls_left)

    def _call(self) -> None:
        if self.calls_left is not None:
            if not self.calls_left:
                raise Killed
            self.calls_left -= 1

    def get(self, number: int) -> bytes | None:
        self._call()
        return self.meta if number == META else self.chunks.get(number)

    def put(self, number: int, data: bytes) -> None:
        self._call()
        if number == META:
            self.meta = data
        else:
            self.chunks[number] = data

    def remove(self, number: int) -> None:
        self._call()
        del self.chunks[number]


class Simulator:
    """One checkpoint's history."""

    def __init__(
        self, rng: np.random.Generator, schemas: Mapping[str, pa.Schema], *, arena: str = ""
    ) -> None:
        self.rng, self.schemas, self.arena = rng, schemas, arena
        self.committed: dict[int, Stored] = {}
        self.plan: JoinPlan | None = None
        self.epochs: dict[int, JoinPlan] = {}  # by number, as last planned
        self.found: list[pa.Table] = []
        self.late: Counter[tuple[str, Any]] = Counter()
        self.accepted: dict[str, list[pa.Table]] = {n: [s.empty_table()] for n, s in schemas.items()}
        self.wanted_late: Counter[tuple[str, Any]] = Counter()
        self.newest: dict[str, int | None] = dict.fromkeys(schemas)
        self.watermark: int | None = None
        self.changed = True

    # what a driver does

    def start(self, query: bd.JoinQuery, buckets: int, layout: Layout | None = None) -> None:
        """Start the query, or start it again with the committed state; it may have changed."""
        schemas = tuple(self.schemas[name] for name in query.names)
        layout = layout or choose(query, buckets)
        plan = JoinPlan(query, schemas, buckets, "flag", self.arena, layout=layout, checkpoint="here")
        metas = {label: Meta.decode(s.meta) for label, s in self.committed.items() if s.meta is not None}
        self.plan = epochs.resume(plan, metas) if metas else plan
        self.epochs |= {live.epoch.number: live for live in self.plan.live}
        self.changed = True
        late_us = {s.name: s.lateness_us for s in query.streams}
        known = [t - late_us[n] for n, t in self.newest.items() if t is not None]
        if len(known) == len(self.newest):
            self.watermark = max(min(known), self.watermark if self.watermark is not None else min(known))

    def batch(self, tables: Tables) -> None:
        """A micro-batch: whatever attempts there are, one of each bucket counts."""
        while self.rng.random() < 0.1:  # all of it is lost, before it was committed
            self._attempt(tables)
        self._commit(*self._attempt(tables))
        self._judge(tables)

    # parts of the above

    def _attempt(self, tables: Tables) -> tuple[dict[int, Stored], list[pa.RecordBatch]]:
        assert self.plan is not None
        states, out = dict(self.committed), []
        for label, rows in self._packed(tables).items():
            if label not in self.plan.labels:
                states.pop(label, None)
                continue
            made = [self._bucket(label, rows) for _ in range(1 + (self.rng.random() < 0.15))]
            states[label], _ = made[int(self.rng.integers(len(made)))]
            out += made[int(self.rng.integers(len(made)))][1]
        return states, out

    def _bucket(self, label: int, rows: list[Packed]) -> tuple[Stored, list[pa.RecordBatch]]:
        """An attempt at a bucket that comes to its end; others may have died before."""
        assert self.plan is not None
        before = self.committed.get(label, Stored())
        while True:
            dies = int(self.rng.integers(0, 12)) if self.rng.random() < 0.15 else None
            state = before.copy(dies)
            order = self.rng.permutation(len(rows))
            try:
                made = list(Bucket(*self.plan.place(label), state, "query").run([rows[i] for i in order]))
            except Killed:
                continue
            state.calls_left = None
            return state, [blobs.decode(f.blob) for f in made if f.blob is not None]

    def _packed(self, tables: Tables) -> dict[int, list[Packed]]:
        assert self.plan is not None
        parts: list[Iterator[pa.RecordBatch]] = []
        for number, name in enumerate(self.plan.query.names):
            table = tables.get(name)
            if table is None:
                continue
            cuts = sorted(self.rng.integers(0, table.num_rows + 1, int(self.rng.integers(0, 3))).tolist())
            for low, high in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
                parts.append(pack(self.plan, number, iter(table.slice(low, high - low).to_batches())))
        beats = pa.record_batch({"beat": [0], "run": [0], "changed": [self.changed]})
        parts += [beat(self.plan, iter([beats]))] if self.changed else []
        by_label: dict[int, list[Packed]] = {}
        for number, part in enumerate(parts):
            for row in packed_rows(part):
                by_label.setdefault(row.bucket, []).append(row._replace(part=number))
        return by_label

    def _commit(self, states: dict[int, Stored], out: list[pa.RecordBatch]) -> None:
        assert self.plan is not None
        self.committed = states
        self.changed = False
        if not out:
            return
        table = pa.Table.from_batches(out, self.plan.schema)
        flagged = pc.is_valid(table[LATE_COLUMN])
        self.found.append(table.filter(pc.invert(flagged)).drop_columns([LATE_COLUMN]))
        for row in table.filter(flagged).to_pylist():
            name = row[LATE_COLUMN]
            self.late[name, row[f"{name}_id"]] += 1

    def _judge(self, tables: Tables) -> None:
        """What the definition makes of the batch: which of its rows are late, and how far time comes."""
        assert self.plan is not None
        for name, table in tables.items():
            late = [self.watermark is not None and t is not None and t < self.watermark for t in _us(table)]
            joined = [table[c].to_pylist() for c in self.plan.query.graph.columns(name)]
            keyed = [None not in key for key in zip(*joined, strict=True)] if joined else [True] * len(late)
            ids = zip(table["id"].to_pylist(), late, keyed, strict=True)
            self.wanted_late.update((name, i) for i, was, joins in ids if was and joins)
            self.accepted[name].append(table.filter(pa.array([not was for was in late], pa.bool_())))
            seen = [t for t in (*_us(table), self.newest[name]) if t is not None]
            self.newest[name] = max(seen, default=None)
        known = [t - s.lateness_us for s in self.plan.query.streams if (t := self.newest[s.name]) is not None]
        if len(known) == len(self.newest):
            self.watermark = max(min(known), self.watermark if self.watermark is not None else min(known))

    # what must be

    def wanted(self) -> Counter[Any]:
        """Every epoch's results, by the definition."""
        tables = {n: pa.concat_tables(ts) for n, ts in self.accepted.items()}
        bags: Counter[Any] = Counter()
        numbers = sorted(self.epochs)
        for number, after in zip(numbers, [*numbers[1:], None], strict=True):
            plan = self.epochs[number]
            since, until = plan.epoch.since_us, None if after is None else self.epochs[after].epoch.since_us
            results = expected(plan.query, tables)
            times = zip(*(_us(results, f"{name}_t") for name in plan.query.names), strict=True)
            oldest = [min(t) for t in times]
            owned = [(since is None or since <= t) and (until is None or t < until) for t in oldest]
            bags += bag(results.filter(pa.array(owned, pa.bool_())))
        return bags

    def check(self) -> None:
        """Nothing missing, nothing doubled, late rows once each."""
        got: Counter[Any] = Counter()
        for table in self.found:
            got += bag(table)
        wanted = self.wanted()
        missing, doubled = wanted - got, got - wanted
        assert got == wanted, (
            f"missing {missing.total()}, doubled or wrong {doubled.total()} of {wanted.total()}: "
            f"{list(missing)[:2]} {list(doubled)[:2]}"
        )
        assert self.late == self.wanted_late, (self.late - self.wanted_late, self.wanted_late - self.late)

    def check_forgotten(self, query: bd.JoinQuery, layout: Layout, last: Tables) -> None:
        """Once time has moved on only the last rows are stored, and after a start one epoch lives."""
        for _ in range(2):
            self.start(query, layout.cells, layout)
            self.batch(last)
        assert self.plan is not None
        assert self.committed.keys() == set(self.plan.labels)
        assert len(self.plan.live) == 1
        for name, rows in self.rows().items():
            if name in self.schemas:
                assert rows <= 2 * layout.cells * last[name].num_rows, (name, rows)

    def rows(self) -> dict[str, int]:
        """How many rows are stored, by stream."""
        metas = [Meta.decode(s.meta) for s in self.committed.values() if s.meta is not None]
        rows: Counter[str] = Counter()
        for meta in metas:
            rows.update({n: sum(c.live_rows for c in chunks) for n, chunks in meta.by_input().items()})
        return dict(rows)


def _us(table: pa.Table, column: str = "t") -> list[int | None]:
    values: list[int | None] = table[column].cast(pa.int64()).to_pylist()
    return values
