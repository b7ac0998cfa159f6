"""What the window-join paper says of Figures 2 to 7 and of lazy invalidation, against what was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from braided_lab import window_paper_model as model
from braided_lab.report import Claim, Verdict
from braided_lab.window_cost import Weights, crossover

if TYPE_CHECKING:
    from braided_lab.window_paper import Found
    from braided_lab.window_paper_measure import Lab


def claims(lab: Lab, found: Found) -> list[Claim]:
    """All claims, in the order of the figures."""
    parts = (_touches, _weights, _crossovers, _layouts, _curves, _joins, _thrash, _outputs, _lazy)
    return [claim for part in parts for claim in part(lab, found)]


def _off(ours: float, theirs: float) -> float:
    return abs(ours / theirs - 1) if theirs > 0 and math.isfinite(ours) else math.inf


def _near(ours: float, theirs: float, within: float, *, direction: bool = False) -> Verdict:
    if _off(ours, theirs) <= within:
        return "reproduced"
    return "same direction" if direction else "not reproduced"


def _holds(what: bool) -> Verdict:
    return "reproduced" if what else "not reproduced"


def _touches(lab: Lab, found: Found) -> Iterator[Claim]:
    bars, says = lab.given["bars"], lab.given["paper_says"]["crossover_rate"]
    for figure, number in (("figure-2", 2), ("figure-3", 3)):
        mine = [r for r in model.cost_rows(lab, found) if r["figure"] == number]
        worst = max(_off(r["touch_cost"], r["model_cost"]) for r in mine)
        yield Claim(
            f"Figure {number}: rows touched by the four joins are what Eq. 4 to 6 say",
            "equal", f"largest difference {worst:.2%}", _near(1 + worst, 1, bars["touches_within"]),
            "Eq. 3 leaves out that the bucket of a row that leaves has that row; the rest is random keys",
        )  # fmt: skip
        ours = found.touch_crossovers[figure]
        exact = model.join_crossover(lab, lab.given["keys"][figure], Weights(**lab.given["weights"]))
        yield Claim(
            f"Figure {number}: HNJ touches less than HHJ from this rate of B on",
            f"about {says[figure]}", f"{ours:.1f}",
            _near(ours, exact, bars["touch_crossover_within"], direction=0 < ours < math.inf),
            f"the model's own crossover is {exact:.1f}",
        )  # fmt: skip


def _weights(lab: Lab, found: Found) -> Iterator[Claim]:
    rate = found.crossovers[str(lab.base)][lab.given["calibrate_on"]] * lab.given["rate_a"]
    about = lab.given["paper_says"]["crossover_rate"]["figure-4"]
    yield Claim(
        "Figure 4: one way, a scan takes less CPU time than a hash from this rate of B on", f"about {about}",
        f"{rate:.0f}", _near(rate, about, lab.given["bars"]["crossover_within"], direction=rate > 0),
        "from this our weights are taken",
    )  # fmt: skip
    ours, says = found.weights[str(lab.base)].ratio, lab.given["paper_says"]["weight_ratio"]
    others = "; ".join(f"{w.ratio:.2f} ({n})" for n, w in list(found.weights.items())[1:])
    yield Claim(
        "Section 3.4: a row in a hash costs this much more than a row in a scan", f"{says:g}", f"{ours:.2f}",
        _near(ours, says, lab.given["bars"]["weight_ratio_within"], direction=ours > 1),
        f"a matter of the implementation, as the paper says: being near 1.3 is chance; others: {others}",
    )  # fmt: skip


def _agreement(lab: Lab, found: Found, layout: str, keys: int) -> tuple[Verdict, str]:
    """A measured crossover against Eq. 7 with the layout's own weights."""
    ours, eq7 = found.crossovers[layout][keys], crossover(keys, found.weights[layout])
    if ours == 0 and eq7 <= lab.given["crossing"]["lowest_ratio"]:
        return "reproduced", f"the scan always wins, as Eq. 7 says ({eq7:.2f})"
    verdict = _near(ours, eq7, lab.given["bars"]["crossover_within"], direction=0 < ours < math.inf)
    calibrates = keys == lab.given["calibrate_on"]
    return verdict, "our weights are taken from this: no test" if calibrates else f"{_off(ours, eq7):.0%} off"


