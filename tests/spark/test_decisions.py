"""Decisions that are recorded before a batch: who makes them of what, where they hold, and where not."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import braided as bd
from braided.policies.recorded import Decision, Keep
from braided.spark import decisions, measures
from braided.spark.checkpoint import planned_by
from braided.spark.plan import JoinPlan
from braided.spark.sources.decided import beat_in
from braided.spark.sources.heartbeat import BeatReader
from braided.spark.wire.early import Early, Recorded, budget_of, early, entry, may_drop
from braided.spark.wire.pack import beat, pack
from braided.spark.wire.packed import Packed, packed_rows
from braided.testing import bag
from tests.seeds import seeds
from tests.spark.simulator import Simulator
from tests.spark.streams import exact, generated, query, read, write
from tests.workloads import names_of, random_tables, stream

NAMES = names_of(2)
SHED = bd.Overload(12, shed="input")
SCHEMA = pa.schema([("k", pa.int64()), ("id", pa.int64()), ("t", pa.timestamp("us")), ("n", pa.int64())])


def planned(
    overload: bd.Overload | None = SHED, late: Literal["drop", "flag"] = "drop", **of: Any
) -> JoinPlan:
    q = bd.JoinQuery([stream(n, "60 us", **of) for n in NAMES], overload=overload)
    schemas = tuple(table.schema for table in random_tables(1, NAMES, rows=1).values())
    return JoinPlan(q, schemas, 4, late)


def kept(plan: JoinPlan, **keep: Keep) -> Recorded:
    return Recorded(5, Decision(budget_of(plan.query.overload), keep=keep))


def rows_of(blocks: list[pa.RecordBatch]) -> Counter[Any]:
    return bag(pa.Table.from_batches(blocks)) if blocks else Counter()


# rows that are not sent


def test_oracle_the_same_rows_are_sent_whatever_the_order_and_the_batches() -> None:
    plan = planned()
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        table = random_tables(seed, NAMES, rows=int(rng.integers(1, 400)), keys=50, nulls=False)[NAMES[0]]
        keep = Keep(float(rng.choice([0.01, 0.2, 0.6])), int(rng.choice([1, 10, 100])))
        sent = []
        for _ in range(3):
            sending = Early(plan.layouts[0], keep, 77)
            for part in table.take(rng.permutation(table.num_rows)).to_batches(int(rng.integers(1, 90))):
                sending.add(part)
            sent.append(list(sending.rows()))
            assert sending.seen == table.num_rows
        assert rows_of(sent[0]) == rows_of(sent[1]) == rows_of(sent[2])
        assert not rows_of(sent[0]) - bag(table)
        if table.num_rows <= keep.rows:
            assert rows_of(sent[0]) == bag(table)


def test_about_as_many_are_sent_as_was_decided_and_others_in_another_batch() -> None:
    plan = planned()
    table = random_tables(3, NAMES, rows=4000, keys=10**6, nulls=False)[NAMES[0]]
    sent = []
    for batch in (5, 6):
        recorded = Recorded(batch, kept(plan, s0=Keep(0.1, 3)).decision)
        sending = early(plan, 0, recorded)
        assert sending is not None
        for part in table.to_batches(300):
            sending.add(part)
        sent.append(rows_of(list(sending.rows())))
        assert 300 < sent[-1].total() < 500
    assert (sent[0] & sent[1]).total() < 100


def test_few_more_rows_are_held_than_are_sent() -> None:
    plan = planned()
    sending = Early(plan.layouts[0], Keep(0.01, 50), 1)
    for part in random_tables(3, NAMES, rows=20_000, keys=10**6)[NAMES[0]].to_batches(100):
        sending.add(part)
    assert sum(held.num_rows for held, _ in sending._held) < 3_000


def test_rows_that_are_dropped_early_are_counted_and_move_the_watermark() -> None:
    """Every row counts once: with those that were dropped early, and their newest time is told."""
    plan = planned()
    table = random_tables(4, NAMES, rows=300, keys=8)[NAMES[0]]
    everything = controls(plan, table, None)
    some = controls(plan, table, kept(plan, s0=Keep(0.1, 5)))
    for all_sent, some_sent in zip(everything, some, strict=True):
        assert some_sent.newest_us == all_sent.newest_us
        assert some_sent.dropped == all_sent.dropped
        assert some_sent.joining + some_sent.early == all_sent.joining
        assert (some_sent.rows_in, some_sent.null_keys) == (all_sent.rows_in, all_sent.null_keys)
        assert some_sent.reads
        assert not all_sent.reads
    assert [row.shed_rows for row in some] == [some[0].early, 0, 0, 0]
    assert 0.6 < some[0].early / everything[0].joining < 0.99


def controls(plan: JoinPlan, table: pa.Table, recorded: Recorded | None) -> list[Packed]:
    sent = packed_rows(
        pack(plan, 0, iter(table.to_batches()), None if recorded is None else lambda: recorded)
    )
    rows = [row for row in sent if row.blob is None]
    blobs_ = sum(row.blob is not None for row in sent)
    assert blobs_ <= 4
    return rows


@pytest.mark.parametrize("option", ["late", "unique", "ordered", "clustered"])
def test_streams_of_which_every_row_must_be_seen_send_all(option: str) -> None:
    """Late rows that are to be handed out were dropped; so were rows that tell of their keys.

    A key of a unique stream whose only row was dropped early was never closed, and partners stayed for ever.
    """
    promise: dict[str, Any] = {"unique": {"unique": True}, "late": {}}.get(option, {"arrival": option})
    plan = planned(late="flag" if option == "late" else "drop", **promise)
    assert not may_drop(plan, 0)
    table = random_tables(4, NAMES, rows=300)[NAMES[0]]
    assert not any(row.early or row.reads for row in controls(plan, table, kept(plan, s0=Keep(0.1, 5))))


def test_a_decision_holds_for_its_budget_only() -> None:
    """Story: a query was restarted with a hundred times the budget, and went on dropping rows for a batch."""
    plan, before = planned(bd.Overload(1200, shed="input")), planned()
    assert early(plan, 0, kept(before, s0=Keep(0.1, 5))) is None
    assert early(plan, 0, kept(plan, s0=Keep(0.1, 5))) is not None
    for other in (bd.Overload(12, shed="input", allocation="inverse"), bd.Overload(12), None):
        assert early(planned(other), 0, kept(before, s0=Keep(0.1, 5))) is None
        assert budget_of(other) != budget_of(SHED)


# what tasks read


def log(folder: Path, text: str, *, query_id: str = "q") -> Path:
    """A checkpoint as Spark writes it."""
    (folder / "offsets").mkdir()
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    (folder / "offsets" / "7").write_text(text)
    return folder / "offsets"


def offset(**decided: str) -> str:
    return json.dumps({"braided": "fp", "epochs": "0", "beat": 0, "run": 0, **decided})


def test_a_decision_is_read_from_sparks_log(tmp_path: Path) -> None:
    decision = Decision(9, keep={"a": Keep(0.5, 3)})
    own, meta = offset(decided=decision.text()), '{"batchWatermarkMs":0}'
    offsets = log(tmp_path, f'v1\n{meta}\n{{"logOffset":3}}\n-\n{own}\n')
    assert entry(offsets, 7, "q") == Recorded(7, decision)
    (offsets / "8").write_text(f'v2\n{meta}\n1:{{"logOffset":3}}\n0:-\nbraided:{own}\n')
    assert entry(offsets, 8, "q") == Recorded(8, decision)
    assert planned_by((offsets / "7").read_bytes()) == planned_by((offsets / "8").read_bytes()) == "fp"


def test_a_topic_with_our_name_is_not_taken_for_the_heartbeat(tmp_path: Path) -> None:
    decision = Decision(9, keep={"a": Keep(0.5, 3)})
    topic = json.dumps({"braided": {"0": 7}, "decided": "{}"})
    offsets = log(tmp_path, f"v1\n{{}}\n{topic}\n{offset(decided=decision.text())}\n")
    assert entry(offsets, 7, "q") == Recorded(7, decision)


@pytest.mark.parametrize("decided", [{}, {"decided": ""}, {"decided": "{"}, {"decided": '{"keep":{"a":1}}'}])
def test_what_says_nothing_decides_nothing(decided: dict[str, str], tmp_path: Path) -> None:
    assert entry(log(tmp_path, f"v1\n{{}}\n{offset(**decided)}\n"), 7, "q") == Recorded(7, Decision())


@pytest.mark.parametrize("text", ["", "v1\n{}\n", "v1\n{}\n" + offset()[:-4], "\x00\n[1]\n7\n"])
def test_a_broken_entry_cannot_be_read(text: str, tmp_path: Path) -> None:
    assert entry(log(tmp_path, text), 7, "q") is None


def test_another_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    """Story: the folder that was named was that of an older query, whose last decision dropped most rows."""
    offsets = log(tmp_path, f"v1\n{{}}\n{offset()}\n", query_id="other")
    assert entry(offsets, 7, "q") is None
    assert entry(offsets, 7, "other") is not None
    assert entry(offsets, 8, "other") is None
    assert entry(tmp_path / "missing" / "offsets", 7, "q") is None
    (tmp_path / "metadata").write_text("[]")
    assert entry(offsets, 7, "q") is None
    (offsets / "9").write_bytes(b"\xff\xfe")
    assert entry(offsets, 9, "q") is None


def test_where_spark_logs() -> None:
    plan = planned()
    for checkpoint, wanted in {
        "/data/check point": "/data/check point/offsets",
        "file:/data/c": "/data/c/offsets",
        "file:///data/c/": "/data/c/offsets",
        "relative": str(Path.cwd() / "relative" / "offsets"),
        "s3a://bucket/c": None,
        "hdfs://host/c": None,
        "dbfs:/c": None,
    }.items():
        assert decisions.offsets_of(plan, checkpoint) == wanted
    assert decisions.offsets_of(plan, None) is None
    assert decisions.offsets_of(planned(bd.Overload(9)), "/data/c") is None
    assert decisions.offsets_of(planned(None), "/data/c") is None


def test_the_heartbeat_passes_over_a_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "decided.json"
    reader = BeatReader("fp", "0", beating=False, decisions=str(file))
    before = {"beat": 0, "decided": Decision(1, {1: 0.5}).text()}
    good = Decision(2, {1: 0.7}).text()
    for found in (None, b"", good[:-2].encode(), b"\xff"):
        if found is not None:
            file.write_bytes(found)
        assert reader.latestOffset(before)["decided"] == before["decided"]
        assert "decided" not in reader.latestOffset({"beat": 0})
    file.write_text(good)
    assert reader.latestOffset(before)["decided"] == good
    (part,) = reader.partitions({"braided": "fp", "epochs": "0"}, reader.latestOffset(before))
    assert list(reader.read(part)) == [(0, 0, False, good)]


# what buckets are told


def told(plan: JoinPlan, decision: Decision) -> dict[int, Any]:
    beats = {"beat": [0], "run": [0], "changed": [False], "decided": [decision.text()]}
    rows = packed_rows(beat(plan, iter([pa.record_batch(beats)])))
    return {row.bucket: tuple(row.decided) for row in rows if row.decided is not None}


def test_buckets_are_told_their_parts() -> None:
    plan = planned(bd.Overload(9))
    parts, of = dict.fromkeys(plan.labels, 0.25), budget_of(plan.query.overload)
    nothing = dict.fromkeys(plan.labels, (-1.0, -1))
    assert told(plan, Decision(of, parts | {3: 0.1})) == dict.fromkeys(plan.labels, (0.25, -1))
    assert told(plan, Decision(of, parts, rows=7)) == dict.fromkeys(plan.labels, (0.25, 7))
    assert told(plan, Decision(of + 1, parts, rows=7)) == nothing
    assert told(plan, Decision(of)) == nothing


def test_new_buckets_do_not_starve() -> None:
    """Story: after a start with more buckets the new ones had no part, so a tenth of the budget."""
    plan = planned(bd.Overload(9))
    few = dict.fromkeys(plan.labels[:2], 0.5)
    assert set(told(plan, Decision(budget_of(plan.query.overload), few)).values()) == {(-1.0, -1)}


# what is decided by what buckets say


def test_all_buckets_get_a_part_and_those_without_rows_the_average() -> None:
    plan = planned(bd.Overload(40))
    curve = [[5, 10], [10, 20], [20, 40]]
    said = [{"label": label, "curve": curve} for label in plan.labels[:3]]
    found = decisions.decided(plan, [*said, {"label": plan.labels[3], "curve": []}])
    assert found.parts.keys() == set(plan.labels)
    assert found.parts[plan.labels[3]] == 0.25
    assert list(found.parts.values()) == pytest.approx([0.25] * 4, abs=1e-5)
    assert sum(found.parts.values()) <= 1
    assert decisions.decided(plan, [{"label": plan.labels[0], "curve": curve}]).empty


class Told:
    """A calm history: batches of rows with keys that all meet, and what becomes of them."""

    def __init__(self, overload: bd.Overload | None, buckets: int = 4) -> None:
        self.simulator = Simulator(
            np.random.default_rng(1), dict.fromkeys(NAMES, SCHEMA), calm=True, late="drop"
        )
        self.simulator.reading = set(NAMES)
        self.ids = self.now = self.early = 0
        self.start(overload, buckets)

    def start(self, overload: bd.Overload | None, buckets: int = 4) -> None:
        streams = [bd.Stream(n, "k", time="t", window="50 us", lateness="0 us") for n in NAMES]
        self.simulator.start(bd.JoinQuery(streams, overload=overload), buckets)

    def batch(self, *rows: int, late: int = 0) -> list[int]:
        """A batch with so many rows of each stream, `late` of them in any case; return how many entered."""
        simulator = self.simulator
        before = self.shed()
        self.now += 10
        simulator.batch({n: self.table(r, late) for n, r in zip(NAMES, rows, strict=True)})
        shed = [now - then for now, then in zip(self.shed(), before, strict=True)]
        self.early = sum(self.sent(i)[0] - self.sent(i)[1] for i in range(len(NAMES)))
        return [n - late - lost for n, lost in zip(rows, shed, strict=True)]

    def table(self, rows: int, late: int) -> pa.Table:
        times = np.full(rows, self.now)
        times[:late] = 0
        self.ids += rows
        ids = np.arange(self.ids - rows, self.ids)
        columns = {"k": ids % 7, "id": ids, "t": times, "n": ids}
        return pa.table({c: pa.array(v, pa.int64()) for c, v in columns.items()}).cast(SCHEMA)

    def sent(self, number: int) -> tuple[int, int]:
        shared = [load.shared for _, load in measures.read([*self.simulator.reports.values()])]
        return tuple(shared[0]["sent"][number][:2]) if shared[0] else (0, 0)

    def shed(self) -> list[int]:
        metas = list(self.simulator.metas().values())
        return [self.simulator._shed(metas, name) for name in NAMES]


def test_a_burst_is_dropped_early_and_what_follows_is_not() -> None:
    history = Told(SHED)
    assert history.batch(2, 2) == [2, 2]
    assert sum(history.batch(200, 200)) == 12
    assert history.early == 0  # nobody had known
    entered = history.batch(200, 200)
    assert 0 < sum(entered) <= 12
    assert history.early > 300
    for _ in range(4):
        history.batch(200, 200)
        assert history.early > 300
    assert history.batch(2, 2) == [2, 2]
    assert history.early == 0
    history.simulator.check(exact=False, input_shed=True)


def test_one_stream_stops_and_the_other_may_have_its_part_soon() -> None:
    history = Told(SHED)
    for _ in range(3):
        history.batch(300, 300)
    history.batch(300, 0)
    assert history.batch(300, 0)[0] >= 11


def test_late_rows_are_no_reason_to_drop_others() -> None:
    """Story: most rows were late, so few entered, and half of all were dropped before they were sent."""
    history = Told(bd.Overload(300, shed="input"))
    for _ in range(5):
        history.batch(5, 5)
    for _ in range(4):
        assert history.batch(100, 100, late=80) == [20, 20]
        assert history.early == 0
    history.simulator.check()


def test_a_start_with_an_ample_budget_drops_nothing_more() -> None:
    history = Told(SHED)
    for _ in range(3):
        history.batch(200, 200)
    assert history.early > 0
    history.start(bd.Overload(10**6, shed="input"))
    for _ in range(3):
        assert history.batch(200, 200) == [200, 200]
    assert history.simulator.recorded.decision.empty, "what has no reason any more is taken back"
    history.start(None)
    assert history.batch(200, 200) == [200, 200]
    history.start(SHED)
    assert sum(history.batch(200, 200)) == 12


def test_a_restart_goes_on_with_what_is_recorded() -> None:
    history = Told(SHED)
    for _ in range(3):
        history.batch(200, 200)
    before = history.simulator.recorded
    history.start(SHED)
    history.batch(200, 200)
    assert history.simulator.recorded.decision == before.decision
    assert history.early > 0


def test_nothing_is_dropped_early_of_a_stream_that_some_task_cannot_read_about() -> None:
    history = Told(SHED)
    history.simulator.reading = {"s0"}
    for _ in range(3):
        history.batch(200, 200)
    assert history.simulator.recorded.decision.keep.keys() == {"s0"}
    assert sum(history.batch(200, 200)) <= 12


def test_an_idle_join_comes_to_rest() -> None:
    """What is decided for a batch without rows would make another one, for ever."""
    history = Told(SHED)
    for _ in range(3):
        history.batch(200, 200)
    history.simulator.batch({})
    decided = history.simulator.decided
    for _ in range(3):
        history.simulator.batch({})
        assert history.simulator.decided == decided
        assert not history.simulator.changed


# on Spark


class Sink:
    """Every batch's rows, of all attempts at it."""

    def __init__(self) -> None:
        self.batches: dict[int, list[pa.Table]] = {}

    def __call__(self, df: DataFrame, batch: int) -> None:
        self.batches.setdefault(batch, []).append(df.toArrow())


