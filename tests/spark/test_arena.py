"""The arena: used when its token is the state's, taken back by one batch, else rebuilt."""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.spark.plan import JoinPlan
from braided.spark.storage import arena, folders
from braided.spark.storage.store import Meta
from braided.testing import assert_same_bag, bag, expected
from tests.seeds import seeds
from tests.spark.test_bucket import BUCKETS, Cluster, batches
from tests.workloads import names_of, random_tables, stream

NAMES = names_of(3)


@pytest.fixture(autouse=True)
def own_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    monkeypatch.setattr(folders, "other_roots", list)
    return tmp_path / "arenas"


def cluster(tables: dict[str, pa.Table], window: str = "30 us", **options: Any) -> Cluster:
    made = Cluster(bd.JoinQuery([stream(n, window) for n in NAMES], **options), tables)
    plan = made.plan
    made.plan = JoinPlan(plan.query, plan.schemas, plan.buckets, plan.late, "app")
    return made


def files(root: Path, pattern: str) -> list[Path]:
    return sorted(p for p in root.rglob(pattern) if p.is_file())


def counted(made: Cluster, name: str) -> int:
    return int(getattr(made.seen(), name))


@pytest.mark.parametrize("rows", [1, 7, 50])
@pytest.mark.parametrize("window", ["30 us", "unbounded"])
def test_oracle_engines_go_on_from_batch_to_batch(rows: int, window: str) -> None:
    for seed in seeds(1):
        tables = random_tables(seed, NAMES, rows=60 if window == "30 us" else 30)
        made = cluster(tables, window)
        parts = batches(tables, rows)
        found = [made.push(b) for b in parts]
        assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))
        assert counted(made, "rebuilds") == 0
        assert counted(made, "arena_hits") > 0 or len(parts) == 1


@pytest.mark.parametrize("index", ["hash", "scan"])
def test_a_batch_that_was_not_committed_is_taken_back(own_root: Path, index: Any) -> None:
    """Retries, speculation, a second action: the state is as before, the arena one batch ahead."""
    for seed in seeds(2):
        tables = random_tables(seed, NAMES)
        made = cluster(tables, tuning=bd.Tuning(index=index))
        found = [made.push_twice(batch) for batch in batches(tables, 6)]
        assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))
        assert counted(made, "rebuilds") == 0


def test_an_older_or_foreign_state_is_rebuilt(own_root: Path) -> None:
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    parts = batches(tables, 10)
    found = [made.push(parts[0])]
    old = copy.deepcopy(made.states)
    made.push(parts[1])
    made.push(parts[2])
    made.states = old  # two batches back: a restart from an older checkpoint
    found += [made.push(b) for b in parts[1:]]
    assert counted(made, "rebuilds") == BUCKETS
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))


@pytest.mark.parametrize(
    "damage", ["truncated", "removed", "garbage header", "no header", "short rows", "token"]
)
def test_a_poisoned_arena_is_noticed_and_rebuilt(own_root: Path, damage: str) -> None:
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    parts = batches(tables, 20)
    found = [made.push(parts[0])]
    for path in files(own_root, "*"):
        name = path.name
        if damage == "truncated" and ".hash." in name:
            os.truncate(path, 3)
        elif damage == "removed" and ".link." in name:
            path.unlink()
        elif damage == "garbage header" and name == "header":
            path.write_bytes(b"garbage")
        elif damage == "no header" and name == "header":
            path.unlink()  # a worker died in mid-batch
        elif damage == "short rows" and ".rows." in name:
            os.truncate(path, 40)
        elif damage == "token" and name == "header":
            path.write_bytes(path.read_bytes().replace(b'"token": "', b'"token": "x'))
    found += [made.push(b) for b in parts[1:]]
    assert counted(made, "rebuilds") == BUCKETS
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))


def test_two_attempts_at_once_do_not_meet(own_root: Path) -> None:
    """A zombie holds the lock: the new attempt works in memory of its own, and both are right."""
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    parts = batches(tables, 20)
    found = [made.push(parts[0])]
    zombies = [zombie for b in range(BUCKETS) if (zombie := arena.open_arena(made.plan, "", b))]
    assert len(zombies) == BUCKETS
    found.append(made.push(parts[1]))
    assert counted(made, "rebuilds") == BUCKETS
    for zombie in zombies:
        zombie.close()
    found += [made.push(b) for b in parts[2:]]
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))


def test_files_are_private_few_and_removed_with_their_rows(own_root: Path) -> None:
    tables = random_tables(1, NAMES, rows=2_000, span_us=20_000)
    made = cluster(tables)
    counts = []
    for batch in batches(tables, 40):
        made.push(batch)
        counts.append(len(files(own_root, "*")))
    assert all(p.stat().st_mode & 0o077 == 0 for p in own_root.rglob("*"))
    assert max(counts[-10:]) <= BUCKETS * (2 + 3 * (4 + 12))


