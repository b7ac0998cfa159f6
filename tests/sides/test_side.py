"""A side's arrays moved, grown, compacted, renumbered and undone hold the same rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.calibration import machine_costs
from braided.engine.sides import columns, payload, side
from braided.engine.sides.by_key import holds, purge, stored_keys
from braided.engine.sides.columns import BORN, CHECK, ENDS, GONE, Column
from braided.engine.sides.frozen import adopt, arrays_of, frozen, thaw
from braided.engine.sides.groups import drop_groups, group_of, in_groups, ordered_by_group, rows_by_group
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import Mark, Reason, Rows, SideState
from braided.query.windows import CountWindow
from braided.testing import assert_same_bag, expected
from tests.seeds import seeds
from tests.workloads import names_of, random_tables, stream

SCHEMA = pa.schema([("v", pa.int64())])
LEFT = (Reason.EXPIRE, Reason.SHED, Reason.REMAKE)
KEYS = [k << 60 for k in range(-4, 5)]  # each in a slot of its own
ALL_COLUMNS = (ENDS, GONE, CHECK, BORN)


def rows(start: int, count: int) -> Rows:
    numbers = np.arange(start, start + count)
    return Rows(pa.record_batch({"v": numbers}), numbers * 7919 % 13, numbers.copy())


def held(state: SideState) -> list[int]:
    return [v for r in state.contents() for v in r.batch.column(0).to_pylist()]


def at_key(state: SideState, key: int) -> list[int]:
    """The values of a key's rows, as a probe finds them: along its chain, newest first, or by a scan."""
    c = state.columns
    if state.index.scanned:
        positions = [p for p in range(c.count - 1, c.first - 1, -1) if c["link"][p - c.base] != -2]
    else:
        positions, p = [], int(state.index.head[(key % (1 << 64)) >> state.index.shift])
        while p >= c.first:
            positions.append(p)
            p = int(c["link"][p - c.base])
    matching = [p for p in positions if c["hash"][p - c.base] == key]
    values: list[int] = state.payload.gather(np.array(matching, np.int64), [0])[0].to_pylist()
    return values


def test_rows_survive_moves_growth_and_expiry() -> None:
    state = SideState("a", SCHEMA)
    for start in range(0, 5000, 37):
        state.append(rows(start, 37))
        state.expire(start - 400)
        assert held(state) == list(range(max(0, start - 400), start + 37))
        assert state.rows == len(held(state))
    assert state.forgotten[Reason.EXPIRE] == 5032 - state.rows
    assert state.columns.room <= 4 * (400 + 2 * 37)


def test_undo_takes_back_exactly_what_was_appended() -> None:
    state = SideState("a", SCHEMA)
    state.append(rows(0, 50))
    mark = state.reserve(500)
    before = held(state), state.index.head.copy()
    state.append(rows(50, 500))
    state.undo(mark)
    assert held(state) == before[0]
    assert np.array_equal(state.index.head, before[1])


