"""Child processes that run a join to its end, and are killed on the way."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen


def start_child(command: list[str], log: Path) -> Popen[bytes]:
    """A Python child in a session of its own, so that all it starts can be killed with it."""
    with log.open("ab") as sink:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        return Popen(
            [sys.executable, *command], stdout=sink, stderr=sink, start_new_session=True, env=environment
        )


def to_the_end(start: Callable[[], Popen[bytes]], log: Path, kills: int, until: Callable[..., object]) -> int:
    """Start a child again and again until one ends by itself, at most so many are killed; how many were.

    `until(child, kill=...)` returns when a child is to be killed, or may run on to its end.
    """
    done = 0
    while True:
        child = start()
        until(child, kill=done < kills)
        if done < kills and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # the driver, its JVM, and what else it started
        code = child.wait()
        if code == 0:
            return done
        if code > 0:
            raise RuntimeError(f"the join failed:\n{log.read_text()[-3000:]}")
        done += 1


def committed(root: Path) -> int:
    """How many batches are committed."""
    return logged(root, "commits")


def logged(root: Path, log: str) -> int:
    """How many batches are in one of Spark's logs; Spark removes old entries."""
    names = (path.name for path in (root / "checkpoint" / log).glob("*"))
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)


def after_some_batches(child: Popen[bytes], root: Path, batches: int, rng: random.Random) -> bool:
    """Wait for a random moment one to three batches from now; whether the child still runs."""
    target = min(batches - 1, committed(root) + rng.randint(1, 3))
    while child.poll() is None and committed(root) < target:
        time.sleep(0.05)
    time.sleep(rng.uniform(0, 1.5))
    return child.poll() is None