def go(df: DataFrame, root: Path, sink: Sink) -> StreamingQuery:
    writer = df.writeStream.foreachBatch(sink).option("checkpointLocation", str(root / "checkpoint"))
    streaming: StreamingQuery = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    return streaming


def dropped_early(streaming: StreamingQuery) -> dict[int, int]:
    """By batch."""
    found = {}
    for progress in (json.loads(p.json) for p in streaming.recentProgress):
        for _, load in measures.read(progress["observedMetrics"]["braided"]["buckets"])[:1]:
            sent = load.shared.get("sent", ())
            found[progress["batchId"]] = sum(came - went for came, went, _ in sent)
    return found


def test_rows_are_dropped_before_they_are_sent_and_a_repeated_batch_drops_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    names, sink = ["a", "b"], Sink()
    tables = generated(names, 2_400, keys=300)
    write(tmp_path, tables, 4)
    asked = query(names, overload=bd.Overload(120, shed="input"))
    checkpoint = str(tmp_path / "checkpoint")
    df = bd.spark.join(asked, read(spark, tmp_path, tables), buckets=2, checkpoint=checkpoint)
    streaming = go(df, tmp_path, sink)
    lost = dropped_early(streaming)
    assert lost[0] == 0
    assert lost[2] > 600
    assert lost[3] > 600
    found = pa.concat_tables([of_batch[0] for of_batch in sink.batches.values()])
    wanted = exact(query(names), tables)
    assert 0 < found.num_rows < wanted.num_rows
    assert not bag(found.select(wanted.column_names)) - bag(wanted)
    seen = bd.spark.metrics(streaming)
    assert sum(s.shed_rows for s in seen.streams.values()) > lost[2] + lost[3]
    accepted = sum(s.rows_in - s.null_keys - s.shed_rows for s in seen.streams.values())
    assert 3 * 120 < accepted <= 4 * 120

    for kind, batches in (("offsets", "456"), ("commits", "3456")):  # batch 3 was not committed after all
        for path in (tmp_path / "checkpoint" / kind).iterdir():
            if path.name.strip(".").split(".")[0] in batches:
                path.unlink()
    again = go(df, tmp_path, sink)
    first, second = sink.batches[3]
    assert first.num_rows
    assert bag(first) == bag(second)
    assert dropped_early(again)[3] == lost[3]


