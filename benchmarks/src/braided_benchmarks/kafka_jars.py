"""The jars of a Kafka broker and of Spark's Kafka connector, copied by Maven into a folder.

    python -m braided_benchmarks.kafka_jars build/kafka

`broker/` is the broker's own distribution with all it needs, and `connector-<Spark's version>/` what a
session is given as `spark.jars`. Only Maven is asked. The connector should be of Spark's own version; where a
repository does not have that (yet), the newest earlier release is taken, and a campaign prints what ran.
Spark's jars are copied one by one, without reading their poms, because those name a repository of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

KAFKA = "3.9.1"  # the poms of Spark 4.0.0 and 4.2.0 name 3.9.0 and 3.9.2
_SCALA = "2.13"
_EARLIER = ("4.2.0", "4.1.1", "4.0.0")  # releases of the connector, if Spark's own is not there
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>braided</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>
    {dependencies}
  </dependencies>
</project>
"""
_BROKER = (
    ("org.apache.kafka", f"kafka_{_SCALA}", KAFKA),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),  # for the connector
)


def folder() -> Path:
    """Where the jars are, if they are anywhere."""
    return Path(os.environ.get("BRAIDED_KAFKA", "build/kafka")).resolve()


def broker_jars(jars: Path) -> Path:
    """The folder of the broker's jars."""
    return jars / "broker"


def connector_jars(jars: Path) -> list[Path]:
    """What this Spark's sessions are given; empty if it has not been fetched."""
    clients = [
        p for name in ("kafka-clients", "commons-pool2") for p in (jars / "broker").glob(f"{name}-*.jar")
    ]
    own = sorted(_connector(jars).glob("*.jar"))
    return [*own, *clients] if own else []


def described(jars: Path) -> str:
    """The versions at work, in words."""
    own = sorted(path.stem for path in _connector(jars).glob("*.jar"))
    return f"Spark {pyspark.__version__}, {', '.join(own)}, Kafka {KAFKA}"


def fetch(jars: Path) -> None:
    """Copy what is not there yet."""
    if shutil.which("mvn") is None:
        raise FileNotFoundError("Maven (mvn) is needed to fetch the jars of Kafka; it is not installed")
    jars.mkdir(parents=True, exist_ok=True)
    if not any(broker_jars(jars).glob("kafka_*.jar")):
        _maven(
            jars, _BROKER, "dependency:copy-dependencies", "-DincludeScope=runtime", into=broker_jars(jars)
        )
    for name in (f"spark-sql-kafka-0-10_{_SCALA}", f"spark-token-provider-kafka-0-10_{_SCALA}"):
        if not any(_connector(jars).glob(f"{name}-*.jar")):
            _newest(jars, name)


def _connector(jars: Path) -> Path:
    return jars / f"connector-{pyspark.__version__}"


def _newest(jars: Path, name: str) -> None:
    """One of Spark's jars, of Spark's version or the newest before it."""
    mine = pyspark.__version__
    versions = [mine, *(v for v in _EARLIER if _numbers(v) < _numbers(mine))]
    for version in versions:
        artifact = f"-Dartifact=org.apache.spark:{name}:{version}"
        try:
            _maven(jars, (), "dependency:copy", artifact, into=_connector(jars))
        except subprocess.CalledProcessError as error:
            if "Could not find artifact" not in error.stdout:
                raise RuntimeError(f"Maven failed:\n{error.stdout[-3000:]}") from error
            print(f"the repository has no {name} {version}")
        else:
            return
    raise FileNotFoundError(f"the repository has no {name} of {', '.join(versions)}")


def _maven(jars: Path, needed: tuple[tuple[str, str, str], ...], *command: str, into: Path) -> None:
    lines = [
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in needed
    ]
    pom = jars / "pom.xml"
    pom.write_text(_POM.format(dependencies="\n    ".join(lines)))
    asked = ["mvn", "-B", "-U", "-f", str(pom), *command, f"-DoutputDirectory={into}"]
    subprocess.run(asked, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


if __name__ == "__main__":
    where = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else folder()
    fetch(where)
    print(described(where))
