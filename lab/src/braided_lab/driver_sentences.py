"""What the driver-selection paper says in words, and what it concludes, held against what was measured.

The rules are those of `driver_claims`. What is said of several data sets must be so in each of them to be
reproduced; on the mean over them, by more than noise, it is the same direction. Where a sentence has no
number, the least effect is stated with the claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from braided_lab.driver_claims import (
    BASE,
    LEAST_COUNT,
    LEAST_SHARE,
    LEAST_TIME,
    NEAR,
    PERIODS,
    Values,
    across,
    differences,
    mean,
)
from braided_lab.driver_datasets import NAMES
from braided_lab.report import Claim, Mean, Verdict

if TYPE_CHECKING:
    from braided_lab.driver_selection import Cells

INITIAL, RATE, CONSUMPTION, ROUND = "initial-output-size", "output-rate", "consumption-rate", "round-robin"
_UNEVEN = ("V", "VI")
_SETS = {INITIAL: NAMES, RATE: NAMES, CONSUMPTION: _UNEVEN}
_EVEN_MOST = 0.015  # Table 4's largest, of I to III
_SMALL_SHARE, _SLIGHTLY = 0.2, 0.01
Keys = Sequence[tuple[str, str]]  # data sets and periods


def sentences(cells: Cells) -> list[Claim]:
    """All sentences."""
    return [*_early(cells), *_times(cells), *_dominated(cells), *_reasons(cells), *_conclusion(cells)]


# verdicts


def at_least(effect: Mean, wanted: float, least: float) -> Verdict:
    """An effect that should be as large as the paper's."""
    if math.isinf(effect.high):
        return "not tested"
    if effect.low <= 0 or effect.value < least:
        return "not reproduced"
    return "reproduced" if effect.value >= wanted else "same direction"


def everywhere(effects: Sequence[Values], least: float) -> Verdict:
    """An effect that should be there in every cell; on the mean it is the same direction."""
    whole = at_least(mean(across(effects)), least, least)
    return "same direction" if whole == "reproduced" and not _all_positive(effects) else whole


def _all_positive(effects: Sequence[Values]) -> bool:
    return all(mean(effect).low > 0 for effect in effects)


def even(found: Sequence[Mean], most: float) -> Verdict:
    """Differences that should be none: none may be larger than `most`."""
    if any(math.isinf(one.high) for one in found):
        return "not tested"
    return "reproduced" if max(abs(one.value) for one in found) <= most else "not reproduced"


def reach(shares: Mean, wanted: float, base: float) -> Verdict:
    """A share of results that should be there; `base` is that of even production."""
    if math.isinf(shares.high):
        return "not tested"
    if shares.value >= wanted and shares.low > base:
        return "reproduced"
    return "same direction" if shares.low > base + LEAST_SHARE else "not reproduced"


def no_winner(times: Sequence[Mapping[str, Values]]) -> Verdict:
    """In each cell, times by policy: none should be the fastest everywhere. Noise has no winner."""
    if any(len(values) < 2 for cell in times for values in cell.values()):
        return "not tested"
    winners = {winner for cell in times if (winner := _fastest(cell))}
    if len(winners) > 1:
        return "reproduced"
    return "not reproduced" if all(_fastest(cell) for cell in times) else "not tested"


def _fastest(cell: Mapping[str, Values]) -> str:
    """The policy that is faster than each of the others by more than noise; else none."""
    for policy, own in cell.items():
        if all(mean(differences(other, own)).low > 0 for name, other in cell.items() if name != policy):
            return policy
    return ""


# section 4.2


