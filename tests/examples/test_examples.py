"""The examples: job files and scripts say the same, and results are those of the definition or of DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.jobs import load
from braided.testing import assert_same_bag, expected
from braided.testing.samples import shop
from braided_benchmarks import nexmark
from examples.ads import join as ads
from examples.ecommerce import join as ecommerce
from examples.news import join as news
from examples.nexmark import join as auctions
from examples.run_all import JOBS, environment
from examples.sensors import join as sensors
from tests.examples.oracles import DUCKDB, by_duckdb

ROOT = Path(__file__).parents[2] / "examples"
SMALL: dict[str, Callable[[Path], Any]] = {
    "ecommerce": lambda folder: ecommerce.main(folder, 60),
    "ads": lambda folder: ads.main(folder, 1000),
    "sensors": lambda folder: sensors.main(folder, folder, hours=0.2),
    "news": lambda folder: news.main(folder, 800),
    "nexmark": lambda folder: auctions.main(folder, 400),
}
WRITTEN: dict[str, Callable[[], bd.JoinQuery]] = {
    "ecommerce/job.yaml": ecommerce.shipped,
    "ecommerce/unpaid.yaml": ecommerce.unpaid,
    "ads/job.yaml": ads.attributed,
    "ads/unclicked.yaml": ads.unclicked,
    "sensors/job.yaml": sensors.query,
    "news/job.yaml": news.query,
    "nexmark/q3.yaml": auctions.q3,
    "nexmark/q8.yaml": auctions.q8,
    "nexmark/job.yaml": auctions.q23,
    "nexmark/chain.yaml": auctions.chain,
}


def test_all_job_files_are_known() -> None:
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*.yaml")}
    assert there == set(WRITTEN) == set(JOBS)
    assert {path.parent.name for path in ROOT.glob("*/join.py")} == set(SMALL)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_job_file_says_what_its_script_says_and_finds_what_it_writes(name: str, tmp_path: Path) -> None:
    SMALL[Path(name).parent.name](tmp_path / "data")
    job = load(ROOT / name, environment(tmp_path))
    assert job.query == WRITTEN[name]()
    assert "Warning" not in job.explain()
    for source in job.sources.values():
        assert source.path is not None
        assert any(Path(source.path).iterdir())


def test_without_variables_data_lies_beside_the_job_file() -> None:
    for name in WRITTEN:
        job = load(ROOT / name, {})
        places = [job.checkpoint, *(source.path for source in job.sources.values())]
        assert all(str(place).startswith(str((ROOT / name).parent)) for place in places)


def test_oracle_ecommerce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, made = ecommerce.main(tmp_path, 200), shop.tables(200)
    assert found["shipped"].num_rows > 50
    assert_same_bag(found["shipped"], expected(ecommerce.shipped(), made))
    wanted = expected(ecommerce.unpaid(), {name: made[name] for name in ("orders", "payments")})
    waiting = wanted.num_rows - found["unpaid"].num_rows
    assert 0 <= waiting < found["unpaid"].num_rows / 4
    known = found["unpaid"]["order"].to_pylist()
    assert_same_bag(found["unpaid"], wanted.filter(pc.is_in(wanted["order"], pa.array(known))))
    out = capsys.readouterr().out
    assert "1 payment came too late" in out
    assert f"{found['unpaid'].num_rows} orders of 20 or more were not paid" in out


def test_oracle_ads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, made = ads.main(tmp_path, 10_000), ads.tables(10_000)
    assert found["attributed"].num_rows > 10
    assert_same_bag(found["attributed"], expected(ads.attributed(), made))
    out = capsys.readouterr().out
    assert "the same without promises: True" in out
    alone, clicked = found["unclicked"]["impressions_id"].to_pylist(), set(made["clicks"]["id"].to_pylist())
    told = [upto for upto in made["clicks"]["upto"].to_pylist() if upto is not None]
    assert sorted(alone) == [i for i in range(max(told) + 1) if i not in clicked]
    assert f"{len(alone):,} impressions without a click; stored {10_000 - max(told) - 1} impressions" in out


def test_ads_forget_impressions_that_nobody_can_click_any_more() -> None:
    kept = {}
    for told in (True, False):
        live = bd.LocalJoin(ads.attributed(told=told))
        live.push(ads.tables(10_000))
        live.push({})
        kept[told] = live.stats().streams["impressions"].live_rows
    assert kept[True] * 10 < kept[False]


def test_oracle_sensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = sensors.main(tmp_path, tmp_path, hours=0.6)
    assert found.num_rows > 100
    assert_same_bag(found, expected(sensors.query(), sensors.tables(hours=0.6)))
    assert "not there: generated ones" in capsys.readouterr().out


def test_sensors_takes_the_real_readings_if_they_are_there(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    _pretend(lab)
    made = sensors.tables(lab, hours=1)
    assert {name: table["temperature"].to_pylist() for name, table in made.items()} == {
        "first": [3.0, 3.0, 3.0],  # of the mote that is heard most
        "second": [2.0, 2.0],
        "third": [1.0],
    }


def _pretend(folder: Path) -> None:
    """Four motes of one group; number n is heard n times an hour and says n degrees, number 0 is silent."""
    motes = [3, 3, 3, 2, 2, 1, 3]
    minutes = [0, 10, 20, 0, 30, 0, 70]
    readings = {
        "ts": pa.array([m * 60_000_000 for m in minutes]).cast(pa.timestamp("us", tz="UTC")),
        "moteid": pa.array(motes, pa.int16()),
        "temperature": pa.array(motes, pa.float32()),
    }
    pa.parquet.write_table(pa.table(readings), folder / "intel_lab.parquet")
    (folder / "intel_lab_groups.csv").write_text("group,moteid\nA,0\nA,1\nA,2\nA,3\n")


def test_oracle_news(tmp_path: Path) -> None:
    found = news.main(tmp_path, 2000)
    assert found.num_rows == 2000
    assert_same_bag(found, expected(news.query(), news.tables(2000)))


def test_news_keeps_nothing_at_the_end(tmp_path: Path) -> None:
    news.write(tmp_path, 500)
    live = bd.LocalJoin(news.query())
    for number in range(news.BATCHES):
        live.push(news.read(tmp_path, number))
    assert [stream.live_rows for stream in live.stats().streams.values()] == [0, 0]


@pytest.mark.parametrize("name", DUCKDB)
@pytest.mark.parametrize("batch_rows", [100, 1_000_000])
def test_oracle_nexmark_agrees_with_duckdb(name: str, batch_rows: int) -> None:
    streams, query = auctions.tables(6000), auctions.QUERIES[name]()
    found = bd.run_local(query, {n: streams[n] for n in query.names}, batch_rows=batch_rows)
    assert found.num_rows > 20
    assert_same_bag(found, by_duckdb(name, streams))


def test_nexmark_writes_each_stream_once(tmp_path: Path) -> None:
    auctions.main(tmp_path, 1000)
    rows = {n: pa.parquet.read_table(tmp_path / n).num_rows for n in nexmark.TIMES}
    assert rows == {"persons": 20, "auctions": 60, "bids": 920}


@pytest.mark.parametrize("name", SMALL)
def test_the_readme_shows_what_the_script_prints(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = (ROOT / name / "README.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    if name == "sensors":
        sensors.main(tmp_path, tmp_path)  # generated readings, also where real ones are
    else:
        {"ecommerce": ecommerce, "ads": ads, "news": news, "nexmark": auctions}[name].main(tmp_path)
    printed = capsys.readouterr().out
    for part in shown.split("...\n"):
        assert part in printed
