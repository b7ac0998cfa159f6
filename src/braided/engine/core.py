"""What one engine holds: operators and sides, streams once their schemas are known, how far time has come.

This is what features may use of their engine (they call it `Host`); the loop over it is `engine.Engine`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from braided.engine.calibration import machine_costs
from braided.engine.features import Arrivals, ClosedHidden, Feature, Features, Make, Undo, features_of
from braided.engine.fields import remember_fields
from braided.engine.intake import Counters, Intake, plain_schema
from braided.engine.operators.layout import key_format_of, layout_of, output_of
from braided.engine.operators.results import Results
from braided.engine.operators.tree import Tree
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import BOTTOMLESS_US, Rows
from braided.engine.site import Site
from braided.engine.watermark import END_US, NONE_US, Clock, Watermark
from braided.policies.arrays import Bools, Int64s
from braided.policies.choice import policies_for
from braided.query.bounds import INFINITE_US
from braided.query.durations import to_us
from braided.query.errors import UnknownName, did_you_mean
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan


class Core:
    """The state of one join, between and during its batches."""

    def __init__(self, query: JoinQuery, site: Site, features: Mapping[str, Make]) -> None:
        self.query, self.site = query, site
        policies = site.policies or functools.partial(policies_for, query, machine_costs)
        self.tree = Tree(query, site, policies)
        idle_after = tuple(None if s.idle_after is None else to_us(s.idle_after) / 1e6 for s in query.streams)
        self.watermark = Watermark(tuple(s.lateness_us for s in query.streams), idle_after_s=idle_after)
        self.clock: Clock | None = None  # as it was recorded with the batch that is processed
        self.read_us = 0  # the wall clock when that came, recorded or not: to report ages only
        self.joined_us = END_US  # rows that wait, if a feature lets some wait, are not before this time
        self.floors_us = [BOTTOMLESS_US] * len(query.streams)  # rows with an earlier time are never found
        self.now_us = self.floors_us  # the floors of the step that runs
        self.counters = [Counters() for _ in query.streams]
        self.late: list[list[pa.RecordBatch]] = [[] for _ in query.streams]
        self.streams: list[Intake | None] = [None] * len(query.streams)  # once their schemas are known
        self.results = self.batches = 0
        self.builder: Results | None = None
        self.closed_hidden = ClosedHidden()
        self.features: Features = features_of(self, features)

    @property
    def wall_us(self) -> int | None:
        """The wall clock of the batch that is processed, as it was recorded with it."""
        return None if self.clock is None else int(self.clock.seconds * 1e6)

    def learn(self, schemas: Mapping[str, pa.Schema], undoing: list[Undo] | None = None) -> None:
        """Fix the schemas of streams; features add to `undoing` what they take back if the batch fails."""
        if all(self.streams[self.number(name)] for name in schemas):
            return
        layouts = [s.layout if s else None for s in self.streams]
        for name, schema in schemas.items():
            i = self.number(name)
            layouts[i] = layouts[i] or layout_of(self.query, self.query.streams[i], plain_schema(schema))
        known = [layout for layout in layouts if layout is not None]
        output = output_of(self.query, tuple(known)) if len(known) == len(layouts) else None
        self.tree.learn(known)
        root = self.tree.root
        if self.builder is None and output is not None and root.combining is not None:
            whole = output if root.node == self.query.tree else None
            self.builder = Results(self.query, known, whole, root.combining, self.site.owns, root.firsts)
        for learn in self.features.of(Feature.learn):
            if (undo := learn()) is not None and undoing is not None:
                undoing.append(undo)
        for i, layout in enumerate(layouts):
            if layout is not None and self.streams[i] is None and self.joins(i):
                keys = self.tree.above(layout.stream.name).keys
                assert keys is not None
                promised = self.query.promised(layout.stream)
                self.streams[i] = Intake(self.query, layout, keys, key_format_of(promised, known))

    def remember(self) -> list[Undo]:
        """Return what goes back to what is known now, and so forgets schemas learned from here on."""
        return [remember_fields(self, ("streams", "builder")), *self.tree.remember()]

    def number(self, name: str) -> int:
        """Return the number of the stream with this name."""
        if name not in self.query.names:
            raise UnknownName(f"no stream {name!r}; {did_you_mean(name, self.query.names)}")
        return self.query.names.index(name)

    @property
    def schema(self) -> pa.Schema:
        """The result's schema; without columns until every stream's schema is known."""
        return self.builder.schema if self.builder else pa.schema([])

    def joins(self, stream: int) -> bool:
        """Tell whether a stream's rows arrive here, and not at another engine of the same join."""
        return self.query.names[stream] in self.tree.subplan.streams

    # what features ask

    def hidden(self, hashes: Int64s) -> Bools | None:
        """Return, by key, whether a feature may hold rows that sides do not see; None: for no key."""
        return _any(hidden(hashes) for hidden in self.features.of(Feature.hidden))

    def closed(self, stream: int, keys: Keys) -> Bools | None:
        """Return for which keys no row of a stream comes after the step that runs; None: for no key."""
        return _any(closed(stream, keys) for closed in self.features.of(Feature.closed))

    def closing(self, stream: int) -> list[Keys] | None:
        """Return the keys that the step closes a stream for; None: a range of them, too."""
        parts = [closing(stream) for closing in self.features.of(Feature.closing)]
        return None if None in parts else [keys for part in parts for keys in part or ()]

    def unsettled(self, keys: Keys) -> Bools | None:
        """Return of which keys results wait that need no further row; None: of no key."""
        return _any(unsettled(keys) for unsettled in self.features.of(Feature.unsettled))

    def needed(self, rows: Mapping[Plan, Rows], covers: Callable[[Int64s], Bools]) -> dict[Plan, Bools]:
        """Return which of the hidden rows of some keys may still join, by input where not all may."""
        stay: dict[Plan, Bools] = {}
        for needed in self.features.of(Feature.needed):
            for node, chosen in needed(rows, covers).items():
                stay[node] = stay.get(node, True) & chosen
        return stay

    def later(self, arrivals: Arrivals) -> Watermark:
        """The watermark once these have been processed."""
        came = [a is not None and a.came for a in arrivals]
        return self.watermark.after([a.newest_us if a else None for a in arrivals], self.clock, came)

    def oldest_us(self, stream: int) -> int:
        """The oldest time of a stream that is still needed."""
        name, floor_us = self.query.names[stream], self.floors_us[stream]
        return floor_us if name in self.retained() else max(floor_us, self.past_us(name))

    def past_us(self, node: Plan) -> int:
        """Before which time rows of an input have been passed by the watermark: their own, or their end."""
        settled_us = self.settled_us
        if settled_us == NONE_US or not self.query.windowed:
            return BOTTOMLESS_US
        if not isinstance(node, str):
            return settled_us
        retention_us = self.query.bounds.retention_us(self.query.names.index(node))
        return BOTTOMLESS_US if retention_us >= INFINITE_US else settled_us - retention_us

    @property
    def settled_us(self) -> int:
        """The watermark, as far as nothing waits that it has passed."""
        return min(self.watermark.us, self.joined_us)

    def retained(self) -> set[Plan]:
        """The inputs whose rows must not expire."""
        return {node for retains in self.features.of(Feature.retains) for node in retains()}

    def expire(self, arrivals: Arrivals | None) -> None:
        """Forget what the watermark has passed; lazily, where the rows to come need room."""
        sides = {i: self.tree.sides[n] for i, n in enumerate(self.query.names) if n in self.tree.sides}
        for i, side in sides.items():
            side.floor_us = self.now_us[i]
        cut = any(floor_us > BOTTOMLESS_US for floor_us in self.floors_us)
        if cut or (self.query.windowed and self.watermark.us != NONE_US):
            retained = self.retained()
            lazy = self.query.tuning.expiry == "lazy" and not cut
            for i, side in sides.items():
                arrival = arrivals[i] if arrivals else None
                due = not lazy or (arrival and side.columns.crowded(len(arrival.rows)))
                if due and side.name not in retained:
                    self.counters[i].expired_rows += side.expire(self.oldest_us(i))
            if self.watermark.us != NONE_US:
                for source, side in self.tree.intermediates:
                    if source.node not in retained:
                        side.expire(self.settled_us)
        for expire in self.features.of(Feature.expire):
            expire()


def _any(answers: Iterable[Bools | None]) -> Bools | None:
    """What one of some features says, or several."""
    said = [answer for answer in answers if answer is not None]
    return functools.reduce(np.logical_or, said) if said else None
