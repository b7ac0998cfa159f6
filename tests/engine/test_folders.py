"""A folder of one's own: made private, opened only if it is, and nothing in it leads outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from braided.engine.folders import Folder

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other users")


def modes(path: Path) -> set[int]:
    return {p.lstat().st_mode & 0o777 for p in path.rglob("*") if p.is_file()}


def test_what_it_makes_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Folder(tmp_path / "own", make=True) as folder, folder.child("in") as child:
            child.write("small", b"x")
            os.close(child.lock("lock"))
    finally:
        os.umask(before)
    assert folder.path.stat().st_mode & 0o777 == child.path.stat().st_mode & 0o777 == 0o700
    assert modes(tmp_path) == {0o600}


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o701])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    path.chmod(mode)
    for make in (True, False):
        with pytest.raises(PermissionError, match="not this user's alone"):
            Folder(path, make=make)


@as_root
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir(mode=0o700)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="not this user's alone"):
        Folder(path, make=True)


def test_links_are_not_followed(tmp_path: Path) -> None:
    target = Folder(tmp_path / "target", make=True)
    target.write("precious", b"x")
    (tmp_path / "link").symlink_to(target.path)
    with pytest.raises(OSError, match="link"):
        Folder(tmp_path / "link", make=True)
    with Folder(tmp_path / "own", make=True) as folder:
        (folder.path / "folder").symlink_to(target.path)
        (folder.path / "file").symlink_to(target.path / "precious")
        for use in (
            lambda: folder.child("folder"),
            lambda: folder.read("file"),
            lambda: folder.lock("file"),
            lambda: folder.open("file", os.O_RDWR | os.O_CREAT),
        ):
            with pytest.raises(OSError, match=r"link|Not a directory"):
                use()
        folder.remove("folder")
        folder.remove("file")
        assert folder.names() == []
    assert target.read("precious") == b"x"


def test_removing_a_tree_with_links_in_it_stays_inside(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    with Folder(tmp_path / "own", make=True) as folder, folder.child("tree") as tree:
        (tree.path / "link").symlink_to(precious)
        tree.child("deep").write("small", b"x")
        folder.remove("tree")
        assert folder.names() == []
        folder.destroy(last="lock")
    assert not (tmp_path / "own").exists()
    assert (precious / "file").read_text() == "x"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """A lock that was a FIFO made the join wait for ever for somebody to open the other end."""
    with Folder(tmp_path / "own", make=True) as folder:
        os.mkfifo(folder.path / "fifo")
        (folder.path / "dir").mkdir()
        for name in ("fifo", "dir"):
            for use in (folder.read, folder.lock, lambda name: folder.open(name, os.O_WRONLY)):
                with pytest.raises(OSError, match=r"Not a regular file|No such device|Is a directory"):
                    use(name)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with Folder(tmp_path / "own", make=True) as folder:
        folder.write("small", b"x")
        os.truncate(folder.path / "small", 1 << 40)
        with pytest.raises(OSError, match="too large"):
            folder.read("small")


def test_a_lock_is_held_once_and_descriptors_are_given_back(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    with Folder(tmp_path / "own", make=True) as folder:
        lock = folder.lock("lock")
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                folder.lock("lock")
        os.close(lock)
        os.close(folder.lock("lock"))
    for _ in range(3):
        (tmp_path / "own").chmod(0o755)
        with pytest.raises(PermissionError):
            Folder(tmp_path / "own")
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_closed_folder_is_no_other_one(tmp_path: Path) -> None:
    """A descriptor's number is used again: what a closed folder removes must not be another one's."""
    closed = Folder(tmp_path / "closed", make=True)
    closed.close()
    with Folder(tmp_path / "other", make=True) as other:
        other.write("1.arrow", b"x")
        with pytest.raises(OSError, match="closed"):
            closed.remove("1.arrow")
        assert other.read("1.arrow") == b"x"
