"""Where arenas lie: only in places that are ours, whoever was there first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from braided.spark.storage import folders
from braided.testing import assert_same_bag, expected
from tests.engine.spill.test_files import at_most
from tests.engine.test_folders import NOBODY, as_root
from tests.spark.test_arena import NAMES, cluster, counted, files
from tests.spark.test_bucket import batches
from tests.workloads import random_tables


@pytest.fixture(autouse=True)
def other_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The place that is taken if the first one is not ours."""
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    monkeypatch.setattr(folders, "other_roots", lambda: [tmp_path / "elsewhere"])
    return tmp_path / "elsewhere"


def joined() -> int:
    """Join some batches, compare with the definition; how often an engine was kept."""
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    found = [made.push(b) for b in batches(tables, 9)]
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))
    return counted(made, "arena_hits")


def everything(path: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in files(path, "*")}


def plant(path: Path, mode: int = 0o777) -> None:
    """What somebody who knows the name may prepare: an application of a dead process."""
    (path / "victim").mkdir(parents=True)
    (path / "victim" / "owner").write_text("999999999")
    path.chmod(mode)


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o711])
def test_a_root_that_others_may_enter_is_not_used(tmp_path: Path, other_root: Path, mode: int) -> None:
    """The root's name is known and was not looked at: whoever made it first could read tokens, swap arrays
    under a running worker, and have it follow links."""
    plant(tmp_path / "arenas", mode)
    before = everything(tmp_path / "arenas")
    assert joined() > 0
    assert everything(tmp_path / "arenas") == before
    assert files(other_root, "header")


@as_root
def test_a_root_of_another_user_is_not_used(tmp_path: Path, other_root: Path) -> None:
    plant(tmp_path / "arenas", 0o700)
    os.chown(tmp_path / "arenas", NOBODY, NOBODY)
    before = everything(tmp_path / "arenas")
    assert joined() > 0
    assert everything(tmp_path / "arenas") == before
    assert files(other_root, "header")


def test_a_root_that_is_a_link_is_neither_used_nor_swept(tmp_path: Path, other_root: Path) -> None:
    """A sweep followed the link, and removed what was there."""
    plant(tmp_path / "precious", 0o700)
    (tmp_path / "arenas").symlink_to(tmp_path / "precious")
    assert joined() > 0
    folders.sweep_dead()
    folders._sweep(lambda _: True)
    assert list(everything(tmp_path / "precious").values()) == [b"999999999"]
    assert not files(other_root, "header")  # they were ours to sweep


def test_without_any_place_engines_are_rebuilt(tmp_path: Path, other_root: Path) -> None:
    for path in (tmp_path / "arenas", other_root):
        plant(path)
    before = everything(tmp_path)
    assert joined() == 0
    assert everything(tmp_path) == before


def test_sweeps_stay_inside(tmp_path: Path) -> None:
    """In our root, too, only folders that are ours are swept, and links in them are not followed."""
    plant(tmp_path / "precious", 0o700)
    dead = folders.application_folder("dead")
    dead.write("owner", b"999999999")
    (dead.path / "link").symlink_to(tmp_path / "precious")
    root = dead.path.parent
    (root / "link").symlink_to(tmp_path / "precious" / "victim")
    waiting = folders.application_folder("waiting").path
    (waiting / "owner").unlink()
    os.mkfifo(waiting / "owner")
    damaged = [b"", b"x", b"-1", b"9" * 5_000, "٣".encode()]
    for number, owner in enumerate(damaged):
        folders.application_folder(f"damaged-{number}").write("owner", owner)
    with at_most(20):
        folders.sweep_dead()
    assert sorted(p.name for p in root.iterdir()) == ["link", "waiting"]
    assert list(everything(tmp_path / "precious").values()) == [b"999999999"]


@pytest.mark.parametrize("name", ["lock", "header", "rows", "hash"])
@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_files_that_are_none_neither_hold_up_nor_lead_outside(tmp_path: Path, name: str, kind: str) -> None:
    tables = random_tables(1, NAMES)
    made = cluster(tables)
    parts = batches(tables, 20)
    precious = tmp_path / "precious"
    found = [made.push(parts[0])]
    for path in files(tmp_path / "arenas", "*"):
        if name in path.name and path.parent.name.isdigit():
            precious.write_bytes(path.read_bytes())
            path.unlink()
            if kind == "fifo":
                os.mkfifo(path)
            elif kind == "link":
                path.symlink_to(precious)
            else:
                path.mkdir()
    before = precious.read_bytes()
    with at_most(60):
        found += [made.push(b) for b in parts[1:]]
    assert_same_bag(pa.concat_tables(found), expected(made.plan.query, tables))
    assert precious.read_bytes() == before
    if name != "lock":  # without a lock, the folder is not touched any more
        assert files(tmp_path / "arenas", "header")


def test_everything_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Headers, with the tokens in them, were readable by all."""
    before = os.umask(0)
    try:
        assert joined() > 0
    finally:
        os.umask(before)
    for path in (tmp_path / "arenas").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


EXITS = """
import os, sys
from pathlib import Path
from braided.spark.storage import folders
folders.root, folders.other_roots = (lambda: Path(sys.argv[1])), list
path = folders.application_folder("app").path
folders.remove_at_exit("app")
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
assert path.is_dir()
"""


def test_a_forked_child_that_exits_leaves_the_applications_folder(tmp_path: Path) -> None:
    """The driver's exit function was inherited, and a child's exit removed the arenas of running queries."""
    command = [sys.executable, "-c", EXITS, str(tmp_path / "arenas")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "arenas").iterdir()) == []
