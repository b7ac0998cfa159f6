"""The benchmark of window splits: memory is short in all settings, and its verdict can fail."""

from __future__ import annotations

import pytest

import braided as bd
from braided_benchmarks import splits


def test_memory_is_short_and_results_come() -> None:
    for number in range(5):
        setting = splits.drawn(number)
        assert len(setting.rates) == 2 + number
        live = bd.LocalJoin(setting.query("equal", "mjoin"))
        for batch, _ in zip(setting.batches(1), range(12), strict=False):
            live.push(batch)
        seen = live.stats()
        assert sum(s.cut_rows for s in seen.streams.values()) > 0
        assert seen.results > 0


@pytest.mark.parametrize(("best", "code"), [(1.3, 0), (1.1, 1), (0.9, 1)])
def test_a_wrong_outcome_fails(best: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "ratios", lambda *_: dict.fromkeys(splits.RULES, best))
    said: list[str] = []
    assert splits.main(["--settings", "2"], said.append) == code
    assert said[-2] == f"against the best rule: at least {best:.3f}, median {best:.3f}"
