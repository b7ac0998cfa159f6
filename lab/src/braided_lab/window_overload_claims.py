"""What the window-join paper says of Figures 8 to 11 and of overload, against what was measured.

A rule's results per unit of time are counted once for each seed. Orders are those that the text states;
values are those of the paper's formulas, from the parameters (`verdicts` says how both are judged).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from braided_lab.report import Claim, mean_of
from braided_lab.verdicts import COUNTED, all_of, between, own, ranking, shown, spread

Outputs = dict[str, list[float]]  # results per unit by rule, one for each seed
_ORDERS = {
    "figure_8": ("Figure 8: equal rates give most results", "equal is the winner"),
    "figure_9": (
        "Figure 9: all memory to the slower stream is best, all to the faster one worst",
        "max-slow, then others, then max-fast",
    ),
    "figure_10": (
        "Figure 10: the window of one stream and the rate of the other are best, then equal parts",
        "two winners, then equal, then two that are worst",
    ),
}
_VALUES = {
    "figure_8": "Figure 8: results per unit are what Eq. 10 says",
    "figure_9": "Figure 9: results per unit are what Eq. 13 says",
    "figure_10": "Figures 10 and 11: results per unit are what Eq. 14 says",
    "equal_rates": "Section 4.3: with equal rates it does not matter how memory is split",
    "regulated": "Section 4.2: of 5 and 100 rows, with a budget of 50, these are let in",
}


def claims(given: Mapping[str, Any], outputs: Mapping[str, Outputs]) -> Iterator[Claim]:
    """All claims of overload on the shipped join."""
    for which, (words, paper) in _ORDERS.items():
        yield order(words, paper, given[which]["ranking"], outputs[which])
    yield level(given["level_within"], outputs["figure_8"])
    for which, words in _VALUES.items():
        yield values(words, given[which]["paper"], outputs[which], given["formula_within"])
    yield best(outputs["figure_9"])


def order(words: str, paper: str, groups: Sequence[Sequence[str]], outputs: Outputs) -> Claim:
    """Rules in the order that the paper states."""
    verdict, closest = ranking(groups, outputs, COUNTED)
    means = ", ".join(f"{rule} {shown(values, 2)}" for rule, values in outputs.items())
    return Claim(words, paper, means, verdict, f"results per unit; {closest} (at least {COUNTED:.0%})")


def level(within: float, outputs: Outputs) -> Claim:
    """Two rules of Figure 8 that should do alike."""
    pairs = zip(outputs["proportional"], outputs["inverse"], strict=True)
    ratios = [p / i if i else float("nan") for p, i in pairs]
    return Claim(
        "Figure 8: proportional and inverse are alike",
        f"not much difference (ours: within {within:.0%})",
        f"{shown(ratios, 3)} of inverse",
        between(spread(ratios), 1 - within, 1 + within),
    )


def values(words: str, paper: Mapping[str, float], outputs: Outputs, within: float, by: float = 1) -> Claim:
    """Each rule's results; where the formula says none, a small part of the largest."""
    largest, verdicts, off = max(paper.values()), [], []
    for rule, said in paper.items():
        wanted, slack = by * said, by * within * (said or largest)
        verdicts.append(between(spread(outputs[rule]), wanted - slack, wanted + slack))
        found = mean_of(outputs[rule]).value
        off.append(
            f"{rule} {found:.4g} ({wanted:.4g}), {abs(found - wanted) / (by * (said or largest)):.1%} off"
        )
    failed = sum(v != "reproduced" for v in verdicts)
    return Claim(
        words, ", ".join(f"{by * v:.4g}" for v in paper.values()), "; ".join(off), all_of(verdicts),
        f"within {within:.0%}" + (f"; {failed} of {len(verdicts)} not, or not clearly" if failed else ""),
    )  # fmt: skip


def best(outputs: Outputs) -> Claim:
    """Our own rule must not be worse than the paper's winner."""
    ratios = [b / s if s else float("nan") for b, s in zip(outputs["best"], outputs["max-slow"], strict=True)]
    return Claim(
        'Ours, Figure 9: window_split="best" gives as many results as max-slow',
        f"(ours: at least {1 - COUNTED:g})",
        f"{shown(ratios, 3)} of max-slow's", own(between(spread(ratios), 1 - COUNTED, float("inf"))),
    )  # fmt: skip
