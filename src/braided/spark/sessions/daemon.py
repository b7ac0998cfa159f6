"""The daemon that Spark's Python workers are forked from, with the heavy imports already done.

Spark starts it as `python -m braided.spark.sessions.daemon`. Importing Arrow, pandas and the kernels takes
seconds; here it happens once, before the first fork, not in every worker.
"""

from __future__ import annotations

from braided.engine.calibration import machine_costs
from braided.engine.kernels import warm_up
from braided.spark.storage.folders import remove_at_daemons_exit

if __name__ == "__main__":
    import gc

    # what workers need
    import pandas  # noqa: F401
    import pyspark.sql.streaming.proto.StateMessage_pb2
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    from braided.spark import bucket, processor  # noqa: F401
    from braided.spark.wire import pack  # noqa: F401

    warm_up()  # loads the compiled kernels
    machine_costs()
    remove_at_daemons_exit()
    gc.freeze()  # what is here stays: workers need not look through it again and again
    manager()
