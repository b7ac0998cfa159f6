"""What every task of a Spark join needs to know: a small value that is sent with the task."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from braided.engine.operators.inputs import described
from braided.engine.operators.layout import Layout, Output, key_format_of, layout_of, output_of
from braided.engine.sides.keys import KeyFormat
from braided.engine.site import Share
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.errors import about
from braided.query.join_query import JoinQuery
from braided.query.layout import Layout as Grid
from braided.query.layout import choose
from braided.query.plan_tree import Plan
from braided.query.subplans import Subplan, subplans, whole
from braided.spark.wire.labels import labels

BLOB_BYTES = 8 << 20  # a state call moves about 40 MB a second, and the JVM holds a blob several times
LATE_COLUMN = "late_stream"


@dataclass(frozen=True)
class Epoch:
    """A span of event time with a meaning and a layout of its own: it owns results whose oldest row is in it.

    It begins at `since_us` and ends before `until_us`; None: it is open there.
    """

    number: int = 0
    since_us: int | None = None
    until_us: int | None = None


@dataclass(frozen=True)
class Resumed:
    """What a start takes over from the committed state of a checkpoint.

    `epochs` are those that live, described, the newest last; with `begins` that one is new. All buckets know
    the same newest times, batches and watermark: new ones begin with these. `carried` is what the buckets of
    epochs that have gone had counted, as `EngineState` has it; `ended` are their labels.
    """

    checkpoint: str
    epochs: Sequence[dict[str, Any]]
    newest_us: tuple[int | None, ...]
    batches: int = 0
    watermark: Mapping[str, Any] = field(default_factory=dict)  # as it was saved
    carried: Mapping[str, Any] = field(default_factory=dict)
    ended: tuple[int, ...] = ()
    begins: bool = False


@dataclass(frozen=True)
class JoinPlan:
    """A query with the schemas of its streams, the number of buckets, and what happens to late rows.

    `arena` names the application for which live engines are kept in files between batches; without a name
    they are not. Rows go where `layout` says (None: as the query alone suggests), or are `staged`: then a
    join with several keys has an operator for each, and `stage` is the number of the one that this describes,
    in the order rows pass them. `cores` is how many tasks run at a time. Where the query has changed while it
    ran, this is the plan of the newest `epoch`, and `earlier` has those of the others that still live.
    `checkpoint` is a random text by which a checkpoint that begins with this plan is known later on.
    """

    query: JoinQuery
    schemas: tuple[pa.Schema, ...]
    buckets: int
    late: Literal["drop", "flag"]
    arena: str = ""
    stage: int = 0
    cores: int = 1
    layout: Grid | None = None
    staged: bool = False
    epoch: Epoch = Epoch()
    earlier: tuple[JoinPlan, ...] = ()
    resumed: Resumed | None = None
    checkpoint: str = ""

    @property
    def live(self) -> tuple[JoinPlan, ...]:
        """The plans of all epochs that live, the newest first."""
        return (self, *self.earlier)

    @functools.cached_property
    def labels(self) -> tuple[int, ...]:
        """The labels of the buckets of all epochs, the newest first."""
        return tuple(label for plan in self.live for label in labels(plan.buckets, plan.epoch.number))

    def describe(self) -> dict[str, Any]:
        """The epoch as plain values, for the state of its buckets."""
        return {
            "number": self.epoch.number,
            "since_us": self.epoch.since_us,
            "meaning": self.query.meaning(),
            "buckets": self.buckets,
            "shares": [] if self.staged else list(self.grid.shares),
            "hot_keys": [] if self.staged else [list(astuple(hot)) for hot in self.grid.hot_keys],
        }

    @functools.cached_property
    def epochs(self) -> Sequence[dict[str, Any]]:
        """All epochs that live, described, the newest last."""
        return [self.describe()] if self.resumed is None else self.resumed.epochs

    @property
    def owns(self) -> tuple[int, int] | None:
        """From and before which time the oldest row of the epoch's results lies; None: at any time."""
        since_us, until_us = self.epoch.since_us, self.epoch.until_us
        if since_us is None and until_us is None:
            return None
        return -INFINITE_US if since_us is None else since_us, INFINITE_US if until_us is None else until_us

    def part(self, number: int) -> Share:
        """Which part of all epochs' buckets one of this epoch's is."""
        newer = sum(e["buckets"] for e in self.epochs if e["number"] > self.epoch.number)
        return Share(newer + number, newer + number + 1, sum(e["buckets"] for e in self.epochs))

    def place(self, label: int) -> tuple[JoinPlan, int]:
        """The epoch's plan and the number of the bucket that has a label."""
        number = self.labels.index(label)
        for plan in self.live:
            if number < plan.buckets:
                return plan, number
            number -= plan.buckets
        raise AssertionError(label)

    def reached(self, event_us: Int64s) -> Bools:
        """Which rows can be of a result that the epoch owns, by their times.

        Its oldest required row lies in the epoch; partners of optional streams may be older.
        """
        inside, before_us = np.ones(len(event_us), np.bool_), 0
        if self.query.kinds.optional:
            before_us = self.query.bounds.span_us
        if self.epoch.since_us is not None:
            inside &= event_us >= self.epoch.since_us - before_us
        if self.epoch.until_us is not None:
            inside &= event_us < self.epoch.until_us + self.query.bounds.span_us
        return inside

    @functools.cached_property
    def grid(self) -> Grid:
        """Where rows go, if there is one stage."""
        return self.layout or choose(self.query, self.buckets)

    @functools.cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """What is stored of each stream."""
        layouts = []
        for stream, schema in zip(self.query.streams, self.schemas, strict=True):
            with about(stream=stream.name):
                layouts.append(layout_of(self.query, stream, schema))
        return tuple(layouts)

    @functools.cached_property
    def stored_types(self) -> dict[str, dict[str, str]]:
        """The types of the stored columns, by stream and column."""
        return {n.stream.name: {f.name: str(f.type) for f in n.stored_schema} for n in self.layouts}

    @functools.cached_property
    def fingerprint(self) -> str:
        """The query's, which takes long enough to be made once."""
        return self.query.fingerprint()

    @functools.cached_property
    def subplans(self) -> tuple[Subplan, ...]:
        """The operators of each stage."""
        graph, tree = self.query.graph, self.query.tree
        return subplans(graph, tree) if self.staged else (whole(graph, tree),)

    @property
    def subplan(self) -> Subplan:
        """The operators of this stage."""
        return self.subplans[self.stage]

    @functools.cached_property
    def inputs(self) -> tuple[Plan, ...]:
        """What packed rows may be, by number: all streams, then what lower stages hand on to this one."""
        return (*self.query.names, *self.subplan.handed)

    @functools.cached_property
    def keys(self) -> KeyFormat:
        """How the stage's keys are hashed, whichever of its inputs they are in."""
        return key_format_of(self.query.graph.key(self.subplan.inputs), self.layouts)

    @property
    def first(self) -> bool:
        """Whether all its inputs are streams; other stages learn from those below how far time has come."""
        return not self.subplan.handed

    @property
    def last(self) -> bool:
        """Whether what it finds are the query's results."""
        return self.stage == len(self.subplans) - 1

    def stages(self) -> tuple[JoinPlan, ...]:
        """One plan for each stage, in the order rows pass them."""
        return tuple(replace(self, stage=number) for number in range(len(self.subplans)))

    def places(self, node: Plan) -> list[int]:
        """Where an input's key is among its stored columns."""
        source = described(node, self.layouts)
        assert source is not None
        return source.key(self.query.graph, self.subplan.key)

    @functools.cached_property
    def output(self) -> Output:
        """The result's columns."""
        return output_of(self.query, self.layouts)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The result's schema, with the column that flags late rows if there is one."""
        flagged = [pa.field(LATE_COLUMN, pa.string())] if self.late == "flag" else []
        return pa.schema([*self.output.schema, *flagged])

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to know to hand out results without the query; `from_dict` undoes it."""
        schemas = [base64.b64encode(schema.serialize()).decode() for schema in self.schemas]
        given = {"query": self.query.to_dict(), "schemas": schemas, "late": self.late}
        return {**given, "buckets": self.buckets, "epoch": list(astuple(self.epoch))}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> JoinPlan:
        """The plan of a checkpoint, for a task of its own."""
        schemas = tuple(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(s))) for s in saved["schemas"])
        query, epoch = JoinQuery.from_dict(saved["query"]), Epoch(*saved["epoch"])
        return cls(query, schemas, saved["buckets"], saved["late"], epoch=epoch)

    def __getstate__(self) -> dict[str, object]:
        """Only what was given travels; the rest is computed again where it is needed."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