def test_small_positions_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are 32-bit; a stream longer than that starts them anew. Here they are 7-bit."""
    machine_costs()  # measured with larger sides, once a process
    monkeypatch.setattr(side, "_MAX_POSITION", 160)
    monkeypatch.setattr(columns, "_MIN_ROWS", 2)
    monkeypatch.setattr(payload, "MERGED_ROWS", 5)
    names = names_of(3)
    query = bd.JoinQuery([stream(n, "20 us") for n in names])
    for seed in range(5):
        tables = random_tables(seed, names, rows=400, keys=20, span_us=1500)
        assert_same_bag(bd.run_local(query, tables, batch_rows=11), expected(query, tables))


def test_more_rows_than_positions_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side, "_MAX_POSITION", 100)
    state = SideState("orders", SCHEMA)
    with pytest.raises(bd.BraidedError, match="'orders'"):
        state.append(rows(0, 101))


# columns


def test_every_declared_column_follows_its_row() -> None:
    """What a feature declares grows, moves and is compacted with all else, whatever its type and width."""
    mine = (Column("pair", (np.int64, 2), mapped=False), Column("tiny", np.int8, fill=7))
    state = SideState("a", SCHEMA, [*ALL_COLUMNS, *mine])
    for start in range(0, 1000, 50):
        some = rows(start, 50)
        times = some.times
        ended = Rows(some.batch, some.hashes, times, None, times + 1, times + 2, times + 3)
        state.append(ended)
        c = state.columns
        fresh = c.between("pair", c.count - 50, c.count)
        fresh[:, 0], fresh[:, 1] = times, -times
        if start % 200 == 0:
            odd = np.flatnonzero(c.held("time") % 2) + state.first
            state.forget(odd, Reason.SHED, entirely=True)
        state.forget(range(state.first, max(state.first, state.count - 170)), Reason.SHED)
        values = np.array(held(state))
        assert state.rows == len(values) <= 170
        for name, offset in (("time", 0), ("check", 1), ("ends", 2), ("born", 3)):
            assert np.array_equal(c.held(name), values + offset), name
        assert np.array_equal(c.held("pair"), np.stack([values, -values], axis=1))
        assert not c.held("gone").any()
        assert (c.held("tiny") == 7).all()


def test_arrays_grow_by_a_quarter_and_are_given_back() -> None:
    state = SideState("a", SCHEMA)
    state.append(rows(0, 10_000))
    assert state.columns.room == 12_500
    most = state.nbytes
    state.forget(range(9_990), Reason.SHED)
    for _ in range(12):  # room that was needed lately is not given back at once
        state.expire(-1)
    assert state.rows == 10
    assert state.columns.room < 100
    assert state.nbytes < most / 20
    assert held(state) == list(range(9_990, 10_000))


def test_a_second_hash_costs_nothing_until_rows_bring_one() -> None:
    plain, state = SideState("a", SCHEMA, [GONE]), SideState("a", SCHEMA, [GONE, CHECK])
    for start in (0, 20):
        plain.append(rows(start, 20))
        state.append(rows(start, 20))
    assert state.nbytes == plain.nbytes
    assert state.columns["check"] is state.columns["hash"]
    some = rows(40, 5)
    state.append(Rows(some.batch, some.hashes, some.times, checks=some.times))
    assert state.columns["check"] is not state.columns["hash"]
    assert np.array_equal(state.columns.held("check")[:40], state.columns.held("hash")[:40])
    assert state.columns.held("check")[40:].tolist() == [40, 41, 42, 43, 44]


def test_an_allocation_that_fails_changes_nothing() -> None:
    """Arrays were replaced one by one: memory that ran out in between left rows without their times."""
    calls = 0

    def allocate(name: str, length: int, dtype: object) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MemoryError
        return np.empty(length, dtype)  # type: ignore[call-overload, no-any-return]

    state = SideState("a", SCHEMA, allocate=allocate)
    state.append(rows(0, 60))
    with pytest.raises(MemoryError):
        state.append(rows(60, 60))
    assert held(state) == list(range(60)) == state.columns.held("time").tolist()
    state.append(rows(60, 60))
    assert held(state) == list(range(120)) == state.columns.held("time").tolist()


def test_a_thawed_side_goes_on_where_the_frozen_one_stood() -> None:
    state = SideState("a", SCHEMA, [ENDS, GONE, CHECK])
    for start in range(0, 300, 30):
        some = rows(start, 30)
        state.append(Rows(some.batch, some.hashes, some.times, None, some.times, some.times))
    state.forget(range(100), Reason.SHED)
    state.forget(np.array([150, 170]), Reason.PURGE)
    assert set(arrays_of(state)) == {"hash", "time", "link", "ends", "gone", "check", "head"}
    other = SideState("a", SCHEMA, [ENDS, GONE, CHECK])
    copies = {name: array.copy() for name, array in arrays_of(state).items()}
    thaw(other, frozen(state), copies, state.payload.chunks)
    for one in (state, other):
        one.append(rows(300, 30))
        one.expire(120)
    assert held(state) == held(other)
    assert frozen(state) == frozen(other)
    assert all(at_key(state, k) == at_key(other, k) for k in range(13))
    adopt(other, {name: array.copy() for name, array in arrays_of(other).items()})
    assert held(state) == held(other)


# the index


@pytest.mark.parametrize("scanned", [False, True])
def test_rows_are_found_by_key_whatever_happened(scanned: bool) -> None:
    state = SideState("a", SCHEMA, [GONE, CHECK], scanned=scanned)
    state.append(rows(0, 200))
    null_keys = rows(200, 26)
    state.append(Rows(null_keys.batch, null_keys.hashes, null_keys.times, np.arange(26) % 2 == 0))
    findable = [*range(200), *range(200, 226, 2)]

    def check(expected: Iterable[int]) -> None:
        values = list(expected)
        for key in range(13):
            assert at_key(state, key) == [v for v in values[::-1] if v * 7919 % 13 == key]

    check(findable)
    state.index.scan(not scanned)
    check(findable)
    state.index.scan(scanned)
    assert len(state.index.head) == (64 if scanned else 256)
    gone = np.arange(3, 180, 4)
    assert state.forget(gone, Reason.FLUSH) == len(gone)
    left = [v for v in findable if v not in gone]
    check(left)
    state.index.scan(not scanned)
    check(left)
    state.leave_out_gone()
    assert state.rows == 226 - len(gone)
    check(left)


def test_holding_and_purging_go_by_key_and_second_hash() -> None:
    """Two keys may share a hash: the second one tells them apart."""
    for scanned in (False, True):
        state = SideState("a", SCHEMA, [GONE, CHECK], scanned=scanned)
        some = rows(0, 130)
        state.append(Rows(some.batch, some.hashes, some.times, None, some.times % 2))
        keys = Keys(np.array([1, 1, 2, 99]), np.array([0, 1, 0, 0]))
        assert holds(state, keys).tolist() == [True, True, True, False]
        mine = [v for v in range(130) if v * 7919 % 13 == 1 and v % 2 == 1]
        assert purge(state, keys.pick(np.array([False, True, False, False]))) == len(mine)
        assert held(state) == [v for v in range(130) if v not in mine]
        assert holds(state, keys).tolist() == [True, False, True, False]
        assert len(stored_keys(state)) == state.live_rows == 130 - len(mine)
        assert state.rows == 130
        assert state.forgotten[Reason.PURGE] == len(mine)


def test_purged_rows_leave_once_they_are_more_than_half() -> None:
    state = SideState("a", SCHEMA, [GONE, CHECK])
    state.append(rows(0, 1300))
    for key in range(12):
        purge(state, Keys(np.array([key])))
        assert state.live_rows == 1300 - 100 * (key + 1)
        assert state.rows <= 2 * state.live_rows + 1
    assert state.renumbered
    assert held(state) == [v for v in range(1300) if v * 7919 % 13 == 12]


def test_groups_are_taken_and_dropped_together() -> None:
    bits, rng = 3, np.random.default_rng(1)
    state = SideState("a", SCHEMA, [ENDS, GONE, CHECK, BORN])
    hashes = rng.integers(-(1 << 63), 1 << 63, 500)
    numbers = np.arange(500)
    linked = rng.random(500) < 0.9
    state.append(Rows(pa.record_batch({"v": numbers}), hashes, numbers, linked, None, numbers))
    groups = group_of(hashes, bits)
    assert rows_by_group(state, bits).tolist() == np.bincount(groups[linked], minlength=8).tolist()
    chosen = np.isin(np.arange(8), [1, 4, 5])
    found, there, bounds = ordered_by_group(in_groups(state, chosen), bits)
    assert there == [1, 4, 5]
    by_group = [found.batch.column(0).to_pylist()[a:b] for a, b in itertools.pairwise(bounds)]
    assert by_group == [np.flatnonzero(linked & (groups == g)).tolist() for g in (1, 4, 5)]
    assert found.ends is not None
    assert found.born is not None
    assert found.ends.tolist() == found.times.tolist()
    assert found.checks is None
    dropped = drop_groups(state, chosen)
    assert dropped == len(found) == state.forgotten[Reason.FLUSH] == state.gone_rows
    assert drop_groups(state, chosen) == 0
    assert held(state) == np.flatnonzero(~(linked & chosen[groups])).tolist()
    for v in range(500):
        assert at_key(state, int(hashes[v])) == ([v] if linked[v] and not chosen[groups[v]] else [])


# forgetting


@pytest.mark.parametrize("reason", Reason)
def test_a_prefix_is_forgotten_for_any_reason(reason: Reason) -> None:
    state = SideState("a", SCHEMA, [GONE])
    state.append(rows(0, 100))
    assert state.forget(range(30), reason) == 30
    assert state.forget(range(30, 30), reason) == 0
    assert held(state) == list(range(30, 100))
    assert (state.rows, state.live_rows) == (70, 70)
    assert state.forgotten == {r: 30 if r is reason else 0 for r in Reason}


@pytest.mark.parametrize("reason", Reason)
def test_positions_are_forgotten_for_any_reason(reason: Reason) -> None:
    """Marked rows hold their room; others leave from the front, and behind live rows once they are many."""
    state = SideState("a", SCHEMA, [GONE])
    state.append(rows(0, 100))
    some = np.array([0, 1, 2, 50, 60])
    marked = reason not in LEFT
    assert state.forget(some, reason) == (5 if marked else 3)
    assert state.rows == (100 if marked else 97)
    assert state.live_rows == (95 if marked else 97)
    many = np.array([10, 11, 12, 99]) if marked else np.array([10, 11, 12, 50, 60, 99])
    assert state.forget(many, reason, entirely=True) == len(many)
    state.leave_out_gone()
    assert held(state) == [v for v in range(100) if v not in {*some.tolist(), *many.tolist()}]
    assert state.rows == state.live_rows == 91
    assert state.forgotten == {r: 9 if r is reason else 0 for r in Reason}


def test_rows_behind_live_ones_leave_when_they_are_more_than_half() -> None:
    state = SideState("a", SCHEMA)
    state.append(rows(0, 100))
    assert state.forget(np.arange(1, 51), Reason.SHED) == 0
    assert state.rows == 100
    assert state.forget(np.arange(1, 52), Reason.SHED) == 51
    assert held(state) == [0, *range(52, 100)]
    assert (state.rows, state.renumbered, state.first) == (49, 1, 0)


def test_a_row_is_forgotten_once_though_it_is_held_longer() -> None:
    """A purged row that expires later had gone before: it counts as purged alone."""
    state = SideState("a", SCHEMA, [GONE, CHECK])
    state.append(rows(0, 130))
    purge(state, Keys(np.array([0])))
    assert state.forgotten[Reason.PURGE] == 10
    assert state.expire(130) == 120
    assert state.forgotten[Reason.EXPIRE] == 120
    assert (state.rows, state.gone_rows) == (0, 0)


def test_rows_that_left_count_though_memory_is_too_small_to_compact(monkeypatch: pytest.MonkeyPatch) -> None:
    """What left from the front before memory ran out was never counted: no later call sees it again."""
    state = SideState("a", SCHEMA)
    state.append(rows(0, 100))
    dead = np.array([*range(20), *range(30, 90)])

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(payload.Payload, "keep", fail)
        with pytest.raises(MemoryError):
            state.forget(dead, Reason.SHED)
    assert (state.forgotten[Reason.SHED], state.rows) == (20, 80)
    assert held(state) == list(range(20, 100))
    assert state.forget(dead[20:], Reason.SHED) == 60
    assert (state.forgotten[Reason.SHED], state.rows) == (80, 20)


def test_a_listener_hears_of_every_row_once_and_can_still_read_it() -> None:
    heard: dict[Reason, list[int]] = {reason: [] for reason in Reason}
    state = SideState("a", SCHEMA, [GONE, CHECK])

    def listen(positions: np.ndarray, reason: Reason) -> None:
        heard[reason] += state.payload.gather(positions, [0])[0].to_pylist()

    state.on_forget = listen
    state.append(rows(0, 130))
    purge(state, Keys(np.array([3])))
    state.forget(np.array([0, 1, 7]), Reason.SHED)
    state.forget(range(state.first, 20), Reason.EXPIRE)
    state.forget(np.arange(30, 40), Reason.FLUSH)
    state.forget(np.arange(25, 120), Reason.SHED, entirely=True)
    state.leave_out_gone()
    assert {r: len(v) for r, v in heard.items()} == state.forgotten
    everything = sorted(v for values in heard.values() for v in values)
    assert everything == sorted(set(range(130)) - set(held(state)))


def test_a_count_window_lets_rows_go_and_counts_again_after_undo() -> None:
    for window in (CountWindow(5, per="stream"), CountWindow(5, per="key")):
        state = SideState("a", SCHEMA, window=window)
        state.append(rows(0, 130))
        mark = state.reserve(100)
        before = state.columns.held("leaves").copy()
        state.append(rows(130, 100))
        state.undo(mark)
        assert np.array_equal(state.columns.held("leaves"), before)
        inside = 5 if window.per == "stream" else 65
        assert state.expire(-1) == 130 - inside
        assert state.rows == inside
        assert held(state) == list(range(130 - inside, 130))


# a side against a list of rows


@dataclass
class Row:
    value: int
    key: int
    time: int
    linked: bool
    gone: bool = False
    hidden: bool = False


class Naive:
    """Rows in a list: what a side must hold, whatever it does with them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.numbers = self.appended = 0

    def batch(self, rng: random.Random) -> list[Row]:
        start = self.numbers
        self.numbers += rng.choice([0, 1, 7, 40, 90])
        slack = rng.choice([0, 0, 25])
        return [
            Row(v, rng.choice(KEYS), v - rng.randint(0, slack), rng.random() < 0.9)
            for v in range(start, self.numbers)
        ]