def _crossovers(lab: Lab, found: Found) -> Iterator[Claim]:
    layout = str(lab.base)
    for keys, ours in found.crossovers[layout].items():
        eq7 = crossover(keys, found.weights[layout])
        yield Claim(
            f"Figure 5, |B| = {keys}: a scan wins if B is this many times faster",
            f"Eq. 7: {eq7:.2f} with our weights, {crossover(keys):.2f} with the paper's", f"{ours:.2f}",
            *_agreement(lab, found, layout, keys),
        )  # fmt: skip


def _layouts(lab: Lab, found: Found) -> Iterator[Claim]:
    for layout, ratios in found.crossovers.items():
        tested = [k for k in lab.given["bars"]["crossover_keys"] if k in ratios]
        tested = [k for k in tested if k != lab.given["calibrate_on"]]
        good = [k for k in tested if _agreement(lab, found, layout, k)[0] == "reproduced"]
        weights = found.weights[layout]
        measured = ", ".join(f"{k}: {ratios[k]:.2f} ({crossover(k, weights):.2f})" for k in tested)
        verdict: Verdict = "reproduced" if good == tested else "same direction" if good else "not reproduced"
        yield Claim(
            f"Figure 5, {layout}: Eq. 7 predicts crossovers from one calibration",
            f"within {lab.given['bars']['crossover_within']:.0%} at |B| = {', '.join(map(str, tested))}",
            f"{len(good)} of {len(tested)} hold", verdict, f"measured (Eq. 7): {measured}",
        )  # fmt: skip


def _curves(lab: Lab, found: Found) -> Iterator[Claim]:
    weights, within = found.weights[str(lab.base)], lab.given["bars"]["curve_within"]
    for figure, curves in ((4, found.one_way), (6, found.joins)):
        expected = model.scaled(lab, curves, weights)
        offs = [_off(p[1], m[1]) for n in curves for p, m in zip(curves[n], expected[n], strict=True)]
        typical = statistics.median(offs)
        yield Claim(
            f"Figure {figure}: measured CPU time follows the model", "curves coincide",
            f"median difference {typical:.1%}, largest {max(offs):.0%}", _near(1 + typical, 1, within),
            "one factor for all curves; worst where windows are small",
        )  # fmt: skip


def _joins(lab: Lab, found: Found) -> Iterator[Claim]:
    keys, says = lab.given["keys"]["other"], lab.given["paper_says"]["crossover_rate"]["figure-6"]
    ours, own = found.join_crossover, model.join_crossover(lab, keys, found.weights[str(lab.base)])
    yield Claim(
        "Figure 6: HNJ takes less CPU time than HHJ from this rate of B on", f"about {says}", f"{ours:.0f}",
        _near(ours, says, lab.given["bars"]["crossover_within"], direction=0 < ours < math.inf),
        f"the model with our weights says {own:.0f}",
    )  # fmt: skip
    rates = lab.size["join_rates"]
    best = [min((c[i][1], name) for name, c in found.joins.items())[1] for i in range(len(rates))]
    yield Claim(
        "Figure 6: NHJ and NNJ are never the best where B is the faster stream", "never",
        f"{sum(b in ('NHJ', 'NNJ') for b in best)} of {len(best)} times",
        _holds(not {"NHJ", "NNJ"} & set(best)),
        ", ".join(f"{rate}: {name}" for rate, name in zip(rates, best, strict=True)),
    )  # fmt: skip


def _thrash(lab: Lab, found: Found) -> Iterator[Claim]:
    within, weights = lab.given["bars"]["thrash_within"], found.weights[str(lab.base)]
    touch, operation = model.fitted(lab, found)
    for at, points in ((lab, found.thrash), (lab.longer, found.long_thrash)):
        window = f"windows of {at.given['window']} s"
        for name, ours in points.items():
            says = at.given["paper_says"]["thrash"][name]
            theirs = model.thrash(at, name, Weights(**at.given["weights"]))
            own, more = model.thrash(at, name, weights), model.thrash(at, name, touch, operation)
            later = name == "HNJ" and ours > points["HHJ"]
            yield Claim(
                f"Figure 7, {window}: {name} falls behind at this rate of B",
                f"{says} (its model: {theirs:.1f})", f"{ours:.1f}",
                _near(ours, says, within, direction=later),
                f"only the one-way hash is calibrated, at {at.given['saturates_at']}",
            )  # fmt: skip
            yield Claim(
                f"Figure 7, {window}: the model predicts where {name} falls behind",
                f"{own:.1f} with our weights", f"{ours:.1f}", _near(ours, own, within, direction=later),
                f"{_off(ours, own):.0%} off; an operation costs {operation:.0f} ns beyond its touches "
                f"({touch.scan:.2f} and {touch.hash:.2f} ns each), fitted to Figure 4: with that {more:.1f}",
            )  # fmt: skip


