"""What a join on Spark will do, in words, before it is started: where its rows go, and what epochs it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pyspark.sql import DataFrame

from braided.query.explain.expected_state import expected_state
from braided.query.explain.text import explain as explain_query
from braided.query.join_query import JoinQuery
from braided.query.layout import DEFAULT_BUCKETS, layout_lines
from braided.spark.epochs import explained, far_ahead
from braided.spark.plan import JoinPlan
from braided.spark.planning import Asked, HotKeys, planned


def explain(
    query: JoinQuery,
    frames: Mapping[str, DataFrame],
    *,
    buckets: int = DEFAULT_BUCKETS,
    layout: Literal["auto", "grid", "stages"] = "auto",
    rates: Mapping[str, float] | None = None,
    hot_keys: HotKeys = "auto",
    resume: str | None = None,
) -> str:
    """What `join` with the same arguments will do, in words; nothing is started, nothing written.

    With `resume` also what the query means to the checkpoint: whether a new epoch begins, what is new in it,
    when it begins, and when the old one is empty. What `join` refuses is refused here, too.
    """
    plan = planned(Asked(query, frames, buckets, "drop", layout, rates, hot_keys), resume=resume)
    state = expected_state(query, rates, None, plan.buckets if rates is not None else None)
    text = explain_query(query, state, layout_lines(query, plan.grid, plan.staged, rates))
    return "\n".join([text, *_checkpoint(plan, resume)])


def _checkpoint(plan: JoinPlan, path: str | None) -> Iterator[str]:
    """What a start with the plan means to a checkpoint."""
    if path is None:
        return
    if plan.resumed is None:
        goes_on = "goes on as it was" if plan.staged else "holds no finished batch: this is a first start"
        yield f"checkpoint: {goes_on}"
        return
    yield f"checkpoint: {'a new epoch begins' if plan.resumed.begins else 'goes on, without a new epoch'}"
    yield from (f"  {line}" for line in explained(plan))
    if warning := far_ahead(plan):
        yield f"Warning: {warning}."