def as_rows(batch: Sequence[Row], *, checked: bool) -> Rows:
    def longs(values: Iterable[int]) -> np.ndarray:
        return np.array(list(values), np.int64)

    hashes = longs(r.key for r in batch)
    return Rows(
        pa.record_batch({"v": longs(r.value for r in batch)}),
        hashes,
        longs(r.time for r in batch),
        np.array([r.linked for r in batch], np.bool_),
        hashes ^ 1 if checked else None,
        longs(r.time + r.value % 3 for r in batch),
        longs(r.value for r in batch),
    )


def agree(state: SideState, naive: Naive, added: Sequence[Column]) -> None:
    """The side holds what the list holds, and finds it by key; what it holds besides is marked as gone."""
    live = [r for r in naive.rows if not r.gone]
    assert held(state) == [r.value for r in live]
    assert state.live_rows == len(live)
    assert state.columns.held("time").tolist() == [r.time for r in naive.rows]
    for name, wanted in (
        ("ends", [r.time + r.value % 3 for r in naive.rows]),
        ("born", [r.value for r in naive.rows]),
        ("gone", [r.gone for r in naive.rows]),
    ):
        if name in {column.name for column in added}:
            assert state.columns.held(name).tolist() == wanted
    for key in KEYS:
        mine = [r.value for r in naive.rows if r.key == key and r.linked and not r.hidden]
        assert at_key(state, key) == mine[::-1]


