"""Where arenas lie on a machine, and when they are removed.

A folder per application, in it one per query, in it one per stage, in it one per bucket. A query's is removed
soon after the query ends, an application's when its driver or its daemon of Python workers ends, and those of
applications that were killed when the next one starts.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

_OWNER = "owner"
_LOOK_EVERY_S = 0.5


def root() -> Path:
    """Where arenas lie on this machine: tmpfs if there is one, else Spark's local folder."""
    shm = Path("/dev/shm")
    if shm.is_dir() and os.access(shm, os.W_OK):
        base = shm
    else:
        base = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    return base / f"braided-{os.getuid()}"


def bucket_folder(application: str, query_id: str, fingerprint: str, bucket: int, stage: int = 0) -> Path:
    """A bucket's folder; it is there afterwards."""
    folder = application_folder(application) / f"{query_id}-{fingerprint}" / str(stage) / str(bucket)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def application_folder(application: str) -> Path:
    """This application's folder; on first use, those of applications that died are removed."""
    folder = root() / application
    if not (folder / _OWNER).exists():
        sweep_dead()
        for part in (root(), folder):
            part.mkdir(exist_ok=True, mode=0o700)
        draft = folder / f"{_OWNER}.{os.getpid()}"
        draft.write_text(str(_executor()))
        draft.rename(folder / _OWNER)
    return folder


@functools.cache
def remove_at_exit(application: str) -> None:
    """When this process ends, remove the application's folder from this machine."""
    atexit.register(shutil.rmtree, root() / application, ignore_errors=True)


def remove_at_daemons_exit() -> None:
    """When this process, the parent of an executor's Python workers, ends, remove what they left."""
    me, executor = os.getpid(), os.getppid()

    def remove() -> None:
        if os.getpid() == me:  # not in a forked worker
            _sweep(lambda owner: owner == executor)

    atexit.register(remove)


def sweep_dead() -> None:
    """Remove the folders of applications whose process is gone."""
    _sweep(lambda owner: not _alive(owner))


def remove_with_queries(application: str, active: Callable[[], Collection[str]]) -> None:
    """From now on, remove the folder of a query soon after it has ended.

    `active` names the queries that run; when it raises, the application has ended.
    """
    thread = threading.Thread(target=_watch, args=(application, active), name="braided-folders", daemon=True)
    thread.start()


def _watch(application: str, active: Callable[[], Collection[str]]) -> None:
    seen: set[str] = set()
    while True:
        try:
            running = set(active())
        except Exception:
            return
        seen |= running
        ended = seen - running
        for folder in query_folders(application):  # a task may outlive its query, and make a folder again
            if any(folder.name.startswith(query) for query in ended):
                shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_LOOK_EVERY_S)


def query_folders(application: str) -> list[Path]:
    """The folders of an application's queries."""
    folder = root() / application
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []


def _sweep(dead: Callable[[int], bool]) -> None:
    base = root()
    for folder in base.iterdir() if base.is_dir() else ():
        try:
            remove = dead(int((folder / _OWNER).read_text()))
        except ValueError:
            remove = True
        except OSError:  # just being made, or not ours to read
            continue
        if remove:
            shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _executor() -> int:
    """The JVM this worker belongs to: its daemon's parent."""
    try:
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return int(stat.rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        return os.getppid()
