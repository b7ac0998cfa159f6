"""The news workload: the paper's grammar, its example, and a way there and back through XML."""

from __future__ import annotations

import io
import time
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.local.xml_stream import read_xml
from braided.query.errors import InvalidValue
from braided_lab import news
from braided_lab.news import News

EXAMPLE = "9,12,5,11,7,4,12,6,4,7,3,12,P(3),5,11,10,7,4,7,4,9,12,P(4),8"  # section 6.1
SIZES = [News(0), News(1), News(7, 1, top=1), News(500, 2.5), News(2000, 20, top=3), News(30, 100)]


def example() -> pa.Table:
    words = EXAMPLE.split(",")
    flags = [w.startswith("P") for w in words]
    addresses = [None if flag else f"10.0.0.{n}" for n, flag in enumerate(flags)]
    return pa.table({"sno": [int(w.strip("P()")) for w in words], "ipaddr": addresses, "punctuation": flags})


def is_grammatical(access: pa.Table) -> bool:
    """Whether nothing of an item comes behind its punctuation."""
    closed: set[int] = set()
    for sno, flag in zip(access["sno"].to_pylist(), access["punctuation"].to_pylist(), strict=True):
        if sno in closed:
            return False
        closed |= {sno} if flag else set()
    return True


def most_distinct(access: pa.Table) -> int:
    """The most items between two punctuations."""
    flags = access["punctuation"].to_numpy()
    parts = np.split(access["sno"].to_numpy(), np.flatnonzero(flags))
    return max(len(set(part[1:] if n else part)) for n, part in enumerate(parts))


def xml(table: pa.Table, **names: Any) -> bytes:
    file = io.StringIO()
    news.write_xml(table, file, **names)
    return file.getvalue().encode()


def again(table: pa.Table, schema: pa.Schema, *, punctuation: str | None, **names: Any) -> pa.Table:
    record = names.get("record", "record")
    read = read_xml(io.BytesIO(xml(table, **names)), schema, record=record, punctuation=punctuation)
    return pa.Table.from_batches(read, table.schema)


def test_the_papers_example_stream() -> None:
    read = again(example(), news.ACCESS, punctuation="punctuation", root="AccessRecord")
    assert read == example()
    assert is_grammatical(read)
    assert most_distinct(read) == 8
    counts = Counter(read.filter(pc.invert(read["punctuation"]))["sno"].to_pylist())
    assert counts == {3: 1, 4: 4, 5: 2, 6: 1, 7: 4, 8: 1, 9: 2, 10: 1, 11: 2, 12: 4}


def test_an_item_behind_its_punctuation_is_noticed() -> None:
    late = pa.table({"sno": [3], "ipaddr": ["10.0.0.9"], "punctuation": [False]})
    assert not is_grammatical(pa.concat_tables([example(), late]))


@pytest.mark.parametrize("workload", SIZES)
def test_the_generated_stream_follows_the_papers_grammar(workload: News) -> None:
    made = news.tables(workload, seed=3)
    access, items = made["access"], made["news"]["sno"].to_pylist()
    assert access.schema == news.ACCESS.append(pa.field("punctuation", pa.bool_()))
    assert made["news"].schema == news.NEWS
    assert items == list(range(1, workload.items + 1))
    assert access.num_rows == workload.access_records + workload.items
    assert is_grammatical(access)
    assert most_distinct(access) <= workload.top
    assert access.filter(access["punctuation"])["sno"].to_pylist() == items
    assert set(access["sno"].to_pylist()) == set(items)
    assert access["ipaddr"].is_null().to_pylist() == access["punctuation"].to_pylist()


def test_records_of_the_top_items_come_in_random_order() -> None:
    access = news.tables(News(20_000, 20), seed=1)["access"]
    assert most_distinct(access) == 10
    counts = Counter(access["sno"].to_pylist())
    middle = [counts[n] - 1 for n in range(11, 990)]
    assert np.mean(middle) == pytest.approx(20, rel=0.03)
    assert np.std(middle) == pytest.approx(20**0.5, rel=0.1)


def test_arrival() -> None:
    ordered = news.tables(News(5000), seed=2)
    anyhow = news.tables(News(5000, arrival="random"), seed=2)
    nearly = news.tables(News(5000, arrival="random", shuffle=30), seed=2)
    for other in (anyhow, nearly):
        assert other["access"] == ordered["access"]
        assert other["news"].sort_by("sno") == ordered["news"]
    moved = [np.abs(t["news"]["sno"].to_numpy() - np.arange(1, 501)).max() for t in (ordered, anyhow, nearly)]
    assert moved[0] == 0
    assert moved[1] > 300
    assert 5 < moved[2] < 30


def test_a_seed_gives_the_same_streams_again() -> None:
    workload = News(300, arrival="random")
    assert news.tables(workload, seed=5) == news.tables(workload, seed=5)
    assert news.tables(workload, seed=5) != news.tables(workload, seed=6)


@pytest.mark.parametrize("workload", SIZES)
def test_there_and_back_through_xml(workload: News) -> None:
    made = news.tables(workload, seed=4)
    items, access = made["news"], made["access"]
    assert again(items, news.NEWS, punctuation=None, root="NewsGeneral", record="info") == items
    assert again(access, news.ACCESS, punctuation="punctuation", root="AccessRecord") == access


def test_xml_looks_as_in_the_papers_figures() -> None:
    access = pa.table(
        {"sno": [79, 79, 80], "ipaddr": ["a < b & c", None, None], "closed": [False, True, False]}
    )
    assert xml(access, root="AccessRecord", punctuation="closed").decode() == (
        "<stream:AccessRecord>\n"
        "  <record>\n    <sno> 79 </sno>\n    <ipaddr> a &lt; b &amp; c </ipaddr>\n  </record>\n"
        "  <punct:record>\n    <sno> 79 </sno>\n    <ipaddr> * </ipaddr>\n  </punct:record>\n"
        "  <record>\n    <sno> 80 </sno>\n  </record>\n"
        "</stream:AccessRecord>\n"
    )


def test_every_access_record_joins_its_item() -> None:
    made = news.tables(News(2000, arrival="random"), seed=6)
    records = made["access"].filter(pc.invert(made["access"]["punctuation"]))
    query = bd.JoinQuery([bd.Stream("news", key="sno"), bd.Stream("access", key="sno")])
    assert bd.run_local(query, {"news": made["news"], "access": records}).num_rows == 2000


def test_a_million_access_records_take_well_under_a_second() -> None:
    news.tables(News(1000))
    began = time.process_time()
    assert news.tables(News(1_000_000))["access"].num_rows == 1_100_000
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"access_records": -1}, "access_records must be at least 0; got -1"),
        ({"top": 0}, "top must be at least 1; got 0"),
        ({"shuffle": 0}, "shuffle must be at least 1; got 0"),
        ({"records_per_item": 0}, "records_per_item must be more than 0; got 0"),
        ({"arrival": "any"}, "arrival must be one of 'ordered', 'random'; got 'any'"),
    ],
)
def test_wrong_workloads_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        News(**{"access_records": 10, **wrong})