def append(state: SideState, naive: Naive, added: Sequence[Column], rng: random.Random) -> None:
    batch = naive.batch(rng)
    mark: Mark = state.reserve(len(batch))
    state.append(as_rows(batch, checked=CHECK in added))
    if rng.random() < 0.3:
        state.undo(mark)
    else:
        naive.rows += batch
        naive.appended += len(batch)


def change_index(state: SideState, naive: Naive, added: Sequence[Column], rng: random.Random) -> None:
    state.index.scan(not state.index.scanned)


def mark_some(state: SideState, naive: Naive, added: Sequence[Column], rng: random.Random) -> None:
    """Purge or flush; flushed rows take others of their chain along that have gone before."""
    if GONE not in added:
        return
    reason = rng.choice([Reason.PURGE, Reason.FLUSH])
    chosen = [(i, r) for i, r in enumerate(naive.rows) if rng.random() < 0.2]
    fresh = sum(not r.gone for _, r in chosen)
    assert state.forget(np.array([i for i, _ in chosen], np.int64) + state.first, reason) == fresh
    for _, row in chosen:
        row.gone = True
        row.hidden |= reason is Reason.FLUSH
    if reason is Reason.FLUSH and not state.index.scanned:
        for row in naive.rows:
            row.hidden |= row.gone and any(row.key == r.key and r.linked for _, r in chosen)
    if rng.random() < 0.3:
        state.leave_out_gone(entirely=rng.random() < 0.5)
        follow(state, naive)


