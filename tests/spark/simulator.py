"""Histories of a join on Spark, without Spark: a seeded simulator of everything that may happen to its tasks.

It packs, routes, keeps every bucket's state in versions, and commits batch by batch. In between, attempts are
killed at any call to the state store, repeated, raced (one attempt's output is paired with another's state)
or lost with the whole batch, with the driver or without; workers lose their live engines, or find those of
attempts that never counted; the query is restarted as it was, or with other windows, conditions, buckets,
layouts, hot keys, plans, budgets and lateness. The recorded clock beats. After batches it is decided how
budgets are shared and which rows are dropped before they are sent, which holds from some later batch on.

What comes out is compared with the definition (`definition`): every epoch's results over the rows that were
accepted, and late rows, each once. What is stored at the end is compared with what must be.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import braided as bd
from braided.engine.watermark import Clock
from braided.policies.recorded import Decision
from braided.query.layout import Layout, choose
from braided.query.plan_tree import intermediates
from braided.query.plan_tree import label as name_of
from braided.spark import decisions, epochs, measures
from braided.spark.bucket import Bucket
from braided.spark.checkpoint import finishing_plan
from braided.spark.plan import LATE_COLUMN, JoinPlan
from braided.spark.sources.decided import DECIDED, MARK
from braided.spark.storage.bucket_state import check_same_query
from braided.spark.storage.cold import cold_pieces
from braided.spark.storage.store import META, Meta
from braided.spark.wire import blobs
from braided.spark.wire.early import Read, Recorded
from braided.spark.wire.labels import bucket_of
from braided.spark.wire.pack import beat, pack
from braided.spark.wire.packed import Packed, packed_rows
from tests.spark.definition import Bag, Definition, Tables

Made: TypeAlias = list[pa.RecordBatch]
COUNTED = ("rows_in", "late_rows", "null_keys", "null_times", "punctuations")


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
    """One checkpoint's history; a `calm` one has no faults."""

    def __init__(
        self,
        rng: np.random.Generator,
        schemas: Mapping[str, pa.Schema],
        *,
        arena: str = "",
        calm: bool = False,
        late: Literal["drop", "flag"] = "flag",
    ) -> None:
        """With `late="drop"` rows may be dropped before they are sent, those of streams that can `read`."""
        self.rng, self.schemas, self.arena, self.calm = rng, schemas, arena, calm
        self.late_rows: Literal["drop", "flag"] = late
        self.reading = {name for name in schemas if late == "drop" and rng.random() < 0.9}
        self.recorded = Recorded(-1, Decision())  # the heartbeat's offset
        self.decided: Decision | None = None  # by this driver
        self._cuts: dict[tuple[int, str], list[int]] = {}  # between a batch's tasks
        self.entered: Counter[str] = Counter()  # rows that were let in
        self.loses = 0.1  # of all attempts at a batch
        self.definition = Definition(schemas)
        self.committed: dict[int, Stored] = {}
        self.plan: JoinPlan | None = None
        self.found: list[pa.Table] = []
        self.late: Counter[tuple[str, Any]] = Counter()
        self.let_in: dict[str, set[int]] = {name: set() for name in schemas}  # where input is shed
        self.reports: dict[int, str] = {}  # of the latest attempt at each bucket
        self.leaves_out = False  # whether rows may have been left out because they were too old, or for room
        self.run = self.clock_s = 0
        self.changed = True
        self._asked: tuple[Any, ...] = ()

    # what a driver does

    def start(
        self, query: bd.JoinQuery, buckets: int, layout: Layout | None = None, *, auto: bool = False
    ) -> None:
        """Start the query, or start it again with the committed state; it may have changed.

        With `auto` the layout stays as the checkpoint has it, and keys that have become hot are spread.
        """
        self.plan = plan = self._planned(query, buckets, layout, auto=auto)
        room = query.overload is not None and query.overload.cuts_windows
        self.leaves_out |= room or any(stream.freshness is not None for stream in query.streams)
        self._asked = query, buckets, layout, auto
        self.changed, self.decided = True, None
        self.run += 1
        self.definition.started(query, plan.epoch.number, plan.epoch.since_us)

    def _planned(
        self,
        query: bd.JoinQuery,
        buckets: int,
        layout: Layout | None,
        *,
        auto: bool,
        pending: str | None = None,
    ) -> JoinPlan:
        schemas = tuple(self.schemas[name] for name in query.names)
        layout = layout or choose(query, buckets)
        plan = JoinPlan(query, schemas, buckets, self.late_rows, self.arena, layout=layout, checkpoint="here")
        metas = self.metas()
        if not metas:
            return plan
        later = epochs.resume(plan, metas, pending, find_hot=auto, choose_shares=not auto)
        for label in metas.keys() & set(later.labels):
            check_same_query(metas[label], later.place(label)[0])
        return later

    def batch(self, tables: Tables, beats_s: int | None = None) -> None:
        """A micro-batch, perhaps with the recorded time: of whatever attempts there are, one counts."""
        assert self.plan is not None
        clock = None if beats_s is None else Clock(beats_s, self.run)
        self._record()
        lost, again = [], False
        while not self.calm and self.rng.random() < self.loses:  # all of it is lost, before it was committed
            lost.append((self.plan.labels, self._attempt(tables, clock)[1]))
            if self.rng.random() < 0.3:  # and the driver with it; epochs may have passed since it started
                query, buckets, layout, auto = self._asked
                pending = epochs.fingerprint(self.plan)
                self.plan, again = self._planned(query, buckets, layout, auto=auto, pending=pending), True
                self.decided = None
        states, out = self._attempt(tables, clock)
        for labels, other in lost:
            if labels == self.plan.labels:  # else an epoch that is gone had a part of budgets
                self._assert_same(other, out)
        seen, self.clock_s = len(self.found), self.clock_s if beats_s is None else beats_s
        self._commit(states, out)
        self.changed = again  # the batch was planned before: the next one tells of it
        self.run += again
        if self.plan.query.overload is not None:
            self._check_overload(self.plan.query.overload, tables, out)
            if self.calm or self.rng.random() < 0.7:  # else the next batch is planned before it is known
                self._decide()
        self.definition.judge(self.plan.query, tables, clock)
        for table in self.found[seen:]:
            self._check_fresh(self.plan.query, table)
        live = (meta for label, meta in self.metas().items() if label in self.plan.labels)
        watermarks = {meta.watermark_us for meta in live}
        assert watermarks <= {self.definition.watermark}, "one watermark for all epochs"

    def owed(self) -> list[pa.Table]:
        """What `finish` would hand out."""
        tables = []
        for label, state in self.committed.items():
            meta = Meta.decode(state.meta or b"")
            if meta.finishing:
                bucket = Bucket(finishing_plan(meta), bucket_of(label), state.copy())
                made = list(map(blobs.decode, bucket.owed()))
                tables += [pa.Table.from_batches(made)] if made else []
        return tables

    # parts of the above

    def _record(self) -> None:
        """A batch is planned: what is decided is written down with it."""
        decision = self.recorded.decision if self.decided is None else self.decided
        self.changed |= decision != self.recorded.decision
        self.recorded = Recorded(self.recorded.batch + 1, decision)
        self.ran: set[int] = set()

    def _decide(self) -> None:
        """The driver sees what the buckets reported, and the batch's offset."""
        assert self.plan is not None
        if not decisions.decides(self.plan):
            return
        offset = {MARK: "planned", "beat": 0, DECIDED: self.recorded.decision.text()}
        buckets = [self.reports[label] for label in sorted(self.ran)]
        progress: dict[str, Any] = {"observedMetrics": {measures.OBSERVED: {"buckets": buckets}}}
        progress |= {"sources": [{"endOffset": offset}]}
        self.decided = decisions.news(self.plan, progress, self.decided) or self.decided

    def _attempt(self, tables: Tables, clock: Clock | None) -> tuple[dict[int, Stored], Made]:
        assert self.plan is not None
        states, out = dict(self.committed), []
        for label, rows in self._packed(tables, clock).items():
            if label not in self.plan.labels:
                states.pop(label, None)
                continue
            raced = not self.calm and self.rng.random() < 0.15
            made = [self._bucket(label, rows) for _ in range(1 + raced)]
            self._assert_same(made[0][1], made[-1][1])
            states[label] = made[0][0]
            out += made[-1][1]
        return states, out

    def _bucket(self, label: int, rows: list[Packed]) -> tuple[Stored, Made]:
        """An attempt at a bucket that comes to its end; others may have died before."""
        assert self.plan is not None
        before = self.committed.get(label, Stored())
        while True:
            dies = int(self.rng.integers(0, 12)) if not self.calm and self.rng.random() < 0.15 else None
            state = before.copy(dies)
            order = self.rng.permutation(len(rows))
            try:
                made = list(Bucket(*self.plan.place(label), state, "query").run([rows[i] for i in order]))
            except Killed:
                continue
            state.calls_left = None
            self.ran.add(label)
            self.reports[label] = next(f.report for f in made if f.report is not None)
            return state, [blobs.decode(f.blob) for f in made if f.blob is not None]

    def _packed(self, tables: Tables, clock: Clock | None) -> dict[int, list[Packed]]:
        """Every bucket's rows; of tasks that were repeated, in another order, some buckets read the rows."""
        parts: list[tuple[str, pa.Table]] = []
        for name, table in tables.items():
            cuts = sorted(self.rng.integers(0, table.num_rows + 1, int(self.rng.integers(0, 3))).tolist())
            if self.recorded.decision.keep:  # what a task drops early depends on the rows that it has
                cuts = self._cuts.setdefault((self.recorded.batch, name), cuts)
            bounds = zip([0, *cuts], [*cuts, table.num_rows], strict=True)
            parts += [(name, table.slice(low, high - low)) for low, high in bounds]
        assert self.plan is not None
        packed, by_contents = self._by_label(parts, clock), self.plan.grid.hot_keys or self.plan.query.keyless
        if not self.calm and self.rng.random() < (0.5 if by_contents else 0.1):
            repeated = self._by_label(
                [(n, t.take(self.rng.permutation(t.num_rows))) for n, t in parts], clock
            )
            packed = {label: (packed, repeated)[self.rng.integers(2)][label] for label in packed}
        return packed

    def _by_label(
        self, parts: Sequence[tuple[str, pa.Table]], clock: Clock | None
    ) -> dict[int, list[Packed]]:
        assert self.plan is not None
        plan, names = self.plan, self.plan.query.names
        sent: list[Iterator[pa.RecordBatch]] = [
            pack(plan, names.index(name), iter(part.to_batches()), self._reader(name)) for name, part in parts
        ]
        if self.changed or clock is not None:
            seconds, run = (0, 0) if clock is None else (int(clock.seconds), clock.run)
            told = {"changed": [self.changed], "decided": [self.recorded.decision.text()]}
            beats = pa.record_batch({"beat": [seconds], "run": [run], **told})
            sent.append(beat(plan, iter([beats])))
        by_label: dict[int, list[Packed]] = {}
        for number, part in enumerate(sent):
            for row in packed_rows(part):
                by_label.setdefault(row.bucket, []).append(row._replace(part=number))
        return by_label

    def _reader(self, name: str) -> Read | None:
        return (lambda: self.recorded) if name in self.reading else None

    def _commit(self, states: dict[int, Stored], out: Made) -> None:
        assert self.plan is not None
        self.committed = states
        if not out:
            return
        table = pa.Table.from_batches(out, self.plan.schema)
        if self.late_rows == "drop":
            self.found.append(table)
            return
        flagged = pc.is_valid(table[LATE_COLUMN])
        self.found.append(table.filter(pc.invert(flagged)).drop_columns([LATE_COLUMN]))
        for row in table.filter(flagged).to_pylist():
            name = row[LATE_COLUMN]
            self.late[name, row.get(f"{name}_id")] += 1

    def _assert_same(self, one: Made, other: Made) -> None:
        """Two attempts hand out the same; results that must be exact are compared at the end."""
        assert self.plan is not None
        if one is not other and (self.plan.query.overload or self.plan.query.memory):
            names = self.plan.query.kinds.shown
            assert sum(map(_ids_of(names), one), Counter()) == sum(map(_ids_of(names), other), Counter())

    def _check_overload(self, overload: bd.Overload, tables: Tables, out: Made) -> None:
        """What is held keeps to the budget; rows that were let in are remembered."""
        assert self.plan is not None
        query, reports = self.plan.query, [self.reports[label] for label in self.plan.labels]
        if all(label in self.committed for label in self.plan.labels):
            seen = measures.combined(query.names, query.tree, [measures.read(reports)])
            rows = sum(s.live_rows for s in seen.streams.values())
            made = sum(i.live_rows for i in seen.intermediates.values())
            assert overload.state_rows is None or rows + made <= overload.state_rows
            assert overload.state_bytes is None or 64 * (rows + made) <= int(overload.state_bytes)
            for node in intermediates(query.tree):
                held, most = seen.intermediates[name_of(node)], overload.rows_of(node)
                spread = max(most or 0, len(self.plan.labels))  # each bucket holds one
                assert most is None or held.live_rows <= spread + held.entered_rows
        if overload.drops_input:
            self._note_let_in(tables, out)
            shared = [measures.read([self.reports[label]])[0][1].shared for label in self.ran]
            entered = Counter[str]()
            for of_bucket in filter(None, shared):
                entered.update(dict(zip(query.names, of_bucket["entered"], strict=True)))
            assert self._copies() or overload.probes is None or entered.total() <= overload.probes
            self.entered.update(entered)

    def _copies(self) -> bool:
        """Whether a row may go to several buckets: then it is let in by all, by its lot alone."""
        assert self.plan is not None
        grids = [live.grid for live in self.plan.live]
        return len(grids) > 1 or any(
            g.hot_keys or g.sent(dict.fromkeys(self.schemas, 1.0)) > len(self.schemas) for g in grids
        )

    def _check_fresh(self, query: bd.JoinQuery, table: pa.Table) -> None:
        """No result of a batch has a row that is too old by its clock, or has too many newer ones."""
        overload, newest = query.overload, [t for t in self.definition.newest.values() if t is not None]
        if overload is None or not table.num_rows:
            return
        clock_us = self.clock_s * 1_000_000 if overload.clock == "wall" else max(newest)
        for stream in (s for s in query.streams if s.freshness is not None):
            times = table[f"{stream.name}_t"].cast(pa.int64()).to_pylist()
            if stream.freshness_us is not None:
                assert min(times) >= clock_us - stream.freshness_us, (stream.name, min(times), clock_us)
            if stream.freshness_rows is not None:
                self._check_newer(query, stream, table)

    def _check_newer(self, query: bd.JoinQuery, stream: bd.Stream, table: pa.Table) -> None:
        """No row has as many newer ones of its key as its bound says."""
        accepted, columns = self.definition.accepted[stream.name], query.graph.columns(stream.name)
        keys = list(zip(*(accepted[c] for c in columns), strict=True))
        rows = Counter(zip(keys, accepted["t"], strict=True))
        for place in set(map(accepted["id"].index, table[f"{stream.name}_id"].to_pylist())):
            key, time = keys[place], accepted["t"][place]
            newer = sum(n for (k, t), n in rows.items() if k == key and t > time)
            assert newer < (stream.freshness_rows or 0), (stream.name, key, time, newer)

    def _note_let_in(self, tables: Tables, out: Made) -> None:
        """Which rows of a batch are stored, each in all of its cells, or have joined before they expired."""
        stored: dict[str, Counter[int]] = {name: Counter() for name in tables}
        for state, meta in zip(self.committed.values(), self.metas().values(), strict=True):
            for name, chunks in meta.by_input().items():
                for chunk in chunks if name in stored else ():
                    rows = blobs.decode(chunk.among(state.chunks[chunk.number]))
                    stored[name].update(rows["id"].to_pylist())
        assert self.plan is not None
        for name, table in tables.items():
            here = stored[name].keys() & set(table["id"].to_pylist())
            joined = (i for made in out for i in made[f"{name}_id"].to_pylist())
            self.let_in[name] |= here.union(i for i in joined if i is not None)
            cut = self.plan.query.overload is not None and self.plan.query.overload.cuts_windows
            if self.plan.resumed is None and not self.plan.grid.hot_keys and not cut:
                copies = self.plan.grid.copies(name)
                purged = self.plan.query.promises and copies > 1  # by what each cell has
                assert all(stored[name][i] == copies or (purged and stored[name][i] < copies) for i in here)

    # what must be

    def metas(self) -> dict[int, Meta]:
        """The small values of all buckets, by label."""
        return {label: Meta.decode(s.meta) for label, s in self.committed.items() if s.meta is not None}

    def check(self, *, exact: bool = True, input_shed: bool = False) -> None:
        """Nothing missing, nothing doubled, late rows once each; under overload nothing wrong."""
        assert self.plan is not None
        names = self.plan.query.kinds.shown
        owed = self.owed()
        for table in (*self.found, *owed):
            self._check_contents(table)
        got = sum((_ids(names, table) for table in self.found), Counter())
        for ended in (False, True) if self.plan.query.counts or self.plan.query.kinds.settles else (True,):
            got += sum((_ids(names, table) for table in owed), Counter()) if ended else Counter()
            if not ended and any(meta.spilled.get("defers") for meta in self.metas().values()):
                continue
            wanted = self.definition.results(self.let_in if input_shed else None, ended=ended)
            missing, wrong = wanted - got, got - wanted
            if not ended and self.plan.query.kinds.settles and self.plan.query.promises:  # nulls come early
                wrong = got - self.definition.results(ended=True)
            assert not wrong + (missing if exact else Counter()), (
                f"missing {missing.total()}, doubled or wrong {wrong.total()} of {wanted.total()}: "
                f"{list(missing)[:2]} {list(wrong)[:2]}"
            )
        wanted_late = self.definition.late if self.late_rows == "flag" else Counter()
        assert self.late == wanted_late, (self.late - wanted_late, wanted_late - self.late)
        self._check_counts()

    def _check_contents(self, table: pa.Table) -> None:
        """Every result has the columns of its rows."""
        assert self.plan is not None
        shown = self.plan.query.kinds.shown
        for name, columns in ((n, c) for n, c in self.definition.accepted.items() if n in shown):
            at = {number: i for i, number in enumerate(columns["id"])}
            places = [None if i is None else at[i] for i in table[f"{name}_id"].to_pylist()]
            for column in (c for c in ("k", "m", "n", "t") if c in columns):
                values = table[f"{name}_{column}"]
                values = values.cast(pa.int64()).to_pylist()
                assert values == [None if p is None else columns[column][p] for p in places], (name, column)

    def _check_counts(self) -> None:
        """Every row is counted once, whatever cells and epochs it went to."""
        assert self.plan is not None
        counts: dict[str, Counter[str]] = {name: Counter() for name in self.schemas}
        metas = [meta for label, meta in self.metas().items() if label in self.plan.labels]
        for meta in metas:
            for name, of_stream in meta.numbers["streams"].items():
                counts[name].update({c: of_stream["counters"].get(c, 0) for c in COUNTED})
        for name, wanted in self.definition.counts.items():
            if self.late_rows == "drop":  # of rows that were dropped early nobody knows which are late
                late, shed = counts[name].pop("late_rows"), self._shed(metas, name)
                assert late <= wanted["late_rows"] <= late + shed
                if not self.plan.query.promises:
                    nulls = counts[name]["null_keys"] + counts[name]["null_times"]
                    known = nulls + late + shed + self.entered[name]
                    assert known == counts[name]["rows_in"] or (
                        self.leaves_out and known < counts[name]["rows_in"]
                    )
                wanted = Counter({c: n for c, n in wanted.items() if c != "late_rows"})
            assert +counts[name] == +wanted, (name, counts[name], wanted)
        results = sum(meta.numbers["results"] for meta in metas)
        assert results == sum(table.num_rows for table in self.found)

    def _shed(self, metas: Sequence[Meta], name: str) -> int:
        return sum(meta.numbers["streams"][name]["counters"].get("shed_rows", 0) for meta in metas)

    def held(self) -> dict[tuple[int, str], int]:
        """How many rows are stored, by bucket and stream or intermediate."""
        rows: Counter[tuple[int, str]] = Counter()
        for label, meta in self.metas().items():
            for name, chunks in meta.by_input().items():
                rows[bucket_of(label), name] += sum(c.live_rows for c in chunks)
            for name, pieces in cold_pieces(meta).items():
                rows[bucket_of(label), name] += sum(p.rows for p in pieces)
        return dict(+rows)


def _ids(names: Sequence[str], table: pa.Table | pa.RecordBatch) -> Bag:
    return Counter(zip(*(table[f"{name}_id"].to_pylist() for name in names), strict=True))


def _ids_of(names: Sequence[str]) -> Any:
    return lambda table: _ids(names, table)
