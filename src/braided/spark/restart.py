"""Whether a query may go on with a checkpoint, asked on the driver before Spark writes anything there.

A bucket asks the same in the first batch (`same_query`), but then Spark has written what its sources read
next. That is harmless while the sources are the same ones in the same order; asked here, a refused start
leaves the checkpoint untouched whatever was changed.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from braided.query.errors import InvalidType, InvalidValue
from braided.spark.plan import JoinPlan
from braided.spark.storage.same_query import check_cold, check_same_query
from braided.spark.storage.store import Meta
from braided.spark.storage.stored import meta_rows, operators_of


def check_checkpoint(plan: JoinPlan, checkpoint: str, spark: SparkSession) -> None:
    """Raise if the query cannot go on with a checkpoint; without a committed batch it is a first start."""
    if not isinstance(checkpoint, str):
        raise InvalidType(f"join: checkpoint must be the path of a folder; got {checkpoint!r}")
    if not _committed(spark, checkpoint):
        return
    try:
        operators = operators_of(spark, checkpoint)
    except Exception as wrong:
        reason = str(wrong).splitlines()[0]
        raise InvalidValue(
            f"join: the checkpoint at {checkpoint!r} is not one of a Braided join ({reason}); name another "
            "folder"
        ) from None
    for operator in operators:
        _check_operator(plan, checkpoint, operator, spark)


def _check_operator(plan: JoinPlan, checkpoint: str, operator: int, spark: SparkSession) -> None:
    """Check one bucket's state, for all buckets of a stage hold the same; of cold groups check every one."""
    stages, stored = plan.stages(), meta_rows(spark, checkpoint, operator)
    first = stored.first()
    if first is None:
        return
    meta = Meta.decode(bytes(first["data"]))
    number = meta.stage[0] if meta.stage else 0
    check_same_query(meta, stages[min(number, len(stages) - 1)])
    if meta.spilled:
        for row in stored.collect():
            check_cold(Meta.decode(bytes(row["data"])), plan)


def _committed(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a batch of the checkpoint has been committed."""
    commits = spark.read.format("binaryFile").option("pathGlobFilter", "[0-9]*")
    try:
        return not commits.load(f"{checkpoint.rstrip('/')}/commits").select("path").isEmpty()
    except AnalysisException:  # there is no such folder
        return False
