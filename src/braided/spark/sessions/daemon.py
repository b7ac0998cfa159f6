"""The daemon that Spark's Python workers are forked from, with the heavy imports already done.

Spark starts it as `python -m braided.spark.sessions.daemon`. Importing Arrow, pandas and the kernels takes
seconds; here it happens once, before the first fork, not in every worker.
"""

from __future__ import annotations

import importlib

from braided.engine.calibration import machine_costs
from braided.engine.kernels import warm_up
from braided.spark.storage.folders import remove_at_daemons_exit


def preload() -> None:
    """Import what workers need, load the compiled kernels, and know what they cost here."""
    for module in (
        "pandas",
        "pyspark.sql.streaming.proto.StateMessage_pb2",
        "pyspark.worker",
        "braided.spark.bucket",
        "braided.spark.wire.pack",
        "braided.spark.processor",
    ):
        importlib.import_module(module)
    warm_up()
    machine_costs()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    remove_at_daemons_exit()
    manager()
