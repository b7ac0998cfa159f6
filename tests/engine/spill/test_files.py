"""Files of a memory budget: they go with their process, never with another one, and only they go."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.sides.side import Rows
from braided.engine.spill.files import Piece, Spill
from braided.engine.spill.home import make_home, sweep
from tests.engine.test_folders import NOBODY, as_root

ROWS = 12


def rows(start: int) -> Rows:
    numbers = np.arange(start, start + ROWS)
    return Rows(pa.record_batch({"n": numbers}), numbers, numbers)


def write(spill: Spill, start: int = 0) -> list[Piece]:
    """A file with two pieces."""
    return spill.write([(rows(start), np.array([0, 5, ROWS]), None)])[0]


def numbers(spill: Spill, pieces: list[Piece]) -> list[int]:
    read = spill.read(pieces)
    return [n for piece in pieces for n in read[piece].column("n").to_pylist()]


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def forked(work: Callable[[], object]) -> int:
    """A child that does some work, and ends with 0 if nothing was raised."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


EXITS = """
import os, sys
from tests.engine.spill.test_files import ROWS, Spill, numbers, write
spill = Spill(sys.argv[1])
pieces = write(spill)
child = os.fork()
if not child:
    sys.exit()  # as any program does: its exit functions run
assert os.waitpid(child, 0)[1] == 0
assert numbers(spill, pieces) == list(range(ROWS))
"""


def test_a_child_that_exits_leaves_its_parents_rows(tmp_path: Path) -> None:
    """A program forked a worker while its join had rows on disk. The worker had nothing to do with the join,
    but when it exited, the finaliser it had inherited removed the folder: the parent's rows were lost."""
    done = subprocess.run(
        [sys.executable, "-c", EXITS, tmp_path], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []  # the parent itself has removed its folder


@pytest.mark.parametrize("how", ["collected", "closed", "dropped"])
def test_a_child_that_lets_go_of_the_join_leaves_its_parents_rows(tmp_path: Path, how: str) -> None:
    """The same without an exit: the child's copy of the join is closed, collected, or drops pieces."""
    kept = {"spill": Spill(str(tmp_path))}
    spill, pieces = kept["spill"], write(kept["spill"])

    def let_go() -> None:
        nonlocal spill
        if how == "closed":
            spill.close()
        elif how == "dropped":
            spill.drop(pieces)
            assert spill.bytes == 0
        else:
            kept.clear()
            del spill
            gc.collect()

    assert ended(forked(let_go)) == 0
    assert numbers(spill, pieces) == list(range(ROWS))
    spill.drop(pieces)
    assert [*tmp_path.rglob("*.arrow")] == []


def test_a_child_goes_on_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """A child that went on with an inherited join wrote into its parent's folder, where the parent's next
    file had the same name: one's rows became the other's."""
    spill = Spill(str(tmp_path))
    pieces = write(spill)

    def go_on() -> None:
        more = write(spill, 100)
        assert len(left(tmp_path)) == 2
        assert numbers(spill, pieces + more) == [*range(ROWS), *range(100, 100 + ROWS)]
        spill.close()

    child = forked(go_on)
    more = write(spill, 200)
    assert ended(child) == 0
    assert numbers(spill, pieces + more) == [*range(ROWS), *range(200, 200 + ROWS)]
    assert len(left(tmp_path)) == 1


def test_joins_that_begin_at_once_in_one_directory_do_not_meet(tmp_path: Path) -> None:
    """A folder was made, and then locked. A join that began in between took it for one that a dead process
    had left, and removed it: 94 of 1,582 joins failed so, and stayed so."""
    until = time.monotonic() + 1

    def begin_all_the_time() -> None:
        done = 0
        while time.monotonic() < until or done < 150:
            spill = Spill(str(tmp_path))
            assert numbers(spill, write(spill, done)) == [*range(done, done + ROWS)]
            spill.close()
            done += 1

    assert [ended(child) for child in [forked(begin_all_the_time) for _ in range(6)]] == [0] * 6
    assert left(tmp_path) == []


def test_a_folder_that_vanished_is_made_again(tmp_path: Path) -> None:
    """The message said that the failed call may be repeated, but every further one looked for the folder
    that was gone."""
    spill = Spill(str(tmp_path))
    write(spill)
    for start in (100, 200):
        shutil.rmtree(tmp_path)
        assert numbers(spill, write(spill, start)) == [*range(start, start + ROWS)]
    spill.close()
    assert left(tmp_path) == []


def test_what_dead_processes_left_goes_and_what_is_held_stays(tmp_path: Path) -> None:
    def killed() -> None:
        spill = Spill(str(tmp_path))
        assert write(spill)
        os.kill(os.getpid(), signal.SIGKILL)

    held = make_home(tmp_path)
    assert ended(forked(killed)) == -signal.SIGKILL
    (tmp_path / "braided-spill-half-made").mkdir(mode=0o700)
    assert len(left(tmp_path)) == 3
    sweep(tmp_path)
    assert left(tmp_path) == [held.folder.path.name]
    held.remove()
    assert left(tmp_path) == []


def test_a_lock_that_is_a_fifo_does_not_hold_a_join_up(tmp_path: Path) -> None:
    """Anybody could leave such a folder in /tmp, and every join with a budget waited for ever."""
    trap = tmp_path / "braided-spill-trap"
    trap.mkdir(mode=0o700)
    os.mkfifo(trap / "lock")
    with at_most(20):
        spill = Spill(str(tmp_path))
        assert numbers(spill, write(spill)) == list(range(ROWS))
    assert trap.exists()


def test_sweeps_follow_no_links(tmp_path: Path) -> None:
    """A link named like one of our folders made a join remove what it pointed to."""
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    for name in ("lock", "file"):
        (precious / name).write_text("")
    (tmp_path / "braided-spill-link").symlink_to(precious)
    trap = tmp_path / "braided-spill-trap"
    trap.mkdir(mode=0o700)
    (trap / "lock").symlink_to(precious / "lock")
    (trap / "rows").symlink_to(precious)
    sweep(tmp_path)
    assert left(precious) == ["file", "lock"]
    (trap / "lock").unlink()
    (trap / "lock").write_text("")
    sweep(tmp_path)
    assert not trap.exists()
    assert left(precious) == ["file", "lock"]


@as_root
def test_folders_of_other_users_are_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "braided-spill-theirs"
    theirs.mkdir(mode=0o700)
    (theirs / "lock").write_text("")
    os.chown(theirs, NOBODY, NOBODY)
    sweep(tmp_path)
    assert left(theirs) == ["lock"]


def test_folders_and_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(Spill(str(tmp_path)))
        spill = Spill(str(tmp_path))
        write(spill)
    finally:
        os.umask(before)
    (home,) = tmp_path.iterdir()
    assert home.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in home.iterdir()} == {0o600}
