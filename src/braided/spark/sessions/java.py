"""Whether there is a Java for Spark; asked before anything of Spark is imported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from braided.query.errors import InvalidValue


def check_java() -> None:
    """Raise unless there is a Java for Spark, or one that runs already (`spark-submit`)."""
    home = os.environ.get("JAVA_HOME")
    there = shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())
    if not there and "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise InvalidValue("Spark needs Java 17 or newer, and none was found; install it or set JAVA_HOME")
