"""Folders that belong to this user alone, held by descriptor.

Spilled rows and live engines lie where others may write, too (`/tmp`, `/dev/shm`), and names there can be
taken by anybody. So a folder is opened without following a link, and its owner and mode are read from the
open descriptor: what was checked is what is used. Everything in it is reached from that descriptor, again
without following links. Invariant: nothing outside the folder is read, written, waited for or removed,
whatever lies in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import weakref
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK  # opening a FIFO does not wait for its other end
_MOST_BYTES = 1 << 26  # that `read` hands out


class Folder(contextlib.AbstractContextManager["Folder"]):
    """A folder of this user that nobody else may enter, and the files in it."""

    def __init__(self, path: Path, parent: int | None = None, *, make: bool = False) -> None:
        """Open it, or make it; raise an OSError if it is somebody else's, or open to others."""
        self.path = path
        name = path if parent is None else path.name
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
        self._opened = os.open(name, _FOLDER, dir_fd=parent)
        self.close = weakref.finalize(self, os.close, self._opened)
        self.close.atexit = False
        status = os.fstat(self._opened)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            self.close()
            raise PermissionError(errno.EPERM, "The folder is not this user's alone", str(path))

    @property
    def _descriptor(self) -> int:
        if not self.close.alive:  # the number may be another folder's by now
            raise OSError(errno.EBADF, "The folder is closed", str(self.path))
        return self._opened

    def __exit__(self, *_: object) -> None:
        self.close()

    def child(self, name: str, *, make: bool = True) -> Folder:
        """A folder in it."""
        return Folder(self.path / name, self._descriptor, make=make)

    def names(self) -> list[str]:
        """List what lies in it."""
        return os.listdir(self._descriptor)

    def open(self, name: str, flags: int) -> int:
        """Open a regular file, readable by this user alone if it is made."""
        file = os.open(name, flags | _FILE, 0o600, dir_fd=self._descriptor)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "Not a regular file", str(self.path / name))
        return file

    def lock(self, name: str, flags: int = os.O_CREAT) -> int:
        """Hold the lock that a file is; raise BlockingIOError if another one does."""
        file = self.open(name, os.O_RDWR | flags)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        return file

    def read(self, name: str) -> bytes:
        """The contents of a small file."""
        with os.fdopen(self.open(name, os.O_RDONLY), "rb") as source:
            if os.fstat(source.fileno()).st_size > _MOST_BYTES:
                raise OSError(errno.EFBIG, "The file is too large", str(self.path / name))
            return source.read()

    def write(self, name: str, data: bytes) -> None:
        """Write a small file: readers meet all of it or none."""
        draft = f"{name}.{os.getpid()}"
        with os.fdopen(self.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as sink:
            sink.write(data)
        os.replace(draft, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, a link, or a folder with what is in it; not being there is no error."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            pass
        except OSError:  # a folder
            shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)

    def destroy(self, last: str) -> None:
        """Remove everything in it, one file after all others, and then the folder itself."""
        for name in sorted(self.names(), key=lambda name: name == last):
            self.remove(name)
        with contextlib.suppress(OSError):
            os.rmdir(self.path)