def _early(cells: Cells) -> Iterator[Claim]:
    for policy in (INITIAL, RATE):
        for names, said, wanted in (
            (NAMES[:3], "60 % of the results in less than 30 % of timestamp's time, data sets I-III", 0.6),
            (("V",), "80 % of the results in the first 20-30 % of the time, data set V", 0.8),
        ):
            found = mean(across([_at(cells, key, policy, 0.3) for key in _keys(names)]))
            yield Claim(f"{policy}: {said}", f"{wanted:g}", str(found), reach(found, wanted, 0.3))
    small = [_at(cells, key, CONSUMPTION, 0.7) for key in _keys("V")]
    theirs = [_at(cells, key, BASE, 0.7) for key in _keys("V")]
    found, fewer = mean(across(small)), mean(differences(across(theirs), across(small)))
    verdict = at_least(fewer, LEAST_SHARE, LEAST_SHARE)
    yield Claim(
        f"{CONSUMPTION}: a very small part of the results up to 70 % of the time, data set V",
        f"very small (ours: at most {_SMALL_SHARE})", str(found),
        "same direction" if verdict == "reproduced" and found.high > _SMALL_SHARE else verdict,
        f"{fewer} less than timestamp",
    )  # fmt: skip


def _times(cells: Cells) -> Iterator[Claim]:
    same = [mean(_saved(cells, key, ROUND)) for key in _keys(NAMES[:3])]
    yield Claim(
        "round-robin finishes almost when timestamp does, data sets I-III",
        f"less than 0.2 % (its Table 4: up to {_EVEN_MOST:.1%})",
        f"up to {max(abs(one.value) for one in same):.1%}", even(same, _EVEN_MOST),
    )  # fmt: skip
    first = mean(
        across(
            [[1 - cpu for cpu in cells[*key, ROUND].halves["first half"]["cpu"]] for key in _keys(("IV",))]
        )
    )
    yield Claim(
        "round-robin is slightly faster than timestamp in the first half, data set IV",
        f"slightly (least effect {_SLIGHTLY:.0%})", f"{first} saved", at_least(first, _SLIGHTLY, _SLIGHTLY),
    )  # fmt: skip
    close = [mean(differences(cells[*key, CONSUMPTION].cpu, cells[*key, RATE].cpu)) for key in _keys("V")]
    yield Claim(
        f"{CONSUMPTION} takes about as long as {RATE}, data set V", f"similar (its Table 4: within {NEAR})",
        f"differences {', '.join(map(str, close))}", even(close, NEAR),
    )  # fmt: skip
    for name in _UNEVEN:
        own, *others = [cells[name, "1M", p].cpu for p in (INITIAL, CONSUMPTION, RATE, ROUND, BASE)]
        lead = mean(differences([min(of) for of in zip(*others, strict=True)], own))
        yield Claim(
            f"{INITIAL} is the fastest of all, data set {name}, 1M",
            f"fastest (least effect {LEAST_TIME:.0%})",
            f"{lead} ahead of the next", at_least(lead, LEAST_TIME, LEAST_TIME),
        )  # fmt: skip
    bursts = [_saved(cells, (name, "1M"), ROUND) for name in _UNEVEN]
    yield Claim(
        "round-robin outperforms timestamp with bursts and large batches (V and VI, 1M)",
        f"faster (least effect {LEAST_TIME:.0%})", f"{mean(across(bursts))} saved",
        everywhere(bursts, LEAST_TIME),
    )  # fmt: skip


# the discussion


def _dominated(cells: Cells) -> Iterator[Claim]:
    for policy, names in _SETS.items():
        keys = _keys(names)
        for what, least, effects in (
            ("running time", LEAST_TIME, [_saved(cells, key, policy) for key in keys]),
            ("early results", LEAST_SHARE, [_more(cells, key, policy, "early") for key in keys]),
            ("early consumption", LEAST_SHARE, [_more(cells, key, policy, "consumed") for key in keys]),
        ):
            against = policy == CONSUMPTION and what == "early results"
            yield Claim(
                f"timestamp is dominated in {what} by {policy}",
                f"in all data sets (least effect {least:.0%})", f"{mean(across(effects))} better",
                everywhere(effects, least), "the paper's Table 5 says the contrary" if against else "",
            )  # fmt: skip