def test_no_room_means_no_arena_and_no_error(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    found = [made.push(b) for b in batches(tables, 9)]
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))
    assert counted(made, "arena_hits") == 0


def test_an_attempt_killed_while_it_takes_a_batch_back_is_noticed(
    own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header goes before anything changes: half an undo must never be trusted, even if the attempt
    whose batch was being taken back is committed after all."""
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    parts = batches(tables, 20)
    found = [made.push(parts[0])]
    before = copy.deepcopy(made.states)
    found.append(made.push(parts[1]))
    committed = made.states
    made.states = before
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(arena.Arena, "_undo", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        made.push(parts[1])
    made.states = committed
    found += [made.push(b) for b in parts[2:]]
    assert counted(made, "rebuilds") >= 1
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))


def test_a_folder_that_is_swept_in_mid_run_does_no_harm(own_root: Path) -> None:
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    found = []
    for batch in batches(tables, 9):
        found.append(made.push(batch))
        shutil.rmtree(own_root)
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))


def test_folders_of_dead_applications_are_swept(own_root: Path) -> None:
    for name, owner in (("dead-app", "999999999"), ("live-app", str(os.getpid()))):
        folders.application_folder(name).write("owner", owner.encode())
    dead, alive = own_root / "dead-app", own_root / "live-app"
    folders.application_folder("new-app")
    assert not dead.exists()
    assert alive.exists()


def test_a_querys_folder_goes_when_the_query_ends(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_LOOK_EVERY_S", 0.01)
    kept = folders.bucket_folder("app", "other-session", "f", 0).path
    ended = folders.bucket_folder("app", "mine", "f", 0).path

    def looks() -> Iterator[list[str]]:
        yield ["mine"]
        yield []
        assert not ended.exists()  # and a task that outlives its query makes it again
        folders.bucket_folder("app", "mine", "f", 0)
        yield []

    looked = looks()
    folders._watch("app", lambda: next(looked))  # ends when there are no more answers
    assert kept.is_dir()
    assert not ended.parent.exists()


def test_oracle_a_changed_plan_and_a_retry_of_its_first_batch(own_root: Path) -> None:
    """The arena of the first attempt could not be taken back, and its rows were joined twice."""
    tables = random_tables(1, NAMES)
    for before, after in (("mjoin", "linear"), ((("s0", "s1"), "s2"), ("s2", ("s0", "s1")))):
        one, two = cluster(tables, "60 us", plan=before), cluster(tables, "60 us", plan=after)
        parts = batches(tables, 10)
        found = [one.push(parts[0])]
        two.states = one.states
        for batch in parts[1:]:
            states = copy.deepcopy(two.states)
            first = two.push(batch)
            two.states = states
            found.append(two.push(batch))
            assert bag(found[-1]) == bag(first)
        assert_same_bag(pa.concat_tables(found), expected(two.plan.query, tables))
        shutil.rmtree(own_root)


def loads(seed: int, sizes: list[int], window: str) -> tuple[list[dict[str, pa.Table]], dict[str, Any]]:
    rng = np.random.default_rng(seed)
    made = [
        {
            n: pa.table(
                {
                    "k": rng.integers(0, 20, rows),
                    "t": pa.array(np.sort(rng.integers(at * 100, at * 100 + 100, rows))).cast(
                        "timestamp[us]"
                    ),
                    "n": rng.integers(0, 1 << 40, rows),
                }
            )
            for n in NAMES
        }
        for at, rows in enumerate(sizes)
    ]
    return made, {"window": window, "plan": "linear"}


@pytest.mark.parametrize("window", ["unbounded", "150 us"])
def test_with_a_budget_kept_and_rebuilt_engines_go_on_alike(own_root: Path, window: str) -> None:
    """Intermediates that spare budget made anew were not written, and dead rows counted for budgets."""
    claims = 0
    for seed in (2,):  # all buckets have budget to spare here
        parts, options = loads(seed, [5, 60, 60] + [8] * 9, window)
        kept, lost = (cluster(parts[0], **options, overload=bd.Overload(200)) for _ in range(2))
        exact = cluster(parts[0], **options)
        exact.plan = dataclasses.replace(exact.plan, arena="")
        for number, batch in enumerate(parts):
            found = bag(kept.push(batch))
            shutil.move(own_root, own_root.with_name("kept"))
            states = copy.deepcopy(lost.states)
            assert bag(lost.push(batch)) == found
            lost.states = states
            assert bag(lost.push(batch)) == found  # a retry
            shutil.rmtree(own_root)
            shutil.move(own_root.with_name("kept"), own_root)
            wanted = bag(exact.push(batch))
            since = [
                Meta.decode(s.meta or b"").numbers["features"]["overload"]["rationing"]["exact_since"]
                for s in lost.states
            ]
            if all(s is not None and s <= number for s in since):
                claims += number > 3
                assert found == wanted
        shutil.rmtree(own_root)
    assert claims
