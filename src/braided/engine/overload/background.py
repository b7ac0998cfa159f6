"""Work beside the join: one thread for the whole process, started with the first task.

Who asks never waits, and nothing here can keep a process from forking or ending:

- the thread is a daemon; at the end of the process tasks that wait are dropped, and one under way is given
  a second, because native code must not be torn down in the middle;
- a forked child has no such thread: it starts its own when it is first asked, and tasks that were under way
  in its parent are *lost* there (`Task.lost`), not awaited.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_AT_END_SECONDS = 1.0


class Task(Generic[T]):
    """Something to compute: its result, or what it raised, once it is `done`."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._process = work, os.getpid()
        self.done = threading.Event()
        self.result: T | None = None
        self.error: Exception | None = None

    @property
    def lost(self) -> bool:
        """Whether it was begun in a process that this one was forked from, and will never be done here."""
        return not self.done.is_set() and self._process != os.getpid()

    def run(self) -> Task[T]:
        """Compute it here and now."""
        try:
            self.result = self._work()
        except Exception as error:  # whatever it is, who asked decides
            self.error = error
        self.done.set()
        return self


class _Worker:
    """This process's thread, if it has one, and the tasks that wait for it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start afresh in a forked child: the parent's thread is not here, and its locks may be held."""
        self._lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self._tasks: queue.SimpleQueue[Task[Any] | None] = queue.SimpleQueue()

    def add(self, task: Task[Any]) -> None:
        self._tasks.put(task)
        with self._lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self._loop, name="braided-background", daemon=True)
                self.thread.start()

    def end(self) -> None:
        """Drop what waits; what is under way gets a moment."""
        if self.thread is not None:
            while not self._tasks.empty():
                self._tasks.get_nowait()
            self._tasks.put(None)
            self.thread.join(_AT_END_SECONDS)

    def _loop(self) -> None:
        while (task := self._tasks.get()) is not None:
            task.run()


_worker = _Worker()
os.register_at_fork(after_in_child=_worker.reset)
atexit.register(_worker.end)


def begin(task: Task[Any]) -> None:
    """Compute it in the background."""
    _worker.add(task)