def expire(state: SideState, naive: Naive, added: Sequence[Column], rng: random.Random) -> None:
    oldest = naive.numbers - rng.randint(0, 150)
    lasting = {r.value for r in naive.rows if r.time + (r.value % 3 if ENDS in added else 0) >= oldest}
    live = {r.value for r in naive.rows if not r.gone}
    forgotten = state.expire(oldest)
    stay = set(held(state))
    assert live & lasting <= stay
    assert forgotten == len(live - stay)
    follow(state, naive)


def drop_prefix(state: SideState, naive: Naive, added: Sequence[Column], rng: random.Random) -> None:
    rows = rng.randint(0, state.rows)
    live = sum(not r.gone for r in naive.rows[:rows])
    assert state.forget(range(state.first, state.first + rows), Reason.SHED) == live
    naive.rows = naive.rows[rows:]


def drop_some(state: SideState, naive: Naive, added: Sequence[Column], rng: random.Random) -> None:
    share, entirely = rng.choice([0.05, 0.6, 1.0]), rng.random() < 0.5
    places = [i for i in range(state.rows) if rng.random() < share]
    asked = {naive.rows[i].value for i in places}
    live = {r.value for r in naive.rows if not r.gone}
    forgotten = state.forget(np.array(places, np.int64) + state.first, Reason.SHED, entirely=entirely)
    left = live - set(held(state))
    assert left <= asked
    assert forgotten == len(left)
    follow(state, naive)
    still = asked & {r.value for r in naive.rows}
    assert not still if entirely else 2 * len(still) <= len(naive.rows)


