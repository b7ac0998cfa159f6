"""Topics of a real broker. `make kafka` fetches the jars and runs this; `make test` downloads nothing."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from braided_benchmarks import kafka, kafka_jars

JARS = kafka_jars.folder()
needs_jars = pytest.mark.skipif(
    not kafka_jars.connector_jars(JARS),
    reason="no jars of Kafka for this Spark in build/kafka or $BRAIDED_KAFKA; `make kafka` fetches them",
)


@needs_jars
def test_oracle_a_join_killed_while_it_writes_to_a_topic_loses_nothing(tmp_path: Path) -> None:
    (report,) = kafka.campaign(tmp_path, JARS, kills=1, batches=4, seed=2, sinks=("kafka",))
    assert report.right, report
    assert report.kills == 1
    assert report.expected > 10_000


def test_results_may_come_again_only_with_a_repeated_batch() -> None:
    wanted = Counter({("x",): 1, ("y",): 1, ("z",): 1})
    got: Counter[kafka.Row] = Counter({(3, "x"): 2, (4, "y"): 2})
    assert kafka._at_least_once(wanted, got, {3}) == (1, 1, 1)  # z is missing, y doubled, x came again
    assert kafka._at_least_once(wanted, Counter({(3, "x"): 1, (4, "x"): 1}), {3}) == (2, 1, 0)
    assert kafka._at_least_once(wanted, Counter({(3, "never"): 1}), {3}) == (3, 1, 0)


def test_a_missing_release_of_the_connector_is_replaced_by_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def maven(jars: Path, needed: object, goal: str, artifact: str, into: Path) -> None:
        asked.append(artifact.rsplit(":", 1)[1])
        if len(asked) < 3:
            raise subprocess.CalledProcessError(1, "mvn", "Could not find artifact")

    monkeypatch.setattr(kafka_jars, "_maven", maven)
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    kafka_jars._newest(tmp_path, "spark-sql-kafka-0-10_2.13")
    assert asked == ["4.2.1", "4.2.0", "4.1.1"]
