"""How many results a budget may find, before it is known: for a target batch time (`policies.pacing`).

In a burst a row finds more than before, because more rows are stored. What probes find is told by the plan's
model, with the rows that wait. Rows that are let in are met by those of the batches after them, so what they
cost is felt later: it is looked at some batches on, if as many are let in each time, but not beyond the state
that so many make in the long run.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from braided.engine.features import Arrivals, Host
from braided.engine.site import Share
from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel
from braided.policies.rationing import Known, model_of
from braided.query.bounds import INFINITE_US
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import HalfJoin, Plan

_AHEAD = 4.0  # batches
_PARTS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the rows that wait
KnownAll = Mapping[tuple[Plan, ...], Known]


def of_probes(model: PlanModel, allowances: Mapping[HalfJoin, float]) -> Callable[[float], float]:
    """Return how many results a number of probes finds, if each finds as many as under these allowances."""
    flow = predict(model, allowances)
    each = flow.output / flow.spent if flow.spent else 0.0
    return lambda probes: each * probes


def of_rows_let_in(
    host: Host, arrivals: Arrivals, share: Share, caps: Mapping[Plan, float]
) -> Callable[[float], float] | None:
    """Return how many results a number of rows finds, of all engines, by what this one knows.

    None if it has no rows.
    """
    if not share.rows or not any(a and len(a.rows) for a in arrivals):
        return None
    names, tree = host.query.names, host.query.tree
    known = host.tree.foreseen({n: a.rows if a else None for n, a in zip(names, arrivals, strict=True)})
    batch_us = host.later(arrivals).clock_us - host.watermark.clock_us
    lasting = {
        name: us / batch_us if batch_us > 0 else math.inf for name, us in retentions(host.query).items()
    }
    models = [model_of(tree, _grown(known, part, lasting), caps) for part in _PARTS]
    results = [predict(model, settle=True).output for model in models]
    return lambda rows: _between(rows / share.total, results) * share.total / share.rows


def retentions(query: JoinQuery) -> dict[str, int]:
    """Return how long rows of each stream can be found after their own time, where time ends that."""
    found = {name: query.bounds.retention_us(i) for i, name in enumerate(query.names)}
    return {name: us for name, us in found.items() if us < INFINITE_US}


def _grown(known: KnownAll, part: float, lasting: Mapping[str, float]) -> dict[tuple[Plan, ...], Known]:
    """What operators know if a part of the rows that wait is let in, some batches on.

    Rows of streams stay for as many batches as are `lasting`.
    """
    grown = {}
    for operator, now in known.items():
        stored = list(now.turn.stored_rows)
        rows = [part * n for n in now.turn.waiting_rows]
        for i, child in enumerate(operator):
            if isinstance(child, str):
                most = max(1.0, lasting.get(child, math.inf)) * rows[i]
                stored[i] = int(min(stored[i] + _AHEAD * rows[i], most) + rows[i] / 2)
        waiting = tuple(map(math.ceil, rows))
        turn = dataclasses.replace(now.turn, waiting_rows=waiting, stored_rows=tuple(stored))
        grown[operator] = Known(turn, now.orders)
    return grown


def _between(part: float, results: Sequence[float]) -> float:
    """Results at a part, by those at `_PARTS`; in between, and beyond the last, by a power of it."""
    at = min(max(bisect.bisect_left(_PARTS, part), 1), len(_PARTS) - 1)
    (low, high), (less, more) = _PARTS[at - 1 : at + 1], results[at - 1 : at + 1]
    if part <= 0 or less <= 0 or more <= less:
        return max(0.0, less + (more - less) * (part - low) / (high - low))
    return float(less * (part / low) ** (math.log(more / less) / math.log(high / low)))
