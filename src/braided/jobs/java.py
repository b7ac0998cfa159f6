"""Whether there is a Java for Spark."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from braided.query.errors import InvalidValue


def check_java() -> None:
    """Raise unless there is a Java for Spark."""
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())):
        raise InvalidValue("Spark needs Java 17 or newer, and none was found; install it or set JAVA_HOME")