def _outputs(lab: Lab, found: Found) -> Iterator[Claim]:
    within, says, left = lab.given["bars"]["output_within"], lab.given["paper_says"], {}
    for name, fails_at in found.thrash.items():
        outputs, rate, theirs = dict(found.outputs[name]), round(fails_at * 0.95), says["thrash"][name]
        eq9 = model.expected_output(lab, name, rate)
        yield Claim(
            f"Figure 7: just before it falls behind, {name} puts out what Eq. 9 says", f"{eq9:.0f} at {rate}",
            f"{outputs[rate]:.0f}", _near(outputs[rate], eq9, within),
        )  # fmt: skip
        eq9 = model.expected_output(lab, name, theirs)
        yield Claim(
            f"Figure 7: output of {name} at the paper's peak, {theirs} rows of B per second",
            f"{says['peak_output'][name]} (Eq. 9: {eq9:.0f})", f"{outputs[theirs]:.0f}",
            _near(outputs[theirs], eq9, within, direction=outputs[theirs] < eq9),
            f"against Eq. 9, which the paper missed, too; here it falls behind at {fails_at:.0f}",
        )  # fmt: skip
        left[name] = outputs[round(fails_at * lab.given["after_peak"])] / outputs[rate]
    yield Claim(
        f"Figure 7: at {lab.given['after_peak']:g} times that rate HHJ's output has fallen, HNJ's less so",
        "HHJ drastically, HNJ gracefully", ", ".join(f"{n} {v:.2f} of its peak" for n, v in left.items()),
        _holds(left["HHJ"] < lab.given["bars"]["falls_below"] and left["HNJ"] > left["HHJ"]),
    )  # fmt: skip


def _lazy(lab: Lab, found: Found) -> Iterator[Claim]:
    by = {(r["rate_b"], r["index"], r["invalidation"]): r for r in found.lazy}
    rates, saves = sorted({r["rate_b"] for r in found.lazy}), lab.given["bars"]["lazy_saves"]
    more: dict[str, list[int]] = {}
    for index in ("hash", "scan"):
        pairs = [(by[r, index, "lazy"], by[r, index, "active"]) for r in rates]
        times = [lazy["ms"] / active["ms"] for lazy, active in pairs]
        more[index] = [lazy["peak_rows"] - active["peak_rows"] for lazy, active in pairs]
        expected = min(lazy["model_touches"] / active["model_touches"] for lazy, active in pairs)
        yield Claim(
            f"Section 3: lazy invalidation may save time, {index}", f"may; {1 - expected:.1%} of the touches",
            f"{times[0]:.2f} to {times[-1]:.2f} of the active time, rates {rates[0]} to {rates[-1]}",
            _near(min(times), expected, saves, direction=min(times) < 1 - saves),
        )  # fmt: skip
    yield Claim(
        "Section 3: lazy invalidation holds more rows, a hash more than a scan", "more",
        "; ".join(f"{i} {n[0]} to {n[-1]} rows more" for i, n in more.items()),
        _holds(all(h > s >= 0 for h, s in zip(more["hash"], more["scan"], strict=True))),
    )  # fmt: skip
    worst = max(_off(r["touches"], r["model_touches"]) for r in found.lazy if r["invalidation"] == "lazy")
    yield Claim(
        "Section 3.1: rows touched by lazy invalidation are what the formulas say", "equal",
        f"largest difference {worst:.2%}", _near(1 + worst, 1, lab.given["bars"]["touches_within"]),
        "the paper has a formula for the scan only; that of the hash is ours",
    )  # fmt: skip
