"""XML streams as Arrow record batches: records and punctuations, in the order of the document.

    <stream:AccessRecord>
      <record> <sno> 79 </sno> <ipaddr> 64.58.76.224 </ipaddr> </record>                a row
      <punct:record> <sno> 79 </sno> <ipaddr> * </ipaddr> </punct:record>               a punctuation
      ...

A row is a child of the root; its own children are columns. Text is cut at both ends. A child that is missing
is null, one the schema does not name is left out, and `*` in a punctuation (any value) is null. Names are
taken as they are written: prefixes need not be declared.

There is no tree: the parser calls back at every tag, and keeps the texts of rows not taken yet and
of one unfinished row. A row is complete at its end tag, wherever the bytes before it were cut, so nothing is
lost or doubled between two calls.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn, cast
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from braided.query.errors import InvalidType, InvalidValue

_CHUNK_BYTES = 1 << 16
_PREFIX = "punct:"
_SPACE = " \t\r\n"  # what is white space in XML
_ROW, _COLUMN = 2, 3  # how deep their tags are; the root's is 1


class XmlRows:
    """Bytes of one document in, whole rows out.

    `schema` names the columns and what their texts are cast to. `punctuation` names a boolean column that is
    added behind them, true in punctuations; None leaves punctuations out. `name` is what errors call the
    document. After damage every further `feed` raises the same error.

    Examples:
        >>> rows = XmlRows(pa.schema({"sno": pa.int64()}))
        >>> rows.feed(b"<s><record><sno> 79 </sno></record><punct:rec").to_pylist()
        [{'sno': 79, 'punctuation': False}]
        >>> rows.feed(b"ord><sno>79</sno></punct:record>").to_pylist()
        [{'sno': 79, 'punctuation': True}]
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        record: str = "record",
        punctuation: str | None = "punctuation",
        name: str = "XML",
    ) -> None:
        self.schema = _with_punctuation(schema, punctuation)
        self._columns = {field: _takes_texts(field) for field in schema}
        self._name = name
        self._document = _Document(schema.names, _kinds(record, punctuation))
        self._parser = _parser(self._document)
        self._given_rows = 0
        self._damage: str | None = None

    @property
    def waiting_rows(self) -> int:
        """The number of complete rows that wait for `take`."""
        return len(self._document.rows)

    def feed(self, data: bytes) -> pa.RecordBatch:
        """Parse more bytes and return the rows they complete, perhaps none."""
        self.parse(data)
        return self.take()

    def parse(self, data: bytes) -> None:
        """Parse more bytes; the rows they complete wait for `take`."""
        if self._damage is None:
            try:
                self._parser.Parse(data, False)
                return
            except expat.ExpatError as damage:
                what = expat.errors.messages.get(damage.code, str(damage.code))
                self._damage = (
                    f"damaged at line {damage.lineno:,}, column {damage.offset + 1:,}: {what}; correct the "
                    f"document; whole records before it: {self._given_rows + self.waiting_rows:,}"
                )
            except InvalidValue as refused:
                self._damage = f"record {self._given_rows + self.waiting_rows + 1:,}: {refused}"
        raise InvalidValue(f"{self._name}: {self._damage}")

    def take(self, rows: int | None = None) -> pa.RecordBatch:
        """Return the rows that wait, or the first `rows` of them."""
        taken = self._document.rows[:rows]
        flags = pa.array([self._document.kinds[tag] for tag, _ in taken], pa.bool_())
        columns = [
            self._converted(field, pa.array([texts[field.name] for _, texts in taken], pa.string()), flags)
            for field in self._columns
        ]
        if len(self.schema) > len(columns):
            columns.append(flags)
        del self._document.rows[: len(taken)]
        self._given_rows += len(taken)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def read(self, file: BinaryIO, batch_rows: int = 50_000) -> Iterator[pa.RecordBatch]:
        """Yield the rest of the document, `batch_rows` rows at a time, then what remains."""
        while chunk := file.read(_CHUNK_BYTES):
            self.parse(chunk)
            while self.waiting_rows >= batch_rows:
                yield self.take(batch_rows)
        if self.waiting_rows:
            yield self.take()

    def _converted(self, field: pa.Field, texts: pa.Array, punctuations: pa.Array) -> pa.Array:
        texts = pc.utf8_trim(texts, _SPACE)
        texts = pc.if_else(pc.and_(punctuations, pc.equal(texts, "*")), None, texts)
        if not self._columns[field]:
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
        if texts.null_count and not field.nullable:
            row = pc.index(texts.is_null(), True).as_py()
            raise self._refused(row, field, "must not be null, says the schema; make the column nullable")
        try:
            return texts.cast(field.type)
        except pa.ArrowInvalid:
            row = next(i for i in range(len(texts)) if not _fits(texts[i : i + 1], field.type))
            raise self._refused(row, field, _misfit(texts[row].as_py(), field.type)) from None

    def _refused(self, row: int, field: pa.Field, why: str) -> InvalidValue:
        record = self._given_rows + row + 1
        return InvalidValue(f"{self._name}: record {record:,}, column {field.name!r}: {why}")


