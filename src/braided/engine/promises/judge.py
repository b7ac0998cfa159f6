"""Which keys no result is to come of, and of which rows must stay: the rules (a) and (b) of `feature`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from braided.engine.features import Host
from braided.engine.promises.key_sets import Pairs
from braided.engine.promises.ledger import Ledger
from braided.engine.sides.by_key import holds
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import SideState
from braided.policies.arrays import Bools
from braided.query.plan_tree import Plan


class Judgement(NamedTuple):
    """What is known of some keys, key by key."""

    closed: Any  # by stream, too
    finished: Bools  # no result is to come
    hidden: Bools  # rows may be held that sides do not see
    waits: Bools  # results wait that need no further row


class Judge:
    """Judges keys by what is closed, what is held, and what waits."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def sides(self) -> list[SideState | None]:
        """The streams' sides."""
        return [self._host.tree.sides.get(name) for name in self._host.query.names]

    def hidden(self, keys: Keys) -> Bools:
        """Of which keys rows may be held that sides do not see."""
        hidden = self._host.hidden(keys.hashes)
        return np.zeros(len(keys), np.bool_) if hidden is None else hidden

    def judged(self, ledger: Ledger, keys: Keys, shown: Mapping[Plan, Keys] | None = None) -> Judgement:
        """Judge keys; if their hidden rows are `shown`, none are hidden."""
        closed, waits = ledger.by_stream(keys), self._wait(keys)
        hidden = self.hidden(keys) if shown is None else np.zeros(len(keys), np.bool_)
        held = hidden | ~closed  # or by what sides hold, where that matters
        for name, of_stream, side, known in zip(
            self._host.query.names, held, self.sides, closed, strict=True
        ):
            if side is not None and known.any():
                of_stream[known] |= holds(side, keys.pick(known))
            if shown is not None and name in shown:
                of_stream |= Pairs.of(*shown[name].words).has(*keys.words)
        needed, over = self._needed, self._all_settled(closed, waits)
        others = np.array([over | self.closed_beside(closed, [i]) for i in range(len(closed))])
        stay = hidden | waits
        while True:
            finished: Bools = over | (closed & ~held)[needed].any(axis=0)
            may = (finished | others) & ~stay
            if not (held & closed & may).any():
                return Judgement(closed, finished & ~stay, hidden, waits)
            held &= ~may

    @functools.cached_property
    def _needed(self) -> list[int]:
        """The streams without a row of which there is no result."""
        query = self._host.query
        return [i for i, s in enumerate(query.streams) if s.how in ("inner", "semi") and not query.kinds.full]

    def _all_settled(self, closed: Any, waits: Bools) -> Bools:
        """Of which keys all that required streams ever bring has settled."""
        query = self._host.query
        if not query.kinds.settles or query.kinds.full:
            return np.zeros_like(waits)
        required = [query.names.index(name) for name in query.kinds.core]
        return np.asarray(closed[required].all(axis=0) & ~waits)

    def closed_beside(self, closed: Any, places: list[int]) -> Bools:
        """For which keys all streams beside some are closed.

        And these, too, if a row of them that came next would bring again what has come: a second semi row.
        """
        query = self._host.query
        first = not query.kinds.settles and all(query.streams[i].optional for i in places)
        return np.asarray((closed if first else np.delete(closed, places, axis=0)).all(axis=0))

    def _wait(self, keys: Keys) -> Bools:
        """Of which keys results wait that need no further row."""
        waits = self._host.unsettled(keys)
        return np.zeros(len(keys), np.bool_) if waits is None else waits
