"""Whether a bucket's state belongs to the query that is to go on with it.

A restart may change the plan, tuning and budgets; the meaning, the number of buckets and the types of stored
columns must stay. The driver asks this where it knows the checkpoint, and every bucket asks it again before
anything is touched.
"""

from __future__ import annotations

from braided.engine.spill.saving import check as check_on_disk
from braided.query.errors import InvalidValue
from braided.query.values import plain
from braided.spark.plan import JoinPlan
from braided.spark.storage.store import Meta


def first_meta(plan: JoinPlan) -> Meta:
    """The small value of a bucket that has no state yet."""
    return Meta(plan.fingerprint, plan.query.meaning(), plan.stored_types, plan.buckets, _stage(plan))


def _stage(plan: JoinPlan) -> list[int]:
    """How a bucket's state names its stage; the only one has no name."""
    return [plan.stage, len(plan.subplans)] if len(plan.subplans) > 1 else []


def check_same_query(meta: Meta, plan: JoinPlan) -> None:
    """Raise if a checkpoint belongs to a query of another meaning, with the difference and the remedy."""
    if different := _difference(meta, plan):
        raise InvalidValue(f"this checkpoint {different}; go back to it, or start a new checkpoint")
    check_on_disk(meta.spilled, plan.query.memory, same_plan=same_plan(meta, plan))


def _difference(meta: Meta, plan: JoinPlan) -> str:
    """What differs between a checkpoint and the query, in words; nothing if they agree."""
    if meta.buckets != plan.buckets:
        return f"was made with buckets={meta.buckets}, and the join asks for buckets={plan.buckets}"
    if different := plan.query.difference(meta.meaning):
        return f"belongs to another query: {different}"
    tree = plain(plan.query.tree)
    written = meta.numbers.get("plan", tree)
    if meta.stage != _stage(plan) or (meta.stage and written != tree):
        fixed = "with several keys every stage of a plan holds rows of its own, so the plan is fixed"
        return f"was made with plan={written!r}, and the join has plan={tree!r}; {fixed}"
    for stream, columns in meta.schema.items():
        for column, type_ in columns.items():
            new = plan.stored_types[stream].get(column, type_)
            if new != type_:
                return f"holds column {column!r} of stream {stream!r} as {type_}, and it is now {new}"
    return ""


def same_plan(meta: Meta, plan: JoinPlan) -> bool:
    """Whether the state was written by the plan that is run now; else intermediates are made again."""
    return bool(meta.numbers["plan"] == plain(plan.query.tree))