def test_a_target_time_drops_rows_early_too(spark: SparkSession, tmp_path: Path) -> None:
    """With several keys, where all buckets must let in the same rows; and with Spark's other log format."""
    names, sink = ["a", "b", "c"], Sink()
    rng = np.random.default_rng(1)
    tables = {
        n: t.append_column("m", pa.array(rng.integers(0, 9, t.num_rows)))
        for n, t in generated(names, 1_200, keys=40).items()
    }
    write(tmp_path, tables, 3)
    streams = [bd.Stream(n, time="t", window="3 seconds", lateness="0 seconds") for n in names]
    asked = bd.JoinQuery(
        streams,
        on=[("a.k", "b.k"), ("b.m", "c.m")],
        overload=bd.Overload(target_batch="1 millisecond", shed="input"),
    )
    frames = read(spark, tmp_path, tables)
    df = bd.spark.join(asked, frames, buckets=4, layout="grid", checkpoint=str(tmp_path / "checkpoint"))
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    try:
        streaming = go(df, tmp_path, sink)
    finally:
        spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")
    found = pa.concat_tables([of_batch[0] for of_batch in sink.batches.values()])
    wanted = exact(dataclasses.replace(asked, overload=None), tables)
    assert not bag(found.select(wanted.column_names)) - bag(wanted)
    assert dropped_early(streaming)[2] > 0
    assert beat_in((tmp_path / "checkpoint" / "offsets" / "2").read_text())["decided"]