STEPS = (append, append, append, change_index, mark_some, expire, drop_prefix, drop_some)


def follow(state: SideState, naive: Naive) -> None:
    """The list follows the side: only the rows it holds, marked ones included."""
    values = {v for r in state.contents(purged=True) for v in r.batch.column(0).to_pylist()}
    naive.rows = [r for r in naive.rows if r.value in values]


@pytest.mark.parametrize("added", [(), (ENDS,), (GONE,), (GONE, CHECK, BORN), ALL_COLUMNS])
@pytest.mark.parametrize("seed", seeds(12))
def test_any_sequence_of_steps_holds_the_rows_of_a_list(
    seed: int, added: Sequence[Column], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    if seed % 2:  # positions start again and again, and chunks are tiny
        monkeypatch.setattr(side, "_MAX_POSITION", 700)
        monkeypatch.setattr(columns, "_MIN_ROWS", 2)
        monkeypatch.setattr(payload, "MERGED_ROWS", 5)
    state, naive = SideState("a", SCHEMA, added, scanned=seed % 3 == 0), Naive()
    for _ in range(60):
        if state.rows > 500:
            state.forget(range(state.first, state.count - 100), Reason.SHED)
            naive.rows = naive.rows[-100:]
        rng.choice(STEPS)(state, naive, added, rng)
        agree(state, naive, added)
        assert state.rows == len(naive.rows)
        assert state.columns.room >= state.rows
    assert sum(state.forgotten.values()) == naive.appended - state.live_rows
