"""Promises about one of several keys: each stream's are about attributes of its own (`JoinQuery.promised`).

There is a ledger for each key that is promised something about. What a stream has closed decides for rows of
any node that know this key, whatever key their operator has: `sweeping` says which rows may go. That takes
a look at all stored rows, so it is done when it is due and worth it (`policies.purging`).

A key is *done* if all streams that have its attributes are closed for it, and no stored row has it: then
nothing can come of it, and streams forget it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braided.engine.features import Arrivals, Feature, Host, Numbers, Step, Undo
from braided.engine.fields import load_fields, save_fields
from braided.engine.promises.feature import KEYS, within_reach
from braided.engine.promises.ledger import Ledger, put_keys
from braided.engine.promises.sweeping import Key, Stored, Sweep, is_in
from braided.engine.sides.by_key import forget
from braided.engine.sides.keys import KeyFormat, Keys, concat_keys, key_format
from braided.engine.state import EngineState, get_arrays, put_arrays
from braided.policies import purging
from braided.policies.arrays import Bools, Int64s

_SAVED = ("pending", "kept")


class SeveralKeys(Feature):
    """Checks promises about one of several keys, and forgets what they allow."""

    name = "promises"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._promised = {s.name: key for s in host.query.streams if (key := host.query.promised(s))}
        self._ledgers: dict[Key, Ledger] = {}  # once the types of their keys are known
        self._touched: dict[Key, list[Keys]] = {}  # closed keys that may be done
        self.pending = 0  # keys and ranges that were closed, and rows that came, since the latest sweep
        self.kept = 0  # rows that it left

    def learn(self) -> Undo | None:
        """Read keys as their types say."""
        before = dict(self._ledgers)
        for stream, key in self._promised.items():
            if stream in self.host.tree.inputs or key in before:
                ledger, format_ = self._ledgers.get(key), self._format(key)
                if ledger is None or ledger.keys != format_:
                    fresh = Ledger(self.host.query, format_)
                    self._ledgers[key] = fresh if ledger is None else ledger.known(format_)

        def unlearn() -> None:
            self._ledgers = before

        return unlearn

    def admit(self, arrivals: Arrivals, share: Any, cores: int) -> Arrivals:
        """Look for rows that break a promise; those that no result of this engine has only tell of keys."""
        admitted = []
        for i, (arrival, intake) in enumerate(zip(arrivals, self.host.streams, strict=True)):
            ledger = self._ledger(i)
            if arrival and intake and ledger is not None:
                arrival = ledger.check(i, arrival, intake)
            admitted.append(within_reach(self.host, arrival) if arrival and intake else arrival)
        return admitted

    def commit(self, step: Step) -> None:
        """Close what the batch closed."""
        for known in self._ledgers.values():
            known.age(step.later.us)
        for i, arrival in enumerate(step.arrivals):
            ledger = self._ledger(i)
            if ledger is None or arrival is None or arrival.keys is None:
                continue
            before = ledger.ranges[i]
            closing = ledger.closing(i, arrival, arrival.keys)
            over, moves = ledger.close(i, closing), closing.moves
            closed = [*over, *([arrival.keys] if self.host.query.streams[i].unique else [])]
            self.pending += moves + sum(map(len, closed))
            key = self._promised[self.host.query.names[i]]
            if self._closing_all(key):
                self._touched.setdefault(key, []).extend([*closed, *_in_range_since(ledger, i, before)])
        if any(ledger.closes for ledger in self._ledgers.values()):
            self.pending += sum(len(arrival.rows) for arrival in step.arrivals if arrival)

    def purge(self, step: Step | None) -> None:
        """Forget rows that are in no result to come, and keys that nothing can come of, if that is due."""
        tree, query, parts = self.host.tree, self.host.query, self.host.site.part.total
        rows = {"stored": sum(side.live_rows for side in tree.sides.values()), "kept": self.kept}
        idle = step is None or step.idle
        if not purging.worth_a_sweep(query.tuning, self.pending, idle=idle, parts=parts, **rows):
            return
        held = {node: Stored.of(tree.inputs[node], side) for node, side in tree.sides.items()}
        sweep = Sweep(query.graph, query.tree, held, self._format, self._promised, self._is_closed)
        dead = sweep.run()
        for key, ledger in self._ledgers.items():
            self._finish(key, ledger, held, sweep)  # before rows get new positions
        for node, positions in dead.items():
            gone = forget(tree.sides[node], positions)
            if isinstance(node, str):
                self.host.counters[self.host.number(node)].purged_rows += gone
        self.pending, self.kept = 0, sum(side.live_rows for side in tree.sides.values())

    def save(self, state: EngineState) -> None:
        """Closed keys, and those that may be done."""
        arrays: dict[str, Int64s] = {}
        ledgers = []
        for number, key in enumerate(self._keys):
            own: dict[str, Int64s] = {}
            put_keys(own, "touched", self._touched.get(key, []))
            ledgers.append(ledger.save(own) if (ledger := self._ledgers.get(key)) else None)
            arrays |= {f"{number}/{name}": array for name, array in own.items()}
        state.put_feature(self.name, {"ledgers": ledgers, **save_fields(self, _SAVED)})
        put_arrays(state, KEYS, arrays)

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on from what was saved."""
        if not (numbers := state.feature(self.name)):
            return
        arrays = get_arrays(state, KEYS)
        load_fields(self, _SAVED, numbers)
        for number, (key, saved) in enumerate(zip(self._keys, numbers["ledgers"], strict=True)):
            if saved is not None and (ledger := self._ledgers.get(key)) is not None:
                prefix = f"{number}/"
                own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
                ledger.load(saved, own)
                self._touched[key] = [ledger.get_keys(own, "touched")]

    def describe(self, numbers: Numbers) -> None:
        """Closed keys."""
        for i, of_stream in enumerate(numbers.streams):
            if "live_rows" in of_stream:
                ledger = self._ledger(i)
                of_stream["closed_keys"] = 0 if ledger is None else ledger.closed[i].count

    # parts of the above

    @property
    def _keys(self) -> list[Key]:
        """The keys that are promised something about, in an order that the query alone decides."""
        return sorted(set(self._promised.values()))

    def _ledger(self, stream: int) -> Ledger | None:
        key = self._promised.get(self.host.query.names[stream])
        return None if key is None else self._ledgers.get(key)

    def _is_closed(self, stream: str, keys: Keys) -> Bools:
        number = self.host.number(stream)
        ledger = self._ledger(number)
        return np.zeros(len(keys), np.bool_) if ledger is None else ledger.is_closed(number, keys)

    def _closing_all(self, key: Key) -> bool:
        """Whether all streams that have a key promise something about it, so that it may be done."""
        having = {stream for attribute in key for stream, _ in attribute}
        return all(self._promised.get(stream) == key for stream in having)

    def _finish(self, key: Key, ledger: Ledger, held: Mapping[Any, Stored], sweep: Sweep) -> None:
        """Let streams forget the keys that are done."""
        if not any(map(len, touched := self._touched.get(key, []))):
            return
        keys = concat_keys(touched)
        keys = keys.pick(keys.first_ones())
        streams = [stream for stream, promised in self._promised.items() if promised == key]
        keys = keys.pick(np.logical_and.reduce([self._is_closed(stream, keys) for stream in streams]))
        stored = np.zeros(len(keys), np.bool_)
        for node, rows in held.items():
            if sweep.knows(node, key):
                stored |= is_in(keys.hashes, sweep.keys(node, key).hashes[rows.alive])
        ledger.finish(keys.pick(~stored))
        self._touched[key] = [keys.pick(stored)]

    def _format(self, key: Key) -> KeyFormat:
        """How a key is read, by the streams that are known: of each of its attributes there is one."""
        inputs = self.host.tree.inputs
        return key_format(
            [[(f"{s}.{c}", inputs[s].schema.field(c).type) for s, c in a if s in inputs] for a in key]
        )


def _in_range_since(ledger: Ledger, stream: int, before: tuple[int, int]) -> list[Keys]:
    """The single keys of other streams in a range that one has closed since then."""
    upto, since = ledger.ranges[stream]
    if (upto, since) == before:
        return []
    ranges = (before[0] + 1, upto), (since, before[1] - 1)
    return [other.single_ones(*ends) for other in ledger.closed for ends in ranges]
