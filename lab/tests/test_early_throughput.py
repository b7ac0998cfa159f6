"""The early-throughput lab: arrivals are as said, virtual time is repeatable, every run is exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from braided.policies.flush import registry
from braided_lab import early_throughput
from braided_lab.early_arrivals import (
    Bursts,
    Source,
    alphabet,
    bursty,
    expected,
    keys_of,
    pareto,
    sources_of,
    steady,
)
from braided_lab.early_claims import lead
from braided_lab.early_hindsight import hindsight
from braided_lab.early_measure import Costs, Run, Setting, VirtualRun, group_bits, limit_bytes, query_of
from braided_lab.report import Verdict

GIVEN = early_throughput.parameters()
COSTS = Costs(**GIVEN["costs"])
WIDE = 2_000  # bytes of a tuple: so few rows fit that there are many groups
TINY: dict[str, Any] = {
    **GIVEN["full"],
    "scale": 0.004, "batch_s": 5.0, "seeds": 2, "some_seeds": 1,
    "calm": ["D"], "alphas": [0.9], "keepings": ["recent"], "memory_shares": [0.15], "flush_shares": [0.1],
    "join_ratios": [2], "joins": [4], "experiments": GIVEN["full"]["experiments"][:-1],
}  # fmt: skip


def rows(seed: int = 1, count: int = 1_500, inputs: int = 3) -> tuple[dict[str, Source], int]:
    """Rows of a few bursty sources, and a limit for a tenth of them."""
    rng = np.random.default_rng(seed)
    limit = limit_bytes(inputs * count, WIDE, 0.1)
    keys = keys_of(rng, inputs, count, count * 4 // 5, group_bits(limit))
    times = [bursty(rng, count, Bursts(30, 1.5, 2, 8)) for _ in range(inputs)]
    return sources_of(keys, times, WIDE, alphabet(inputs)), limit


def run(setting: Setting, seed: int = 1) -> Run:
    sources, limit = rows(seed)
    options = {"interval": "5 seconds"}
    query = query_of(list(sources), Setting(**{**vars(setting), "options": options}), limit)
    choose = {"state-spill": lambda _: registry.state_spill, "hindsight": hindsight(sources), None: None}
    return VirtualRun(query, sources, COSTS, choose[setting.chooses]).run(2.5)


def test_bursty_sources_have_the_average_rate_and_long_silences() -> None:
    rng = np.random.default_rng(3)
    found = [bursty(rng, 20_000, Bursts(200, 1.5, 2, 8)) for _ in range(20)]
    assert np.median([20_000 / times[-1] for times in found]) == pytest.approx(200, rel=0.3)
    gaps = np.diff(found[0])
    assert (gaps >= 0).all()
    assert gaps.min() == pytest.approx(1 / 1000)  # while ON
    assert gaps.max() > 8
    even = steady(rng, 1_000, 200)
    assert np.diff(even) == pytest.approx(1 / 200)
    assert pareto(rng, 1_000, 1.0, 1.5).min() >= 1 / 3


def test_every_set_of_sources_has_as_many_buckets() -> None:
    rng = np.random.default_rng(1)
    keys = keys_of(rng, 3, 20_000, 5_000, 5)
    have = np.array([np.bincount(k, minlength=5_000) > 0 for k in keys])
    assert have.sum(axis=1) == pytest.approx(2_500, rel=0.15)
    assert have.all(axis=0).sum() == pytest.approx(5_000 / 8, rel=0.3)
    with pytest.raises(ValueError, match="too few"):
        keys_of(rng, 3, 100, 5_000, 2)


def test_what_is_expected_is_what_nested_loops_find() -> None:
    keys = [np.array([1, 1, 2]), np.array([1, 2, 2]), np.array([2, 1, 1])]
    sources = sources_of(keys, [np.arange(3.0)] * 3, 20, alphabet(3))
    found = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)
             if keys[0][a] == keys[1][b] == keys[2][c]]  # fmt: skip
    count, sums = expected(sources)
    assert count == len(found)
    assert [sums[n] for n in "ABC"] == np.sum(found, axis=0).tolist()


@pytest.mark.parametrize("flush", ["adaptive-global", "state-spill", "rpj", "hash-merge", "largest"])
def test_runs_are_exact_and_repeatable_in_virtual_time(flush: str) -> None:
    once, again = run(Setting(flush)), run(Setting(flush))
    assert once.counts == again.counts
    assert (once.curve == again.curve).all()
    assert once.counts["flushed_rows"] > 0
    assert (np.diff(once.curve, axis=0) >= 0).all()
    assert once.seconds_to(once.results) == pytest.approx(once.curve[-1, 0])
    assert once.seconds_to(once.results + 1) == float("inf")


def test_parts_of_ours_can_be_switched_off() -> None:
    """Rows in memory met those of their group on disk only once they were flushed: half came at the end."""
    whole, written = run(Setting()), run(Setting(take_along=False))
    alone, managed = run(Setting(state_manager=False)), run(Setting(chooses="state-spill"))
    at_end = [r.counts["results_at_input_end"] for r in (whole, written, alone)]
    assert at_end[0] > at_end[1] > at_end[2]
    assert alone.counts["merges"] == 0 < managed.counts["merges"]
    assert whole.results == written.results == alone.results == managed.results
    assert lead([whole], [alone], whole.results / 4).value > 0


def test_hindsight_is_exact_and_repeatable() -> None:
    found = [run(Setting(state_manager=False, chooses="hindsight"), seed) for seed in (1, 2, 3)]
    blind = [run(Setting("state-spill"), seed) for seed in (1, 2, 3)]
    assert sum(r.counts["merges"] for r in found) == 0
    assert [r.results for r in found] == [r.results for r in blind]
    again = run(Setting(state_manager=False, chooses="hindsight"), 1)
    assert again.counts == found[0].counts


def test_a_small_lab_reports_every_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**GIVEN, "tuple_bytes": WIDE, "arrivals": {**GIVEN["arrivals"], "rate": 40_000}, "quick": TINY}
    monkeypatch.setattr(early_throughput, "parameters", lambda: given)
    report = early_throughput.lab(tmp_path, quick=True, seed=2)
    said = json.loads((tmp_path / "early-throughput.json").read_text())
    assert len({c["claim"] for c in said["claims"]}) == len(report.claims) == 26
    assert {c["verdict"] for c in said["claims"]} <= set(get_args(Verdict))
    assert said["commit"] == report.commit
    assert all(row["seconds_to"]["10000"] > 0 for row in said["rows"])
    assert len(list(tmp_path.glob("*.png"))) == 9
    assert all((row["flushed_rows"] > 0) == (row["who"] != "all in memory") for row in said["rows"])
    assert "| inputs | 4 bursty | adaptive | 2 |" in (tmp_path / "early-throughput.md").read_text()
