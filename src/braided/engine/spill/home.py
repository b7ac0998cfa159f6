"""The folder of one join's files: made, locked, and removed by its process, or by others once that is gone.

A home is made in three steps: the folder, the lock file in it, the lock. Whoever looks for homes of dead
processes removes one only while holding its lock, and the lock file last; a folder without a lock file only
if it is empty. So a sweeper may remove a home between two steps, but not after the third: the maker sees
what happened (a step fails, or its lock file is no longer in any folder) and starts with another name.
A home that was locked while its lock file was there is removed by nobody else until its process ends.

A forked child inherits homes, but they stay its parent's: it may read them, and neither writes nor removes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from braided.engine.folders import Folder

_PREFIX, _LOCK = "braided-spill-", "lock"
_TRIES = 1_000


class Home:
    """A folder that this process has locked."""

    def __init__(self, path: Path) -> None:
        """Make and lock it; raise FileNotFoundError or BlockingIOError if a sweeper was faster."""
        self._process = os.getpid()
        self.folder = Folder(path)
        try:
            self._lock = self.folder.lock(_LOCK)
        except OSError:
            self.folder.destroy(last=_LOCK)
            self.folder.close()
            raise
        if not os.fstat(self._lock).st_nlink:
            self._close()
            raise FileNotFoundError(path)

    @property
    def ours(self) -> bool:
        """Whether this process made it; a forked child has inherited it."""
        return os.getpid() == self._process

    def remove(self) -> None:
        """Remove it with all files, unless it is the parent's."""
        if self.ours:
            with contextlib.suppress(OSError):
                self.folder.destroy(last=_LOCK)
            self._close()

    def _close(self) -> None:
        os.close(self._lock)
        self.folder.close()


def make_home(parent: Path) -> Home:
    """Make a home in a directory, and remove those of processes that are gone."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    for _ in range(_TRIES):
        path = parent.absolute() / f"{_PREFIX}{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            return Home(path)
    raise BlockingIOError(f"{_TRIES} folders were removed while they were made")


def sweep(parent: Path) -> None:
    """Remove the homes of processes that are gone: nobody holds their lock."""
    for path in parent.absolute().glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), Folder(path) as folder:
            try:
                lock = folder.lock(_LOCK, 0)
            except FileNotFoundError:  # its maker was killed, or is just about to lock it
                os.rmdir(folder.path)
                continue
            try:
                folder.destroy(last=_LOCK)
            finally:
                os.close(lock)