def _reasons(cells: Cells) -> Iterator[Claim]:
    keys = _keys(NAMES)
    fewer = [[1 - of for of in cells[*key, INITIAL].probes] for key in keys]
    later = mean(across([cells[*key, INITIAL].later_probes for key in keys]))
    yield Claim(
        f"timestamp needs more probes than {INITIAL}", f"more (least effect {LEAST_COUNT:.0%})",
        f"{mean(across(fewer))} saved; of probes after the first {later} of timestamp's",
        everywhere(fewer, LEAST_COUNT), "first probes are one per row under any policy",
    )  # fmt: skip
    often = across([cells[*key, INITIAL].switches for key in keys])
    base = across([cells[*key, BASE].switches for key in keys])
    yield Claim(
        "timestamp changes the driver stream more often", "more",
        f"{INITIAL} changes {sum(often) / sum(base):.5f} times as often", "not tested",
        "it follows from what the policies are",
    )  # fmt: skip
    ahead = [_more(cells, key, INITIAL, "consumed", CONSUMPTION) for key in _keys(_UNEVEN)]
    yield Claim(
        f"{INITIAL} consumes the input earlier than {CONSUMPTION} (V, VI)",
        f"earlier (least effect {LEAST_COUNT:.0%})",
        f"{mean(across(ahead))} more at half of timestamp's time",
        everywhere(ahead, LEAST_COUNT),
    )  # fmt: skip


def _conclusion(cells: Cells) -> Iterator[Claim]:
    times = [
        {policy: cells[*key, policy].cpu for policy, names in _SETS.items() if key[0] in names}
        for key in _keys(NAMES)
    ]
    winners = sorted({winner for cell in times if (winner := _fastest(cell))})
    yield Claim(
        "no policy is the fastest in all experiments", "none",
        f"fastest by more than noise somewhere: {', '.join(winners) or 'none'}", no_winner(times),
    )  # fmt: skip
    for other, names in ((RATE, NAMES), (CONSUMPTION, _UNEVEN)):
        leads = [differences(cells[*key, other].cpu, cells[*key, INITIAL].cpu) for key in _keys(names)]
        lead = mean(across(leads))
        yield Claim(
            f"Conclusion: {INITIAL} performs best: it takes less time than {other} on average",
            f"best (least effect {LEAST_TIME:.0%})", f"{lead} of timestamp's time less",
            at_least(lead, LEAST_TIME, LEAST_TIME),
        )  # fmt: skip
    best = max((mean(_saved(cells, key, INITIAL)) for key in _keys(_UNEVEN)), key=lambda saved: saved.value)
    yield Claim(
        f"Conclusion: with bursts and different selectivities (V, VI) {INITIAL} saves up to 50 %", "0.5",
        f"up to {best}", at_least(best, 0.5 - NEAR, 0.25), "half of it is the same direction",
    )  # fmt: skip
    bursty, even_ = (
        across([_saved(cells, (name, "1M"), INITIAL) for name in names]) for names in (_UNEVEN, NAMES[:3])
    )
    more = mean(differences(bursty, even_))
    yield Claim(
        f"Conclusion: {INITIAL} saves most with bursts and different selectivities (V, VI against I-III, 1M)",
        f"more (least effect {LEAST_TIME:.0%})", f"{more} of timestamp's time more",
        at_least(more, LEAST_TIME, LEAST_TIME),
    )  # fmt: skip


# values by repetition


def _keys(names: Sequence[str]) -> Keys:
    return [(name, period) for name in names for period in PERIODS]


def _saved(cells: Cells, key: tuple[str, str], policy: str) -> list[float]:
    return [1 - cpu for cpu in cells[*key, policy].cpu]


def _more(cells: Cells, key: tuple[str, str], policy: str, what: str, than: str = BASE) -> list[float]:
    own, base = (cells[*key, who].halves["all"][what] for who in (policy, than))
    return differences(own, base)


def _at(cells: Cells, key: tuple[str, str], policy: str, x: float) -> list[float]:
    """The share of results that is there at x times timestamp's time."""
    curves = cells[*key, policy].curves["all"]
    return [float(np.interp(x, np.linspace(0.0, 1.5, len(curve)), curve[:, 0])) for curve in curves]
