"""Where arenas lie on a machine, and when they are removed.

A folder per application, in it one per query, in it one per stage, in it one per bucket. A query's is removed
soon after the query ends, an application's when its driver or its daemon of Python workers ends, and those of
applications that were killed when the next one starts.

The root's name can be guessed, and whoever is first may take it. So there are several places for it, and the
first is used that is this user's alone (see `engine.folders`); workers of one machine agree on it, because a
folder that is ours stays ours, and one that is not is refused by all. Sweeps go through all places, and
touch only folders that are ours. Without any such place, engines are not kept between batches.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from braided.engine.folders import Folder

_OWNER = "owner"
_LOOK_EVERY_S = 0.5
_log = logging.getLogger("braided.spark")


def root() -> Path:
    """Where arenas lie if nobody else has taken the name: in memory."""
    return Path("/dev/shm") / f"braided-{os.getuid()}"


def other_roots() -> list[Path]:
    """Where they lie else: in Spark's local folder, or among temporary files."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    bases = [local, tempfile.gettempdir()] if local else [tempfile.gettempdir()]
    return [Path(base) / root().name for base in bases]


def bucket_folder(
    application: str, query_id: str, fingerprint: str, bucket: int | str, stage: int = 0
) -> Folder:
    """A bucket's folder; it is there afterwards."""
    with (
        application_folder(application) as folder,
        folder.child(f"{query_id}-{fingerprint}") as query,
        query.child(str(stage)) as stages,
    ):
        return stages.child(str(bucket))


def application_folder(application: str) -> Folder:
    """This application's folder; on first use, those of applications that died are removed."""
    with _root() as base:
        folder = base.child(application)
    if _OWNER not in folder.names():
        sweep_dead()
        folder.write(_OWNER, str(_executor()).encode())
    return folder


def remove_at_exit(application: str) -> None:
    """When this process ends, remove the application's folder from this machine."""

    def remove() -> None:
        for base in _roots():
            base.remove(application)

    _at_exit(remove)


def remove_at_daemons_exit() -> None:
    """When this process, the parent of an executor's Python workers, ends, remove what they left."""
    executor = os.getppid()
    _at_exit(lambda: _sweep(lambda owner: owner == executor))


def _at_exit(remove: Callable[[], None]) -> None:
    """Call it when this process ends, not when a forked child does."""
    me = os.getpid()
    atexit.register(lambda: remove() if os.getpid() == me else None)


def sweep_dead() -> None:
    """Remove the folders of applications whose process is gone."""
    _sweep(lambda owner: not _alive(owner))


def remove_with_queries(application: str, active: Callable[[], Collection[str]]) -> None:
    """From now on, remove the folder of a query soon after it has ended.

    `active` names the queries that run; when it raises, the application has ended.
    """
    watching = functools.partial(_watch, application, active)
    threading.Thread(target=watching, name="braided-folders", daemon=True).start()


def _watch(application: str, active: Callable[[], Collection[str]]) -> None:
    seen: set[str] = set()
    while True:
        try:
            running = set(active())
        except Exception:
            return
        seen |= running
        ended = tuple(seen - running)
        for folder in _applications(application):  # a task may outlive its query, and make a folder again
            for name in folder.names():
                if name.startswith(ended):
                    folder.remove(name)
        time.sleep(_LOOK_EVERY_S)


def _root() -> Folder:
    """The first place for arenas that is ours."""
    for path in (root(), *other_roots()):
        try:
            return Folder(path, make=True)
        except FileNotFoundError:  # no such place on this machine
            continue
        except OSError as wrong:
            _warn(f"live state cannot be kept in {path}: {wrong.strerror}")
    raise PermissionError(errno.EPERM, "There is no place for live state")


@functools.cache
def _warn(message: str) -> None:
    """Say it once in a process."""
    _log.warning(message)


def _roots() -> Iterator[Folder]:
    """All places where arenas of ours may lie."""
    for path in (root(), *other_roots()):
        with contextlib.suppress(OSError), Folder(path) as folder:
            yield folder


def _applications(application: str) -> Iterator[Folder]:
    for base in _roots():
        with contextlib.suppress(OSError), base.child(application, make=False) as folder:
            yield folder


def _sweep(dead: Callable[[int], bool]) -> None:
    for base in _roots():
        for name in base.names():
            # suppressed: just being made, or not ours; an owner that cannot be read is nobody
            with contextlib.suppress(OSError), base.child(name, make=False) as folder:
                owner = folder.read(_OWNER)
                if dead(int(owner) if owner.isdigit() and len(owner) < 10 else 0):
                    base.remove(name)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return process > 0


def _executor() -> int:
    """The JVM this worker belongs to: its daemon's parent."""
    try:
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return int(stat.rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        return os.getppid()
