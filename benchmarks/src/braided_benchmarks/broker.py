"""One Kafka broker on this machine, for as long as it is needed.

It runs in KRaft mode (broker and controller in one process, no ZooKeeper), listens on 127.0.0.1 only, on
free ports, and keeps its log in a folder. Topics are made when they are first used, with two partitions.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

from braided_benchmarks.cluster import free_port, wait_for
from braided_benchmarks.kafka_jars import broker_jars

PARTITIONS = 2
_CLUSTER = "QnJhaWRlZEJyb2tlci0xMg"  # any 16 bytes in base64
_MEMORY = "-Xmx512m"
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions={partitions}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
"""


@contextlib.contextmanager
def broker(jars: Path, folder: Path) -> Iterator[str]:
    """The address of a broker that keeps its data in this folder; it is ended afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "broker.log"
    properties = folder / "server.properties"
    properties.write_text(
        _PROPERTIES.format(port=port, controller=free_port(), data=folder / "data", partitions=PARTITIONS)
    )
    if not (folder / "data").exists():
        _start(jars, log, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(properties)).wait(60)
    process = _start(jars, log, "kafka.Kafka", str(properties))
    try:
        wait_for(port, "Kafka broker")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def _start(jars: Path, log: Path, *command: str) -> Popen[bytes]:
    with log.open("ab") as out:
        classes = f"{broker_jars(jars)}/*"
        return Popen(
            ["java", _MEMORY, "-cp", classes, *command], stdout=out, stderr=out, start_new_session=True
        )
