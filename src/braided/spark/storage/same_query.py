"""Whether a bucket's state belongs to the query that is to go on with it.

A restart may change the plan, tuning and budgets; the meaning, the number of buckets and the types of stored
columns must stay. The driver asks this where it knows the checkpoint, and every bucket asks it again before
anything is touched.
"""

from __future__ import annotations

from braided.engine.spill.disk import check_saved as check_on_disk
from braided.query.errors import InvalidValue
from braided.query.values import plain
from braided.spark.plan import JoinPlan
from braided.spark.storage.store import Meta

_REMEDY = "go back to it, or start a new checkpoint"


def check_same_query(meta: Meta, plan: JoinPlan) -> None:
    """Raise if a checkpoint belongs to a query of another meaning, with the difference and the remedy."""
    if meta.buckets != plan.buckets:
        raise InvalidValue(
            f"this checkpoint was made with buckets={meta.buckets}, and the join asks for "
            f"buckets={plan.buckets}; {_REMEDY}"
        )
    different = plan.query.difference(meta.meaning)
    if different:
        raise InvalidValue(f"this checkpoint belongs to another query: {different}; {_REMEDY}")
    tree = plain(plan.query.tree)
    written = meta.numbers.get("plan", tree)
    if meta.stage != stage_of(plan) or (meta.stage and written != tree):
        raise InvalidValue(
            f"this checkpoint was made with plan={written!r}, and the join has plan={tree!r}; with several "
            f"keys every stage of a plan keeps rows of its own, so the plan is fixed; {_REMEDY}"
        )
    _check_types(meta, plan)


def _check_types(meta: Meta, plan: JoinPlan) -> None:
    now = stored_types(plan)
    for stream, columns in meta.schema.items():
        for column, type_ in columns.items():
            new = now[stream].get(column, type_)
            if new != type_:
                raise InvalidValue(
                    f"this checkpoint holds column {column!r} of stream {stream!r} as {type_}, and it is now "
                    f"{new}; cast it back, or start a new checkpoint"
                )


def check_cold(meta: Meta, plan: JoinPlan) -> None:
    """Raise if cold groups of the checkpoint cannot be used as the join is asked for now."""
    check_on_disk(meta.spilled, plan.query.memory, same_plan=same_plan(meta, plan))


def same_plan(meta: Meta, plan: JoinPlan) -> bool:
    """Whether the state was written by the plan that is run now; else intermediates are made again."""
    return bool(meta.numbers["plan"] == plain(plan.query.tree))


def stage_of(plan: JoinPlan) -> list[int]:
    """How a bucket's state names its stage; the only one has no name."""
    return [plan.stage.number, plan.stage.of] if plan.stage.of > 1 else []


def stored_types(plan: JoinPlan) -> dict[str, dict[str, str]]:
    """The types of the stored columns, by stream and column."""
    return {
        layout.stream.name: {field.name: str(field.type) for field in layout.stored_schema}
        for layout in plan.layouts
    }
