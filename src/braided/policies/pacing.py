"""How many probes a batch may make so that it lasts as long as it should (`Overload(target_batch=...)`).

Where rows are dropped (`shed="input"`), rows that are let in take the place of probes, and all work on them
that of probing.

A batch of `rows` rows that makes `probes` probes and finds `results` results is taken to last

    rest + (seconds_a_probe x probes + seconds_a_result x results) / parallel,
    rest = fixed_seconds + seconds_a_row x rows

where the rest is all that a budget of probes cannot change: planning, reading, packing, storing, state. The
budget is what is left of the target, in probes. `Pace` remembers the four costs; a batch's budget comes from
the pace that was committed with the batch before, from the rows that wait, which are input, and from how many
results some probes may find, which the caller foresees: in a burst each probe finds more. Where nothing is
foreseen it is as many as lately.

*The rest* is learned from the error of each prediction, which is split between both costs in proportion to
their part (normalised least mean squares; rows are counted in units of the most ever seen). At steady rates
they cannot be told apart, and each gets half. So when rows double at once, the rest is mistaken by at most
half of itself: the first batch of a burst lasts at most 1.5 x the target, if a probe costs what it did. A
night without rows teaches the fixed cost alone, and the cost of a row is not forgotten.

*What a probe and a result cost* is fitted to the batches so far by least squares of relative errors, each a
fifth lighter than the next, and one of few probes lighter still. As long as a probe finds as much as before
only the sum of both costs can be told; then a result is taken to cost a third of a probe. If the seconds hold
work that neither explains (storing), the budget still converges to the right one, because what is measured
at the last budget is exact there; only slower.

*Odd batches.* One that lasts more than three times what was expected (a pause, a cold process after a
restart) teaches nothing, unless the next is like it: then it is how things are, and believed at once. One
that needs less than a third is believed at once: nothing is quick by accident. The first batch of all counts
as cold: it may cost ten times what follows, so the second one's budget is ten times too generous rather than
ten times too small, and the second batch replaces it.

*Growth.* What rows bring with them comes later: rows that are let in are met by those of the batches after
them, and a larger budget today makes every probe dearer tomorrow. So a budget shrinks at once, and grows by a
quarter a batch, or, where only probes are rationed, by as much as the batch was quicker than it should be;
else it swings.

*Spread joins.* Each bucket has a pace of its own and gets its rows' share of the budget it computes.
`seconds_batch` runs until the bucket is done, so it holds what its core did for others before:
`ahead_seconds` says how much of that was probing. If it is not known (0), or other tasks ran before on the
core, the rest seems larger than it is, and budgets err on the small side, never on the large one.

>>> pace = Pace()
>>> for _ in range(3):
...     pace = after(pace, Measured(seconds_batch=1.5, seconds_probing=1.0, probes=10_000, rows=1_000))
>>> budget(pace, 2.0, rows=1_000)  # 0.5 s are not for probing
15000
>>> budget(pace, 2.0, rows=2_000)  # a quarter of a second more, half of what it might be
12500
>>> problem(pace, 0.4, rows=1_000)
'target_batch is 0.4 s, but a batch of 1,000 rows costs about 0.5 s without any probe'
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LEARNING = 0.4  # of a prediction's error, from batch to batch
_ODD = 3.0
_COLD = 10.0
_LEAST = 0.05  # of the target, for probes, when nothing is left of it
_GROWTH = 1.25  # of a budget, from batch to batch
_STEPS = 50  # in which a budget is found
_FADING, _TIED = 0.8, 0.02  # of a batch in the fit, and how much both costs are taken to be alike
_RESULT = 0.3  # of a probe's cost, that a result is taken to cost
_MOMENT = 1e-6  # seconds


@dataclass(frozen=True)
class Measured:
    """One batch: all its seconds and rows, and this engine's probes and results with the seconds they took.

    Of a join that is spread out, `rows` are those of all buckets, and `ahead_seconds` what other buckets
    probed in this batch before this one, on the same core. `granted` was the budget of all.
    """

    seconds_batch: float
    seconds_probing: float
    probes: int
    rows: int
    ahead_seconds: float = 0.0
    granted: int | None = None
    results: int = 0

    @property
    def rest_seconds(self) -> float:
        """What probes do not explain."""
        return max(0.0, self.seconds_batch - self.ahead_seconds - self.seconds_probing)


@dataclass(frozen=True)
class Pace:
    """What batches cost, so far; `most_rows` of one batch, `probes` a batch, and whether the last was odd.

    `granted` is the latest budget, 0 if there was none, and `seconds` is how long that batch took; `results`
    are those of a probe. `uu` to `v` are the sums of the fit (see `_fitted`).
    """

    batches: int = 0
    fixed_seconds: float = 0.0
    seconds_a_row: float = 0.0
    seconds_a_probe: float = 0.0
    most_rows: float = 0.0
    probes: float = 0.0
    odd: bool = False
    granted: float = 0.0
    seconds: float = 0.0
    seconds_a_result: float = 0.0
    results: float = 0.0
    uu: float = 0.0
    uv: float = 0.0
    vv: float = 0.0
    u: float = 0.0
    v: float = 0.0

    def rest_seconds(self, rows: int) -> float:
        """Return what a batch of this number of rows costs without any probe."""
        return self.fixed_seconds + self.seconds_a_row * rows

    def bought_seconds(self, probes: float, results: float) -> float:
        """Return what these probes cost that find so many results."""
        return self.seconds_a_probe * probes + self.seconds_a_result * results


def after(pace: Pace, batch: Measured) -> Pace:
    """What is known after a batch; one without rows, or with odd times, teaches nothing."""
    times = (batch.seconds_batch, batch.seconds_probing, batch.ahead_seconds)
    if batch.rows <= 0 or batch.seconds_batch <= 0 or not all(0 <= t < math.inf for t in times):
        return pace  # a clock may jump
    pace = dataclasses.replace(pace, granted=float(batch.granted or 0), seconds=batch.seconds_batch)
    if pace.batches < 2:  # the first batch is cold, the second replaces it
        return _begun(pace, batch)
    expected = pace.rest_seconds(batch.rows) + pace.bought_seconds(batch.probes, batch.results)
    ratio = (batch.rest_seconds + batch.seconds_probing) / expected if expected > 0 else 1.0
    if ratio > _ODD and not pace.odd:
        return dataclasses.replace(pace, odd=True)
    strange = not 1 / _ODD <= ratio <= _ODD
    return _learned(pace, batch, 1.0 if strange else _LEARNING)


def budget(
    pace: Pace,
    target_seconds: float,
    rows: int,
    parallel: float = 1.0,
    foreseen: Callable[[float], float] | None = None,
    *,
    lasting: bool = False,
) -> int | None:
    """Probes for a whole batch of `rows` rows; None: nothing is known yet, so no limit.

    `parallel` is how many probes are made at a time; for a bucket see `lanes`. `foreseen` tells how many
    results a number of probes may find; `lasting`: what is bought is felt by later batches, too.
    """
    if not pace.batches or pace.bought_seconds(1, pace.results) <= 0:
        return None
    cold = _COLD if pace.batches == 1 else 1.0
    left = max(target_seconds - pace.rest_seconds(rows) / cold, _LEAST * target_seconds)
    probes = _most_probes(pace, parallel * left * cold, foreseen)
    if pace.granted and pace.batches > 2:  # what was granted while it was cold says nothing
        growth = _GROWTH if lasting else max(_GROWTH, target_seconds / pace.seconds)
        probes = min(probes, growth * pace.granted)
    return max(1, math.floor(probes + 1e-6))


def _most_probes(pace: Pace, seconds: float, foreseen: Callable[[float], float] | None) -> float:
    """How many probes cost so much, with what they find; the more probes, the more they find."""
    usual = seconds / pace.bought_seconds(1, pace.results)
    if foreseen is None or not pace.seconds_a_result:
        return usual
    low, high = 0.0, usual
    while pace.bought_seconds(high, foreseen(high)) < seconds and high < 1e15:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if pace.bought_seconds(middle, foreseen(middle)) > seconds else (middle, high)
        )
        if high - low < high / 1000:
            break
    return low


def lanes(cores: int, rows: int, own_rows: int) -> float:
    """How many cores can share a batch's probes, as a bucket with a part of its rows sees it.

    A bucket's probes are made on one core. One that has most of the rows must not count on the others.
    """
    return max(1.0, min(float(cores), rows / own_rows if own_rows else math.inf))


def problem(pace: Pace, target_seconds: float, rows: int, without: str = "probe") -> str:
    """Why the target cannot be met, whatever the budget; empty if it can."""
    rest = pace.rest_seconds(rows)
    if pace.batches < 2 or rest < target_seconds:
        return ""
    return (
        f"target_batch is {target_seconds:.3g} s, but a batch of {rows:,} rows costs about {rest:.3g} s "
        f"without any {without}"
    )


def _begun(pace: Pace, batch: Measured) -> Pace:
    half = batch.rest_seconds / 2
    fresh = Pace(
        pace.batches + 1, half, half / batch.rows, most_rows=float(batch.rows),
        granted=pace.granted, seconds=pace.seconds,
    )  # fmt: skip
    fresh = dataclasses.replace(fresh, seconds_a_probe=pace.seconds_a_probe, probes=pace.probes)
    return _fitted(fresh, batch, 1.0) if batch.probes else fresh


def _learned(pace: Pace, batch: Measured, weight: float) -> Pace:
    most = max(pace.most_rows, float(batch.rows))
    error = batch.rest_seconds - pace.rest_seconds(batch.rows)
    part = batch.rows / most
    step = weight * error / (1 + part * part)
    fixed, a_row = pace.fixed_seconds + step, pace.seconds_a_row + step * part / most
    if fixed < 0:  # neither cost is below zero: the other takes the rest of the error
        fixed, a_row = 0.0, a_row + fixed / batch.rows
    if a_row < 0:
        fixed, a_row = fixed + a_row * batch.rows, 0.0
    rest: dict[str, Any] = {"fixed_seconds": max(0.0, fixed), "seconds_a_row": a_row, "most_rows": most}
    learned = dataclasses.replace(pace, batches=pace.batches + 1, odd=False, **rest)
    return _fitted(learned, batch, weight) if batch.probes else learned


def _fitted(pace: Pace, batch: Measured, weight: float) -> Pace:
    """The costs a and b (of `_RESULT` results) that fit best to a x probes + b x results = seconds.

    Each batch is two equations, a u + b v = 1 and, much lighter, a u - b u = 0.
    """
    seconds, expected = batch.seconds_probing, pace.bought_seconds(batch.probes, batch.results)
    if weight < 1 and expected:
        seconds = min(max(seconds, expected / _ODD), expected * _ODD)
    u, v = (n / max(seconds, _MOMENT) for n in (batch.probes, _RESULT * batch.results))
    evidence = min(1.0, batch.probes / pace.probes) if pace.probes else 1.0
    fade = 1 - evidence * (1 - _FADING) if weight < 1 else 0.0
    uu, uv, vv = (
        fade * pace.uu + evidence * u * u,
        fade * pace.uv + evidence * u * v,
        fade * pace.vv + evidence * v * v,
    )
    su, sv = fade * pace.u + evidence * u, fade * pace.v + evidence * v
    a, b = _solved((1 + _TIED) * uu, uv - _TIED * uu, vv + _TIED * uu, su, sv)
    return dataclasses.replace(
        pace, seconds_a_probe=a, seconds_a_result=b * _RESULT, uu=uu, uv=uv, vv=vv, u=su, v=sv,
        probes=pace.probes + weight * (batch.probes - pace.probes) if pace.probes else float(batch.probes),
        results=pace.results + weight * (batch.results / batch.probes - pace.results),
    )  # fmt: skip


def _solved(aa: float, ab: float, bb: float, a: float, b: float) -> tuple[float, float]:
    """Solve two equations by Cramer's rule; what would be below zero is zero."""
    det = aa * bb - ab * ab
    both = ((a * bb - b * ab) / det, (b * aa - a * ab) / det) if det > 0 else (a / aa, 0.0)
    if both[0] < 0:
        return 0.0, b / bb
    return both if both[1] >= 0 else (a / aa, 0.0)
