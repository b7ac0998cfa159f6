"""Which Java Spark will start; asked before anything of Spark is imported."""

from __future__ import annotations

import os
import shutil

from braided.query.errors import InvalidValue


def check_java() -> None:
    """Raise unless there is a Java for Spark, or one that runs already (`spark-submit`)."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        find_java()


def find_java() -> str:
    """The program that Spark starts: that of `JAVA_HOME` if it is set, whatever is on the path, else that."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None and home:
        wrong = f"JAVA_HOME is {home!r}, and there is no Java in it (bin/java)"
        remedy = "set it to the folder of a Java 17 or newer, or unset it to use the one on the path"
        raise InvalidValue(f"{wrong}; {remedy}", option="JAVA_HOME", value=home)
    if java is None:
        raise InvalidValue("Spark needs Java 17 or newer, and none was found; install it or set JAVA_HOME")
    return java
