"""What every task of a Spark join needs to know: a small value that is sent with the task."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import pyarrow as pa

from braided.engine.operators.inputs import described
from braided.engine.operators.layout import Layout, Output, key_format_of, layout_of, output_of
from braided.engine.sides.keys import KeyFormat
from braided.query.errors import about
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan
from braided.query.subplans import Subplan, subplans

BLOB_BYTES = 8 << 20  # a state call moves about 40 MB a second, and the JVM holds a blob several times
LATE_COLUMN = "late_stream"


@dataclass(frozen=True)
class JoinPlan:
    """A query with the schemas of its streams, the number of buckets, and what happens to late rows.

    `arena` names the application for which live engines are kept in files between batches; without a name
    they are not. `stage` is the number of the operator of the Spark query that it describes, in the order
    rows pass them; a join on one key has only one. `cores` is how many tasks run at a time.
    """

    query: JoinQuery
    schemas: tuple[pa.Schema, ...]
    buckets: int
    late: Literal["drop", "flag"]
    arena: str = ""
    stage: int = 0
    cores: int = 1

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
        return subplans(self.query.graph, self.query.tree)

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
        source = described(node, {layout.stream.name: layout for layout in self.layouts})
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
        return {"query": self.query.to_dict(), "schemas": schemas, "late": self.late}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], buckets: int) -> JoinPlan:
        """The plan of a checkpoint, for a task of its own."""
        schemas = tuple(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(s))) for s in saved["schemas"])
        return cls(JoinQuery.from_dict(saved["query"]), schemas, buckets, saved["late"])

    def __getstate__(self) -> dict[str, object]:
        """Only what was given travels; the rest is computed again where it is needed."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
