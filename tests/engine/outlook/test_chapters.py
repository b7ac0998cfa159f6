"""How explain(rates=...) lays out cost and budgets, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import braided as bd
from braided.engine import calibration
from braided.engine.outlook import around, chapters
from braided.engine.outlook.around import Around
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.index_cost import Costs
from tests.engine.outlook.running import query

RATES = {"a": 200, "b": 400, "c": 100}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose costs are known."""
    monkeypatch.setattr(chapters, "machine_costs", Costs)
    monkeypatch.setattr(chapters, "around_costs", lambda: Around(1e6, 100.0, 50.0))


def lines(asked: bd.JoinQuery, **options: Any) -> list[str]:
    """The lines from the cost on."""
    text = asked.explain(**{"rates": {name: RATES[name] for name in asked.names}, **options})
    return text[text.index("expected cost") :].splitlines()


def cells(found: list[str], first: str) -> list[str]:
    """The cells of a table's line, by its first one."""
    (line,) = [line for line in found if line.split()[:1] == [first]]
    return line.split()


def test_the_cost_is_told_direction_by_direction() -> None:
    found = lines(query("abc"), keys=200, batch_period="500 ms")
    assert found[0] == "expected cost on this machine, every row probing, in batches of 500 milliseconds:"
    assert found[1].split() == ["rows", "of", "probe", "probes/s", "found/s", "µs/s", "own", "index"]
    # a row of a finds 2 of c, and these 8 of b each: 200 + 400 probes, 3,200 results
    assert found[2].split()[:5] == ["a", "c,", "b", "600", "3,200"]
    assert found[4].split()[:5] == ["c", "a,", "b", "500", "3,200"]
    assert "  batches: 2,000 µs/s; rows in and stored: 71 µs/s" in found
    assert "  rows made: 9,600/s: 480 µs/s" in found
    assert "  results: 9,600/s" in found
    assert any(
        line.startswith("  total: 0.2") and "of one core, which is fully busy at" in line for line in found
    )
    assert not any("assumed" in line for line in found)


def test_a_tree_says_what_is_made_below_the_root() -> None:
    found = lines(query("abc", plan="linear"), keys=200)
    assert cells(found, "(a")[:5] == ["(a", "b)", "c", "3,200", "6,400"]
    assert "  rows made: 12,800/s, 3,200/s of them intermediate: 640 µs/s" in found


def test_keys_that_are_not_given_are_assumed_and_said() -> None:
    found = lines(query("abc"))
    assert "  (assumed: 1,600 different keys, as many as rows are stored; say how many with keys=)" in found
    keyless = bd.JoinQuery([bd.Stream(n, time="t", window="1 s") for n in "ab"], where="a.x < b.x")
    found = lines(keyless)
    assert "  (assumed: where is true for every pair of rows inside the bounds)" in found
    assert "  results: 160,000/s before where" in found
    assert cells(found, "a")[-1] == "scan"


def test_several_keys_are_given_by_column() -> None:
    streams = [bd.Stream(n, time="t", window="4 seconds") for n in "abc"]
    asked = bd.JoinQuery(streams, on=[("a.x", "b.x"), ("b.y", "c.y")])
    both = lines(asked, keys={"a.x": 200, "c.y": 50})
    assert cells(both, "(a")[:5] == ["(a", "b)", "c", "3,200", "25,600"]  # 400 rows of c, one of 50
    assert lines(asked, keys=200) == lines(asked, keys={"b.x": 200, "b.y": 200})


def test_selectivities_that_the_query_gives_come_first() -> None:
    tuning = bd.Tuning(selectivities={("a", "b"): 0.01})
    found = lines(query("ab", tuning=tuning), keys=200)
    assert cells(found, "a")[2:4] == ["200", "3,200"]  # 1 % of 1,600 rows


def test_what_cannot_be_known_is_said_and_no_more() -> None:
    streams = [bd.Stream("a", key="k", time="t", window="1 s"), bd.Stream("b", key="k", time="t")]
    found = lines(bd.JoinQuery(streams, overload=bd.Overload(9)))
    assert found[0].startswith("expected cost: not known, because of b: 34,560,000 rows more a day")
    assert found[1].startswith("expected loss: not known, because of b:")
    assert lines(query("ab"), rates={"a": 1})[0].endswith("b: not known, because its rate is not given")


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_every_allocation_has_a_line_and_the_chosen_one_is_marked(plan: str) -> None:
    overload = bd.Overload(100, allocation="greedy-path")
    found = lines(query("abc", plan=plan, overload=overload), keys=200, batch_period="1 s")
    table = found[next(i for i, line in enumerate(found) if line.startswith("expected under")) + 1 :]
    assert found[-len(table) - 1].startswith("expected under 100 probes a batch, of ")
    rows = {line.split()[0]: line for line in table[1 : 1 + len(ALLOCATIONS)]}
    assert rows.keys() == ALLOCATIONS.keys()
    assert [name for name, line in rows.items() if line.endswith("chosen")] == ["greedy-path"]
    assert sum("most results" in line for line in rows.values()) == 1
    results = [float(line.split()[1].replace(",", "")) for line in rows.values()]
    assert results == sorted(results, reverse=True)


def test_a_budget_that_is_enough_needs_no_table() -> None:
    found = lines(query("abc", overload=bd.Overload(10**6)), keys=200)
    assert found[-1] == "  it is enough for all 9,600 results a batch, whatever the allocation"
    found = lines(query("abc", overload=bd.Overload(10**6, shed="input")), keys=200)
    assert found[-1] == "  it is enough for all 9,600 results a batch, whatever the allocation"


