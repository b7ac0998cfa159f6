"""Promises: what streams have said is not to come, and the rows that may be forgotten for it.

All promises here are about one key that all streams have; `several_keys` has those about one of several.

A stream is *closed* for a key if no row of it with that key is to come. Let every stored row owe nothing: it
has been joined with all rows that came before it. Then row x of stream i with key k may go if

(a) all other streams are closed for k: a result with x that is still to come would need a new row of
    another stream, and there is none; or
(b) some other stream j is closed for k and holds no row of k: every result of k needs a row of j, and
    there is none and none to come.

The same is true of an intermediate row made of the streams I: (a) if all streams outside I are closed, (b) as
it is. If j lost its rows by (b), no result of k is to come at all; if by (a), all others are closed and so is
j: again nothing is to come. So rows that were purged are rightly counted as not held, and the rule may be
applied until nothing changes.

Closed keys take effect between batches, so the order of rows inside a batch decides nothing. Only a key that
a unique stream brings twice is seen inside a batch. After a batch there are keys to *settle*: at once those
of rows that can be dropped on the fly or let others be, later (when purging is due) those that were closed by
a punctuation, or by the end of a cluster.

With optional streams (`outer`) three things differ. No row of a key goes while one of the core waits for its
last partner: it is looked up then. A stream without rows ends a key (b) only if results need a row of it, so
a left stream does not. And a row of an optional stream may go once all required ones are closed: what is
stored of these has settled then, and with it all that the key had to bring.

Rows that sides do not see (on disk, under a memory budget) may owe results, and are held: of the keys of
their partition groups nothing is forgotten, and what is closed of them is remembered. They are judged when
they come to light: when their rows are looked through (`needed`), or are back in memory.

The output can be told, too (`emit_punctuations`): a key is *complete* when all streams are closed for it, or
by (b). That is looked at after every batch for the keys it touched, and said once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.features import Arrivals, Feature, Host, Numbers, Step, Undo
from braided.engine.fields import load_fields, save_fields
from braided.engine.intake import Arrival
from braided.engine.promises.judge import Judge
from braided.engine.promises.key_sets import Pairs
from braided.engine.promises.ledger import Closing, Ledger, put_keys
from braided.engine.sides.by_key import purge, stored_keys
from braided.engine.sides.keys import Keys, concat_keys
from braided.engine.sides.side import Rows
from braided.engine.state import EngineState, get_arrays, put_arrays
from braided.policies import purging
from braided.policies.arrays import Bools, Int64s
from braided.query.plan_tree import Plan, leaves

Ranges = list[tuple[int, int]]
KEYS = "promises/keys"  # the part with closed keys
_SAVED = ("scanned", "announced", "moves", "announcements")


class Promises(Feature):
    """Checks promises, and forgets what they allow."""

    name = "promises"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._judge = Judge(host)
        self.ledger: Ledger | None = None  # once the types of keys are known
        self._closing: list[Closing | None] = []  # what the step that runs closes, by stream
        self._now: list[Keys] = []  # keys to settle after this batch
        self._later: list[Keys] = []  # and when purging is due
        self._hidden: list[Keys] = []  # and when their rows come to light, each once
        self.moves = 0  # ranges that were closed and that stored rows were not judged by yet
        self.scanned: Ranges = []  # that stored rows were judged by
        self.announced: Ranges = []  # that the output was told of
        self.announcements = 0  # since the start

    def learn(self) -> Undo | None:
        """Read keys as their types say."""
        keys, before = self.host.tree.root.keys, (self.ledger, self.scanned, self.announced)
        if keys is None or (self.ledger is not None and self.ledger.keys == keys):
            return None
        self.scanned = self.announced = Ledger(self.host.query, keys).ranges
        self.ledger = Ledger(self.host.query, keys) if self.ledger is None else self.ledger.known(keys)

        def unlearn() -> None:
            self.ledger, self.scanned, self.announced = before

        return unlearn

    def admit(self, arrivals: Arrivals, share: Any, cores: int) -> Arrivals:
        """Look for rows that break a promise; those that no result of this engine has only tell of keys."""
        if self.ledger is None:
            return arrivals
        return [
            within_reach(self.host, self.ledger.check(i, arrival, intake)) if arrival and intake else arrival
            for i, (arrival, intake) in enumerate(zip(arrivals, self.host.streams, strict=True))
        ]

    def enter(self, step: Step) -> None:
        """Note what the batch closes: rows may settle by it."""
        if (ledger := self.ledger) is not None:
            self._closing = [
                None if a is None or a.keys is None else ledger.closing(i, a, a.keys)
                for i, a in enumerate(step.arrivals)
            ]

    def undo(self) -> None:
        """Nothing closes."""
        self._closing = []

    def closing(self, stream: int) -> list[Keys] | None:
        """Return the keys that the step closes a stream for; None: a range of them, too."""
        if stream >= len(self._closing) or (closing := self._closing[stream]) is None:
            return []
        return None if closing.moves else closing.single

    def closed(self, stream: int, keys: Keys) -> Bools | None:
        """Return for which keys no row of a stream comes after the step that runs."""
        if self.ledger is None:
            return None
        closing = self._closing[stream] if stream < len(self._closing) else None
        return self.ledger.closes_with(stream, closing, keys)

    def commit(self, step: Step) -> None:
        """Close what the batch closed, and note which keys are to be settled."""
        if self.ledger is None:
            return
        self.ledger.age(step.later.us, self._settled_keys if self.host.query.kinds.settles else None)
        now, later = self._close(self.ledger, step.arrivals)
        self._now += now
        self._later += later
        if self.host.query.emit_punctuations:
            step.complete = self._newly_complete(self.ledger, [*now, *later])

    def purge(self, step: Step | None) -> None:
        """Forget rows that can join no more, as far as purging is due; idle inputs are a good moment."""
        if self.ledger is None:
            return
        pending = self.moves + sum(map(len, self._later))
        tuning, of = self.host.query.tuning, self.host.site.part.total
        due = purging.due(tuning, pending, idle=step is None or step.idle, parts=of)
        parts = [*self._now, *self._come_to_light()]
        if due:
            parts = [*parts, *self._later, *self.in_ranges_since(self.ledger, self.scanned)]
        if any(map(len, parts)):
            self.settle(self.ledger, concat_keys(parts))
        self._now = []
        if due:
            self.host.closed_hidden.ranges += self.moves
            self._later, self.scanned, self.moves = [], self.ledger.ranges, 0

    def needed(self, rows: Mapping[Plan, Rows], covers: Callable[[Int64s], Bools]) -> dict[Plan, Bools]:
        """Judge rows that come to light, and closed keys of theirs."""
        ledger = self.ledger
        if ledger is None:
            return {}
        shown = {node: _keys_of(ledger, of_node) for node, of_node in rows.items()}
        closed_ones, self._hidden = _parted(self._hidden, covers)
        keys = _each_once([*shown.values(), *closed_ones])
        gone = self._settle(ledger, keys, shown)
        return {
            node: ~Pairs.of(*keys.pick(gone[node]).words).has(*of_node.words)
            for node, of_node in shown.items()
            if gone[node].any()
        }

    def _come_to_light(self) -> list[Keys]:
        """Closed keys whose rows are hidden no more."""
        light, self._hidden = _parted(self._hidden, lambda hashes: ~self._judge.hidden(Keys(hashes)))
        return light

    def save(self, state: EngineState) -> None:
        """Closed keys, and those that are still to be settled."""
        if self.ledger is None:
            return
        arrays: dict[str, Int64s] = {}
        numbers = {**self.ledger.save(arrays), **save_fields(self, _SAVED)}
        put_keys(arrays, "now", self._now)
        put_keys(arrays, "later", self._later)
        put_keys(arrays, "hidden", self._hidden)
        state.put_feature(self.name, numbers)
        put_arrays(state, KEYS, arrays)

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on from what was saved."""
        numbers = state.feature(self.name)
        if self.ledger is None or not numbers:
            return
        arrays = get_arrays(state, KEYS)
        self.ledger.load(numbers, arrays)
        load_fields(self, _SAVED, numbers)
        parts = [self.ledger.get_keys(arrays, name) for name in ("now", "later", "hidden")]
        self._now, self._later, self._hidden = ([keys] for keys in parts)

    def describe(self, numbers: Numbers) -> None:
        """Closed keys, and announcements."""
        numbers.join["punctuations_out"] = self.announcements
        for i, of_stream in enumerate(numbers.streams):
            if self.ledger is not None and "live_rows" in of_stream:
                closed = self.ledger.closed[i]
                entries = min(len(closed), closed.count)  # keys that were forgotten lately have some, too
                of_stream |= {"closed_keys": closed.count, "closed_entries": entries}

    # parts of the above

    def _close(self, ledger: Ledger, arrivals: Arrivals) -> tuple[list[Keys], list[Keys]]:
        """What a batch closes: keys to settle now, and later."""
        now, later = [], []
        came = [(i, a.keys) for i, a in enumerate(arrivals) if a is not None and a.keys is not None]
        for i, closing in enumerate(self._closing):
            if closing is not None:
                later += ledger.close(i, closing)
                self.moves += closing.moves
        self._closing = []
        for i, keys in came:
            if not self.host.query.streams[i].unique:
                keys = keys.pick(np.delete(ledger.by_stream(keys), i, axis=0).any(axis=0))
            now += [keys] if len(keys) else []
        return now, later

    def _newly_complete(self, ledger: Ledger, touched: list[Keys]) -> list[pa.Array] | None:
        """The keys that are complete now and were not announced, as their columns."""
        touched = [*touched, *self.in_ranges_since(ledger, self.announced)]
        self.announced = ledger.ranges
        if not any(map(len, touched)):
            return None
        keys = concat_keys(touched)
        keys = keys.pick(keys.first_ones() & ~(ledger.announced.contains(keys) | ledger.done.contains(keys)))
        judged = self._judge.judged(ledger, keys)
        keys = keys.pick(judged.finished | (judged.closed.all(axis=0) & ~judged.waits))
        if not len(keys):
            return None
        ledger.announce(keys)
        self.announcements += len(keys)
        return [ledger.keys.values(keys.hashes)] if keys.values is None else list(keys.values)

    def in_ranges_since(self, ledger: Ledger, before: Ranges) -> list[Keys]:
        """Keys of stored rows, and single closed ones, in ranges that were closed since then."""
        parts: list[Keys] = []
        for closed, (upto, since) in zip(ledger.closed, before, strict=True):
            if (closed.upto, closed.since) == (upto, since):
                continue
            for side in filter(None, self._judge.sides):
                keys = stored_keys(side)
                ranks = ledger.keys.ranks(keys.hashes)
                below = (ranks > upto) & (ranks <= closed.upto)
                parts.append(keys.pick(below | ((ranks < since) & (ranks >= closed.since))))
            for other in ledger.closed:
                parts.append(other.single_ones(upto + 1, closed.upto))
                parts.append(other.single_ones(closed.since, since - 1))
        return parts

    def _settled_keys(self) -> Keys:
        """The keys of the core's rows: what has settled by a closed key must not do so again."""
        sides = [side for side in self.host.tree.sides.values() if "final" in side.columns]
        return _each_once([stored_keys(side) for side in sides]) if sides else Keys(np.empty(0, np.int64))

    def settle(self, ledger: Ledger, keys: Keys) -> None:
        """Forget the rows of some keys that can join no more, and the keys that nothing can come of."""
        self._settle(ledger, keys.pick(keys.first_ones()))

    def _settle(
        self, ledger: Ledger, keys: Keys, shown: Mapping[Plan, Keys] | None = None
    ) -> dict[Plan, Bools]:
        """The same of keys given once; by input which of them can join no more.

        Closed keys of hidden rows are remembered, unless these are `shown`.
        """
        judged = self._judge.judged(ledger, keys, shown)
        closed, hidden, stay = judged.closed, judged.hidden, judged.hidden | judged.waits
        gone: dict[Plan, Bools] = {}
        for node, side in self.host.tree.sides.items():
            places = [self.host.query.names.index(name) for name in leaves(node)]
            gone[node] = (judged.finished | self._judge.closed_beside(closed, places)) & ~stay
            if gone[node].any():
                purged = purge(side, keys.pick(gone[node]))
                if isinstance(node, str):
                    self.host.counters[places[0]].purged_rows += purged
        if (all_closed := closed.all(axis=0) & ~stay).any():
            ledger.finish(keys.pick(all_closed))
        if (waiting := hidden & closed.any(axis=0)).any():
            waits = keys.pick(waiting)
            self.host.closed_hidden.hashes.append(waits.hashes)
            self._hidden = [_each_once([*self._hidden, Keys(waits.hashes, waits.checks)])]
        return gone


def within_reach(host: Host, arrival: Arrival) -> Arrival:
    """Leave out rows that are too old or too new for the results that are found here.

    The oldest required row of these is inside; partners of optional streams may be older.
    """
    if host.site.owns is None or not len(arrival.rows):
        return arrival
    (since_us, until_us), times = host.site.owns, arrival.rows.times
    span_us = host.query.bounds.span_us
    before_us = span_us if host.query.kinds.optional else 0
    return arrival.pick((times >= since_us - before_us) & (times - span_us < until_us))


def _each_once(parts: list[Keys]) -> Keys:
    """Lists of keys put together; there is at least one."""
    keys = concat_keys(parts)
    return keys.pick(keys.first_ones())


def _keys_of(ledger: Ledger, rows: Rows) -> Keys:
    """The keys of rows, row by row."""
    return Keys(rows.hashes, None if ledger.keys.exact else rows.checks)


def _parted(parts: list[Keys], chosen: Callable[[Int64s], Bools]) -> tuple[list[Keys], list[Keys]]:
    """Keys that are chosen by their hashes, and the others."""
    if not any(map(len, parts)):
        return [], []
    keys = concat_keys(parts)
    these = chosen(keys.hashes)
    return [keys.pick(these)], [keys.pick(~these)]