def read_xml(
    source: str | os.PathLike[str] | BinaryIO,
    schema: pa.Schema,
    *,
    record: str = "record",
    punctuation: str | None = "punctuation",
    batch_rows: int = 50_000,
) -> Iterator[pa.RecordBatch]:
    """Yield a document's rows, `batch_rows` at a time, in memory that does not grow with it.

    `source` is a path (`.gz` and the like are unpacked) or a file open for reading bytes. A document that
    ends early is one that is still written: its whole rows come out.
    """
    if batch_rows < 1:
        raise InvalidValue(f"read_xml: batch_rows must be at least 1; got {batch_rows}")
    named = isinstance(source, str | os.PathLike)
    name = os.fspath(cast(Any, source)) if named else str(getattr(source, "name", "XML"))
    rows = XmlRows(schema, record=record, punctuation=punctuation, name=name)

    def opened() -> Iterator[pa.RecordBatch]:
        with pa.input_stream(name) if named else contextlib.nullcontext(cast(BinaryIO, source)) as file:
            yield from rows.read(file, batch_rows)

    return opened()


class _Document:
    """What the parser has met: the rows that are complete, each with its tag and the texts by column."""

    def __init__(self, columns: list[str], kinds: dict[str, bool]) -> None:
        self.kinds = kinds
        self.rows: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []  # of the text at hand; a column's holds that of tags inside it
        self._columns = columns
        self._depth = 0
        self._row: dict[str, str | None] | None = None
        self._column: str | None = None

    def start(self, tag: str, _: object) -> None:
        """Begin a row or a column, or something that is neither."""
        self._depth += 1
        if self._depth == _COLUMN and self._row is not None and tag in self._row:
            if self._row[tag] is not None:
                raise InvalidValue(f"column {tag!r} must be there once; got it twice; correct the document")
            self._column = tag
            self.parts.clear()
        elif self._depth == _ROW and tag in self.kinds:
            self._row = dict.fromkeys(self._columns)

    def end(self, tag: str) -> None:
        """Complete a column's text, or a row."""
        if self._row is not None and self._depth == _COLUMN and self._column is not None:
            self._row[tag] = "".join(self.parts)
            self._column = None
        elif self._row is not None and self._depth == _ROW:
            self.rows.append((tag, self._row))
            self._row = None
        if self._column is None:
            self.parts.clear()
        self._depth -= 1


def _parser(document: _Document) -> expat.XMLParserType:
    """Make a parser without namespaces (prefixes may be undeclared) that delivers every tag at once."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = document.start
    parser.EndElementHandler = document.end
    parser.CharacterDataHandler = document.parts.append
    parser.SkippedEntityHandler = _refuse_entity
    parser.ExternalEntityRefHandler = _refuse_external
    if hasattr(parser, "SetReparseDeferralEnabled"):
        parser.SetReparseDeferralEnabled(False)  # else the last row may wait for bytes that never come
    return parser


def _refuse_entity(name: str, _: object) -> None:
    raise InvalidValue(f"entity &{name}; is declared in another file, which is not read; write its text")


def _refuse_external(_context: object, _base: object, file: str | None, _public: object) -> NoReturn:
    """Without a handler the parser leaves such an entity out, and says nothing."""
    raise InvalidValue(f"an entity has its text in another file, {file!r}, which is not read; write its text")


def _kinds(record: str, punctuation: str | None) -> dict[str, bool]:
    """The tags of rows, and whether they are punctuations: those of `s:record` are `punct:record`."""
    if not record or not isinstance(record, str):
        raise InvalidType(f"record must be the name of an element; got {record!r}")
    kinds = {record: False}
    return kinds if punctuation is None else {_PREFIX + record.rpartition(":")[2]: True, **kinds}


def _with_punctuation(schema: pa.Schema, punctuation: str | None) -> pa.Schema:
    names = [*schema.names, *([] if punctuation is None else [punctuation])]
    if len(set(names)) < len(names):
        raise InvalidValue(f"the names of columns must differ, punctuation's too; got {names}")
    return schema if punctuation is None else schema.append(pa.field(punctuation, pa.bool_()))


def _takes_texts(field: pa.Field) -> bool:
    """Return whether an empty text stays a value in this column; for a number it is null."""
    try:
        pa.array([], pa.string()).cast(field.type)
    except pa.ArrowNotImplementedError:
        wrong = f"column {field.name!r}: text cannot be made {field.type}; read it as a string"
        raise InvalidType(wrong) from None
    return _fits(pa.array([""]), field.type)


def _fits(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _misfit(text: str, kind: pa.DataType) -> str:
    zone = " with a zone, as 2026-01-31T12:00:00Z" if getattr(kind, "tz", None) else ""
    return f"must be {kind}{zone}; got {text!r}; correct the text, or read the column as a string"
