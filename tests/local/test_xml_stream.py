"""XML streams: the paper's figures, any cut of the bytes, every kind of text, and every kind of damage."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import braided as bd
from braided.local.xml_stream import XmlRows, read_xml
from braided.query.errors import InvalidType, InvalidValue

FIGURE_2 = b"""
<stream:NewsGeneral>
  <info>
    <sno> 79 </sno>
    <title> Cashless society gets mixed reviews </title>
    <keyword> Smart Card </keyword>
  </info>
"""
FIGURE_3 = b"""
<stream:AccessRecord>
  <record>
    <sno> 79 </sno>
    <ipaddr> 64.58.76.224 </ipaddr>
  </record>
  <record>
    <sno> 81 </sno>
    <ipaddr>207.68.172.234</ipaddr>
  </record>
  <record>
    <sno> 79 </sno>
    <ipaddr> 202.112.39.8 </ipaddr>
  </record>
  <punct:record>
    <sno> 79 </sno>
    <ipaddr> * </ipaddr>
  </punct:record>
"""
NEWS = pa.schema({"sno": pa.int64(), "title": pa.string(), "keyword": pa.string()})
ACCESS = pa.schema({"sno": pa.int64(), "ipaddr": pa.string()})
TEXT = pa.schema({"a": pa.string()})


def table(data: bytes, schema: pa.Schema, **options: Any) -> pa.Table:
    batches = list(read_xml(io.BytesIO(data), schema, **options))
    return pa.Table.from_batches(batches, None if batches else schema)


def texts(inside: str, *, head: str = "", encoding: str = "utf-8") -> list[str | None]:
    """The column `a` of a document with one record."""
    document = f"{head}<s><record>{inside}</record></s>".encode(encoding)
    return list(table(document, TEXT)["a"].to_pylist())


def fed(data: bytes, step: int, schema: pa.Schema) -> pa.Table:
    rows = XmlRows(schema)
    return pa.Table.from_batches([rows.feed(data[n : n + step]) for n in range(0, len(data), step)])


def test_the_papers_figures() -> None:
    assert table(FIGURE_2, NEWS, record="info", punctuation=None).to_pylist() == [
        {"sno": 79, "title": "Cashless society gets mixed reviews", "keyword": "Smart Card"}
    ]
    assert table(FIGURE_3, ACCESS).to_pydict() == {
        "sno": [79, 81, 79, 79],
        "ipaddr": ["64.58.76.224", "207.68.172.234", "202.112.39.8", None],
        "punctuation": [False, False, False, True],
    }


def test_the_papers_example_join() -> None:
    """Two results for item 79; its punctuation leaves nothing but the access record of item 81."""
    access = table(FIGURE_3, ACCESS)
    closed = access.filter(access["punctuation"])["sno"].to_pylist()
    records = access.filter(pa.compute.invert(access["punctuation"])).drop_columns("punctuation")
    query = bd.JoinQuery([bd.Stream("news", key="sno"), bd.Stream("access", key="sno")])
    news = table(FIGURE_2, NEWS, record="info", punctuation=None)
    found = bd.run_local(query, {"news": news, "access": records})
    pairs = zip(found["news_keyword"].to_pylist(), found["access_ipaddr"].to_pylist(), strict=True)
    assert sorted(pairs) == [("Smart Card", "202.112.39.8"), ("Smart Card", "64.58.76.224")]
    assert [n for n in news["sno"].to_pylist() if n not in closed] == []
    assert [n for n in records["sno"].to_pylist() if n not in closed] == [81]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_rows_do_not_depend_on_how_bytes_are_cut(step: int) -> None:
    document = FIGURE_3 + "<record><sno>82</sno><ipaddr>ü &amp; <![CDATA[<&>]]> 語</ipaddr></record>".encode()
    document += b"</stream:AccessRecord>"
    assert fed(document, step, ACCESS) == table(document, ACCESS)
    assert fed(document, step, ACCESS)["ipaddr"][4].as_py() == "ü & <&> 語"


def test_a_row_comes_out_with_its_last_byte() -> None:
    rows = XmlRows(TEXT)
    assert rows.feed(b"<s><record><a>1</a></record").num_rows == 0
    assert rows.feed(b">").num_rows == 1
    assert rows.feed(b"").num_rows == 0


@pytest.mark.parametrize("batch_rows", [1, 2, 7, 99, 100, 101])
def test_batches_have_the_size_asked_for(batch_rows: int) -> None:
    document = b"<s>" + b"".join(b"<record><a>%d</a></record>" % n for n in range(100)) + b"</s>"
    batches = list(read_xml(io.BytesIO(document), TEXT, batch_rows=batch_rows))
    assert {b.num_rows for b in batches[:-1]} <= {batch_rows}
    assert [a for b in batches for a in b["a"].to_pylist()] == [str(n) for n in range(100)]


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("<a>x</a>", "x"),
        ("<a>\n\t x y \r\n</a>", "x y"),
        ("<a>\u00a0x</a>", "\u00a0x"),
        ("<a>1 &lt; 2 &amp;&#33; &#x8a9e;</a>", "1 < 2 &! 語"),
        ("<a><![CDATA[<b> & ]]>c</a>", "<b> & c"),
        ("<a>x<!-- <a>no</a> -->y<?no way?></a>", "xy"),
        ("<a>x<b>y<a>z</a></b>!</a>", "xyz!"),
        ("<b>no</b><a at='no'>x</a><c><a>no</a></c>", "x"),
        ("<a>*</a>", "*"),
        ("<a/>", ""),
        ("<b/>", None),
        ("", None),
    ],
)
def test_a_columns_text(inside: str, text: str | None) -> None:
    assert texts(inside) == [text]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "iso-8859-15"])
def test_encodings(encoding: str) -> None:
    head = f"<?xml version='1.0' encoding='{encoding}'?>"
    assert texts("<a>ü</a>", head=head, encoding=encoding) == ["ü"]


def test_a_doctype_may_declare_entities_but_not_elsewhere() -> None:
    assert texts("<a>&x;!</a>", head="<!DOCTYPE s [<!ENTITY x 'yes'>]>") == ["yes!"]
    with pytest.raises(InvalidValue, match=r"XML: record 1: entity &x; is declared in another file"):
        texts("<a>&x;</a>", head="<!DOCTYPE s SYSTEM 'other.dtd'>")


@pytest.mark.parametrize("where", ["SYSTEM 'file:///etc/hostname'", "PUBLIC 'a' 'http://localhost/a'"])
def test_an_external_entity_is_refused(where: str) -> None:
    """One that the document itself declares was left out, and nothing was said: "a&x;b" was "ab"."""
    head = f"<!DOCTYPE s [<!ENTITY x {where}><!ENTITY y 'in &x;'>]>"
    for text in ("a&x;b", "a&y;b"):
        with pytest.raises(
            InvalidValue, match=r"record 1: an entity has its text in another file, '(file|http)"
        ):
            texts(f"<a>{text}</a>", head=head)
    with pytest.raises(InvalidValue, match="external entity"):
        texts("<a t='&x;'>b</a>", head=head)
    assert texts("<a>ab</a>", head=head) == ["ab"]


def test_rows_are_children_of_the_root_only() -> None:
    document = (
        b"<s><x><record><a>no</a></record></x>no<record><a>yes</a><record><a>no</a></record></record></s>"
    )
    assert table(document, TEXT)["a"].to_pylist() == ["yes"]


def test_a_record_with_a_prefix_has_the_same_punctuation() -> None:
    document = b"<s><n:info><a>1</a></n:info><punct:info><a>*</a></punct:info><info><a>no</a></info></s>"
    assert table(document, TEXT, record="n:info")["punctuation"].to_pylist() == [False, True]


def test_punctuations_can_be_left_out_or_named() -> None:
    assert table(FIGURE_3, ACCESS, punctuation=None).column_names == ["sno", "ipaddr"]
    assert table(FIGURE_3, ACCESS, punctuation=None).num_rows == 3
    assert table(FIGURE_3, ACCESS, punctuation="closed")["closed"].to_pylist() == [False, False, False, True]


def test_texts_become_what_the_schema_says() -> None:
    given = {
        "int8": "-7", "float64": "1e3", "bool": "true", "date32": "2026-01-31", "binary": "ü",
        "us": "2026-01-31T12:00:00.000001Z", "plain": "2026-01-31 12:00:00", "decimal": "12.50",
    }  # fmt: skip
    kinds = {
        "int8": pa.int8(), "float64": pa.float64(), "bool": pa.bool_(), "date32": pa.date32(),
        "binary": pa.binary(), "us": pa.timestamp("us", "UTC"), "plain": pa.timestamp("us"),
        "decimal": pa.decimal128(10, 2),
    }  # fmt: skip
    inside = "".join(f"<{name}> {text} </{name}>" for name, text in given.items())
    empty = "".join(f"<{name}/>" for name in given)
    document = f"<s><record>{inside}</record><record>{empty}</record></s>".encode()
    read = table(document, pa.schema(kinds), punctuation=None)
    assert read.schema == pa.schema(kinds)
    for name, kind in kinds.items():
        again = pa.array([given[name], "" if name == "binary" else None]).cast(kind)
        assert read[name].combine_chunks() == again


@pytest.mark.parametrize("bad", [0, 1, 49, 99])
def test_a_text_that_does_not_fit(bad: int) -> None:
    rows = [f"<record><a>{n if n != bad else 'a dozen'}</a></record>" for n in range(100)]
    document = f"<s>{''.join(rows)}</s>".encode()
    with pytest.raises(InvalidValue) as refused:
        list(read_xml(io.BytesIO(document), pa.schema({"a": pa.int64()}), batch_rows=50))
    assert str(refused.value) == (
        f"XML: record {bad + 1}, column 'a': must be int64; got 'a dozen'; "
        "correct the text, or read the column as a string"
    )


def test_a_time_without_its_zone() -> None:
    document = b"<s><record><a>2026-01-31 12:00:00</a></record></s>"
    with pytest.raises(InvalidValue, match="with a zone, as 2026-01-31T12:00:00Z; got '2026-01-31 12:00:00'"):
        table(document, pa.schema({"a": pa.timestamp("us", "UTC")}))


def test_a_null_where_the_schema_allows_none() -> None:
    document = b"<s><record><a>1</a></record><record/></s>"
    with pytest.raises(InvalidValue, match="record 2, column 'a': must not be null"):
        table(document, pa.schema([pa.field("a", pa.string(), nullable=False)]))


def test_a_column_that_comes_twice() -> None:
    document = b"<s><record><a>1</a></record><record><a>1</a><a/></record></s>"
    with pytest.raises(InvalidValue, match="XML: record 2: column 'a' must be there once; got it twice"):
        table(document, TEXT)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (b"<s>\n<record><a>1</b></record></s>", "line 2, column 15: mismatched tag"),
        (b"<s><record><a>1 & 2</a></record></s>", "line 1, column 18: not well-formed"),
        (b"<s><record><a>&nbsp;</a></record></s>", "line 1, column 15: undefined entity"),
        (b"<s><record><a>\xff</a></record></s>", "line 1, column 15: not well-formed"),
        (b"<s></s>\n<s></s>", "line 2, column 1: junk after document element"),
        (b"sno,ipaddr\n79,64.58.76.224\n", "line 1, column 1: (syntax error|not well-formed)"),
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_damage_has_a_place(document: bytes, place: str, step: int) -> None:
    with pytest.raises(InvalidValue, match=f"XML: damaged at {place}.*; correct the document"):
        fed(document, step, TEXT)


def test_damage_stays() -> None:
    rows = XmlRows(TEXT, name="access.xml")
    for _ in range(2):
        with pytest.raises(
            InvalidValue, match=r"access.xml: damaged at line 1, column 31.*; whole records before it: 1"
        ):
            rows.feed(b"<s><record><a>1</a></record></oh>")


@pytest.mark.parametrize("length", range(0, len(FIGURE_3), 10))
def test_an_unfinished_document_gives_its_whole_rows(length: int) -> None:
    whole = FIGURE_3[:length].count(b"</record>") + FIGURE_3[:length].count(b"</punct:record>")
    assert table(FIGURE_3[:length], ACCESS).num_rows == whole


def test_wrong_arguments_are_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidValue, match="batch_rows must be at least 1"):
        read_xml("nowhere.xml", TEXT, batch_rows=0)
    with pytest.raises(InvalidValue, match=r"must differ, punctuation's too; got \['a', 'a'\]"):
        read_xml("nowhere.xml", TEXT, punctuation="a")
    with pytest.raises(InvalidType, match="record must be the name"):
        read_xml("nowhere.xml", TEXT, record="")
    with pytest.raises(InvalidType, match="column 'a': text cannot be made list<item: int8>"):
        read_xml("nowhere.xml", pa.schema({"a": pa.list_(pa.int8())}))


def test_paths_and_packed_files(tmp_path: Path) -> None:
    (tmp_path / "access.xml").write_bytes(FIGURE_3)
    (tmp_path / "access.xml.gz").write_bytes(gzip.compress(FIGURE_3))
    expected = table(FIGURE_3, ACCESS)
    for name in ("access.xml", "access.xml.gz"):
        assert pa.Table.from_batches(read_xml(tmp_path / name, ACCESS)) == expected
        assert pa.Table.from_batches(read_xml(str(tmp_path / name), ACCESS)) == expected


class Endless(io.RawIOBase):
    """A stream of so many chunks, made as they are read."""

    def __init__(self, chunks: int, chunk: bytes) -> None:
        self._left: Iterator[bytes] = iter([b"<s>", *[chunk] * chunks])

    def read(self, size: int = -1) -> bytes:
        return next(self._left, b"")


def most_bytes(chunks: int, chunk: bytes) -> int:
    tracemalloc.start()
    for _ in read_xml(Endless(chunks, chunk), ACCESS, batch_rows=1000):  # type: ignore[arg-type]
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("wrapped", [b"%s", b"<other>%s</other>"])
def test_memory_does_not_grow_with_the_document(wrapped: bytes) -> None:
    chunk = wrapped % (b"<record><sno>1</sno><ipaddr>64.58.76.224</ipaddr></record>\n" * 500)
    assert most_bytes(100, chunk) < 1.2 * most_bytes(10, chunk)