def test_a_target_is_turned_into_probes_by_what_they_cost_here() -> None:
    asked = query("abc", overload=bd.Overload(target_batch="1200 us"))
    (title,) = [
        line for line in lines(asked, keys=4, batch_period="1 s") if line.startswith("expected under")
    ]
    # a batch costs 1 ms, its 700 rows 0.07 ms; the rest is for probes, each with 300 results of 50 ns
    fits = "expected under 8 probes a batch (what fits into 1200 microseconds here), of 80,700 that find all:"
    assert title == fits
    dropped = query("abc", overload=bd.Overload(target_batch="1200 us", shed="input"))
    assert any("rows let in a batch (what fits into 1200 mic" in line for line in lines(dropped, keys=4))


def test_bounds_on_age_are_said_where_they_cost_something() -> None:
    fresh = {"freshness": "5 seconds"}
    flat = query("abc", options=fresh, overload=bd.Overload(100))
    assert "  (bounds on age cost nothing here: rows of intermediates expire with their parts)" in lines(flat)
    overload = bd.Overload(300, intermediate_rows=2000)
    found = lines(query("abc", plan="linear", options=fresh, overload=overload), keys=200)
    assert "  (no result is older than asked; a state that starves holds too few fresh rows)" in found
    assert any("starves (a b)" in line for line in found)
    assert any("bounds would do" in line for line in found)


def test_state_budgets_have_their_rules() -> None:
    found = lines(query("abc", overload=bd.Overload(state_rows=1000)), keys=200)
    assert "expected under 1,000 rows stored:" in found
    assert cells(found, "best")[-3:] == ["most", "results,", "chosen"]
    asked = query("abc", overload=bd.Overload(state_bytes=50_000))
    unknown = "expected under state_bytes: not known, because row_bytes is not given for every stream"
    assert unknown in lines(asked)
    found = lines(asked, keys=200, row_bytes=dict.fromkeys("abc", 36))
    assert "expected under 50,000 bytes stored:" in found
    assert cells(found, "best")[3] == "50,000"
    capped = query("abc", plan="linear", overload=bd.Overload(intermediate_rows=1000))
    assert any(line.startswith("expected loss: windows of intermediates leave ") for line in lines(capped))


@pytest.mark.parametrize(
    "asked",
    [
        query("abc", overload=bd.Overload(100)),
        query("abc", plan="linear", overload=bd.Overload(100, intermediate_rows=99)),
        bd.JoinQuery(
            [bd.Stream(f"a_stream_with_a_long_name_{i}", key="k", time="t", window="1 s") for i in range(16)],
            plan="linear",
            overload=bd.Overload(100, state_rows=10**6),
        ),
    ],
)
def test_lines_are_short(asked: bd.JoinQuery) -> None:
    text = asked.explain(rates=dict.fromkeys(asked.names, 1e6), keys=10**7)
    told = [line for line in text[text.index("expected cost") :].splitlines() if "Warning" not in line]
    assert max(map(len, told)) <= 110, max(told, key=len)


def test_no_rows_are_no_trouble() -> None:
    rates = dict.fromkeys("abc", 0)
    overload = bd.Overload(1, state_rows=1)
    for plan in ("mjoin", "linear"):
        found = lines(query("abc", plan=plan, overload=overload), rates=rates)
        assert any("never fully busy, because nothing comes" in line for line in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": 0}, "keys must be 1 or more different values; got 0"),
        ({"keys": -3}, "keys must be 1 or more different values; got -3"),
        ({"keys": "many"}, "keys must be a number of different values; got 'many'"),
        ({"keys": True}, "keys must be a number of different values; got True"),
        ({"keys": float("nan")}, "got nan"),
        ({"keys": {"a.k": 5}}, "keys must be one number, because there is one key"),
        ({"batch_period": "0 s"}, "batch_period must be above zero; got '0 s'"),
        ({"batch_period": 5}, "explain: batch_period must be a duration"),
        ({"rates": {"x": 1}}, "no stream 'x'; known: 'a', 'b', 'c'"),
        ({"rates": {"a": -1}}, "must be 0 or more rows a second; got -1"),
        ({"rates": None, "keys": 5}, "keys says nothing without rates"),
        ({"rates": None, "batch_period": "1 s"}, "batch_period says nothing without rates"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bd.BraidedError, match=message.replace("(", r"\(")):
        query("abc").explain(**{"rates": RATES, **options})


def test_keys_of_columns_that_join_nothing_are_refused() -> None:
    asked = bd.JoinQuery([bd.Stream(n, time="t", window="1 s") for n in "ab"], on=[("a.x", "b.x")])
    with pytest.raises(bd.BraidedError, match=r"no column 'a\.y' is joined; did you mean 'a\.x'"):
        asked.explain(rates={"a": 1}, keys={"a.y": 5})
    with pytest.raises(bd.BraidedError, match=r"keys must give a number for a\.x = b\.x, too"):
        asked.explain(rates={"a": 1}, keys={})


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("BRAIDED_CACHE_DIR", str(tmp_path))
    around.around_costs.cache_clear()
    yield tmp_path
    around.around_costs.cache_clear()


def test_costs_around_the_index_are_measured_once(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "machine_costs", Costs)
    first = around.around_costs()
    assert first.batch > 1000  # a microsecond
    assert min(first.row, first.result) >= 0
    (file,) = elsewhere.glob("engine-costs-*.json")
    monkeypatch.setattr(around, "measure", lambda: pytest.fail("measured again"))
    around.around_costs.cache_clear()
    assert around.around_costs() == first
    assert file.exists()


def test_a_query_alone_needs_no_numpy() -> None:
    """Chapters are imported when they are asked for."""
    code = (
        "import sys, braided as bd; bd.JoinQuery([bd.Stream('a', 'k'), bd.Stream('b', 'k')]).explain(); "
        "assert not {'numpy', 'numba', 'pyarrow', 'pyspark'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
