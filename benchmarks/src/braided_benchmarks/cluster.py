"""A small Spark cluster of real processes on this machine: a master, and workers on addresses of their own.

Spark starts a second attempt of a task only on another host, so a local cluster, whose workers share one,
never shows two attempts at once. Here every worker has its own loopback address.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

_CLASS = "org.apache.spark.deploy"


@contextlib.contextmanager
def cluster(workers: int, log: Path) -> Iterator[str]:
    """The address of a master with so many workers of one core each; all are ended afterwards."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    commands += [
        ["worker.Worker", "--host", f"127.0.0.{n + 2}", "--cores", "1", "--memory", "1g", address]
        for n in range(workers)
    ]
    started = []
    try:
        for name, *options in commands:
            started.append(_start([f"{_CLASS}.{name}", "--webui-port", "0", *options], log))
            wait_for(port, "Spark master")
        yield address
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the executors it started
            process.wait()


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_WORKER_DIR": str(log.parent / "work"), "SPARK_DAEMON_MEMORY": "256m"}
    with log.open("ab") as out:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, what: str, seconds: float = 60) -> None:
    """Until something answers there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no {what} on port {port} after {seconds:.0f} s")
