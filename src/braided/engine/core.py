"""What one engine holds: operators and sides, streams once their schemas are known, how far time has come.

This is what features may use of their engine (`features.Host`); the loop over it is `engine.Engine`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from braided.engine.calibration import machine_costs
from braided.engine.features import Arrivals, Feature, Features, Make, Undo, features_of, outlasting
from braided.engine.intake import Intake, plain_schema
from braided.engine.operators.layout import Layout, layout_of, output_of
from braided.engine.operators.results import Made, Results
from braided.engine.operators.tree import Tree
from braided.engine.sides.side import BOTTOMLESS_US, Rows, SideState
from braided.engine.site import Site
from braided.engine.state import EngineState
from braided.engine.streams import Counters, StreamState
from braided.engine.watermark import NONE_US, Watermark
from braided.policies.arrays import Bools, Int64s
from braided.policies.choice import policies_for
from braided.query.bounds import INFINITE_US
from braided.query.errors import UnknownName, did_you_mean
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan


class Core:
    """The state of one join, between and during its batches."""

    def __init__(self, query: JoinQuery, site: Site, features: Mapping[str, Make]) -> None:
        self.query, self.site = query, site
        policies = site.policies or functools.partial(policies_for, query, machine_costs)
        self.tree = Tree(query, policies, site.allocate, site.subplan)
        self.watermark = Watermark(tuple(s.lateness_us for s in query.streams))
        self.floors_us = [BOTTOMLESS_US] * len(query.streams)
        self.now_us = self.floors_us
        self.counters = [Counters() for _ in query.streams]
        self.late: list[list[pa.RecordBatch]] = [[] for _ in query.streams]
        self.streams: list[StreamState | None] = [None] * len(query.streams)
        self.results = self.batches = 0
        self.builder: Results | Made | None = None
        self.features: Features = features_of(self, features)

    def learn(self, schemas: Mapping[str, pa.Schema], undoing: list[Undo] | None = None) -> None:
        """Fix the schemas of streams; features add to `undoing` what they take back if the batch fails."""
        if all(self.streams[self.number(name)] for name in schemas):
            return
        layouts = [s.layout if s else None for s in self.streams]
        for name, schema in schemas.items():
            i = self.number(name)
            layouts[i] = layouts[i] or layout_of(self.query, self.query.streams[i], plain_schema(schema))
        known = [layout for layout in layouts if layout is not None]
        output = output_of(self.query, known) if len(known) == len(layouts) else None
        self.tree.learn(known)
        root = self.tree.root
        if self.builder is None and output is not None and root.combining is not None:
            whole = root.root
            self.builder = (
                Results(self.query, known, output, root.combining, self.site.owns)
                if whole
                else Made(root.combining)
            )
        for learn in self.features.of(Feature.learn):
            if (undo := learn()) is not None and undoing is not None:
                undoing.append(undo)
        for i, layout in enumerate(layouts):
            if layout is not None and self.streams[i] is None and self.joins(i):
                self.streams[i] = self._stream_state(layout)

    def remember(self) -> Undo:
        """What is known now; calling the answer forgets the schemas that were learned since then."""
        streams, builder, forget = list(self.streams), self.builder, self.tree.remember()

        def unlearn() -> None:
            self.streams, self.builder = list(streams), builder
            forget()

        return unlearn

    def number(self, name: str) -> int:
        """Which stream a name means."""
        if name not in self.query.names:
            raise UnknownName(f"no stream {name!r}; {did_you_mean(name, self.query.names)}")
        return self.query.names.index(name)

    @property
    def schema(self) -> pa.Schema:
        """The result's schema; without columns until every stream's schema is known."""
        return self.builder.schema if self.builder else pa.schema([])

    def joins(self, stream: int) -> bool:
        """Whether a stream's rows arrive here, and not at another engine of the same join."""
        return self.query.names[stream] in self.tree.subplan.streams

    # what features ask

    def side(self, stream: int) -> SideState | None:
        """A stream's stored rows, once its schema is known."""
        state = self.streams[stream]
        return state.side if state else None

    def intake(self, stream: int) -> Intake | None:
        """What reads a stream's batches, once its schema is known."""
        state = self.streams[stream]
        return state.intake if state else None

    def hidden(self, hashes: Int64s) -> Bools | None:
        """Of which keys rows may be held where sides do not see them; None: of none."""
        several = [
            found for hidden in self.features.of(Feature.hidden) if (found := hidden(hashes)) is not None
        ]
        return functools.reduce(np.logical_or, several) if several else None

    def later(self, arrivals: Arrivals) -> Watermark:
        """The watermark once these have been processed."""
        return self.watermark.after([a.newest_us if a else None for a in arrivals])

    def oldest_us(self, stream: int) -> int:
        """The oldest time of a stream that is still needed."""
        watermark_us, floor_us = self.watermark.us, self.floors_us[stream]
        retention_us = self.query.bounds.retention_us(stream)
        if retention_us >= INFINITE_US or watermark_us == NONE_US or not self.query.windowed:
            return floor_us
        if self.query.names[stream] in self.retained():
            return floor_us
        return max(floor_us, watermark_us - retention_us)

    def retained(self) -> set[Plan]:
        """The inputs whose rows must not expire."""
        return {node for retains in self.features.of(Feature.retains) for node in retains()}

    def put(self, stream: int, pieces: Sequence[Rows]) -> None:
        """Put saved rows back into a stream's side, once the newest times are set."""
        side = self.side(stream)
        assert side is not None
        for refill in self.features.of(Feature.refill):
            pieces = refill(stream, pieces)
        for rows in pieces:
            side.append(rows)

    def keep_features(self, state: EngineState) -> None:
        """Keep the features that a saved state needs, though the query does without."""
        self.features = outlasting(self, self.features, state)

    def expire(self, arrivals: Arrivals | None) -> None:
        """Forget what the watermark has passed; lazily, where the rows to come need room."""
        for stream, floor_us in zip(self.streams, self.now_us, strict=True):
            if stream is not None:
                stream.side.floor_us = floor_us
        cut = any(floor_us > BOTTOMLESS_US for floor_us in self.floors_us)
        if cut or (self.query.windowed and self.watermark.us != NONE_US):
            retained = self.retained()
            lazy = self.query.tuning.expiry == "lazy" and not cut
            for i, stream in enumerate(self.streams):
                if stream is None or stream.layout.stream.name in retained:
                    continue
                arrival = arrivals[i] if arrivals else None
                if not lazy or (arrival and stream.side.columns.crowded(len(arrival.rows))):
                    self.counters[i].expired_rows += stream.side.expire(self.oldest_us(i))
            if self.watermark.us != NONE_US:
                self.tree.expire(self.watermark.us, retained)
        for expire in self.features.of(Feature.expire):
            expire()

    def _stream_state(self, layout: Layout) -> StreamState:
        keys = self.tree.above(layout.stream.name).keys
        assert keys is not None
        return StreamState(layout, Intake(self.query, layout, keys), self.tree.sides[layout.stream.name])
