"""The report of a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

import braided as bd
from braided.view import Journal, report
from braided.view.charts import MOST_POINTS, charts_of
from braided.view.report import report_of
from tests.view.batches import EVIL, record
from tests.view.markup import Tags


def test_it_is_one_file_with_plots_and_names_as_text(tmp_path: Path) -> None:
    to = report([record(n, EVIL) for n in range(5)], "a join of\n<b>two</b> & more", tmp_path / "r.html")
    text = to.read_text()
    seen = Tags(text)
    assert "script" not in seen.tags
    assert "&lt;b&gt;two&lt;/b&gt; &amp; more" in text
    assert seen.links == ["data:,"]
    assert seen.tags.count("svg") == 9
    assert EVIL in seen.text
    assert "<b>two</b> & more" in seen.text
    for words in ("1,500", "late rows", "state, peak", "budget 64 MB", "batch 4"):
        assert words in seen.text, words
    assert len(text) < 60_000


def test_without_batches_it_says_so(tmp_path: Path) -> None:
    seen = Tags(report([], "", tmp_path / "r.html").read_text())
    assert "No batch was finished" in seen.text
    assert "svg" not in seen.tags


def test_one_batch_and_gaps_are_drawn(tmp_path: Path) -> None:
    text = report([record(0)], "", tmp_path / "r.html").read_text()
    assert "<circle" in text
    assert "nan" not in text
    gap = [record(n, results=None if n == 2 else 5) for n in range(5)]
    assert charts_of(gap)[1].series["results"][2] is None
    assert "nan" not in report(gap, "", tmp_path / "r.html").read_text()


def test_long_runs_are_thinned_and_peaks_stay() -> None:
    long = [record(n, seconds=9.0 if n == 777 else 1.0) for n in range(5_000)]
    charts = charts_of(long)
    assert all(len(c.times) <= MOST_POINTS for c in charts)
    assert max(v or 0 for v in charts[2].series["it took"]) == 9.0
    assert charts[0].times[-1] == long[-1].when


def test_what_did_not_happen_is_said_last() -> None:
    calm = [record(0, without=["spilled_bytes", "freshness_share"], half_joins={}, adaptations=())]
    charts = charts_of(calm)
    assert [bool(c.series) for c in charts] == [True] * 5 + [False] * 4
    assert all(c.nothing for c in charts[5:])


def test_a_journal_or_its_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.describe("a join of two")
    journal.append(record(0))
    assert report_of(tmp_path) == report_of(journal.path) == tmp_path / "report.html"
    assert "a join of two" in (tmp_path / "report.html").read_text()
    with pytest.raises(bd.BraidedError, match="is no journal"):
        report_of(tmp_path / "nothing")
    with pytest.raises(bd.BraidedError, match="cannot be written"):
        report_of(tmp_path, tmp_path)
