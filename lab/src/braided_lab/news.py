"""An online news system's streams, generated: news items, and who read them, with punctuations. Seeded.

The workload of "MJoin: A Metadata-Aware Stream Join Operator" (sections 2 and 6.1). The `top` latest items
are monitored. When a new one is posted the oldest rolls out, and a punctuation says that no access record of
it will come any more:

    9, 12, 5, 11, 7, 4, 12, 6, 4, 7, 3, 12, P(3), 5, 11, 10, 7, ...        items 3 to 12, then 4 to 13, ...

So between two punctuations there are at most `top` distinct items, and none after its own. When the stream
ends the items that are left are closed by punctuations, oldest first: each item has exactly one.

| paper | here |
| --- | --- |
| NewsGeneral (sno, title, keyword) | `news`; sno is unique |
| AccessRecord (sno, ipaddr) | `access`; a punctuation is a row with `punctuation` true and a null `ipaddr` |
| "ordered" and "random" arrival | `arrival`: `news` by sno, or shuffled; `access` is the same in both |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.policies.arrays import Int64s
from braided.query.errors import InvalidValue, require_choice

Arrival = Literal["ordered", "random"]
KeyKind = Literal["serial", "scattered"]
NEWS = pa.schema({"sno": pa.int64(), "title": pa.string(), "keyword": pa.string()})
ACCESS = pa.schema({"sno": pa.int64(), "ipaddr": pa.string()})

_READERS = 10_000
_SUBJECTS = (
    "Cashless society",
    "Fuel cell",
    "Space station",
    "Stem cell bill",
    "Broadband plan",
    "Hybrid car",
)
_VERBS = ("gets mixed reviews", "raises hopes", "is delayed", "passes its test", "draws a crowd & critics")
_KEYWORDS = ("Smart Card", "Energy", "Space", "Medicine", "Network", "Traffic")


@dataclass(frozen=True)
class News:
    """How much news, and how it arrives.

    `shuffle` is how far an item may come from its place when arrival is "random"; None is any distance, as
    the paper's "some random order with respect to the sno value" may be read. Serial numbers are neighbours;
    `scattered` ones are uniform over 64 bits, one for each serial number, in the same order of arrival.
    """

    access_records: int
    records_per_item: float = 10.0
    top: int = 10
    arrival: Arrival = "ordered"
    shuffle: int | None = None
    keys: KeyKind = "serial"

    def __post_init__(self) -> None:
        require_choice("News", "keys", self.keys, get_args(KeyKind))
        require_choice("News", "arrival", self.arrival, get_args(Arrival))
        for option, least in (("access_records", 0), ("top", 1), ("shuffle", 1)):
            value = getattr(self, option)
            if value is not None and value < least:
                raise InvalidValue(f"News: {option} must be at least {least}; got {value}")
        if not self.records_per_item > 0:
            raise InvalidValue(f"News: records_per_item must be more than 0; got {self.records_per_item}")

    @property
    def items(self) -> int:
        """How many news items there are; at first `top` of them are monitored."""
        return max(self.top, round(self.access_records / self.records_per_item))


def workload(given: Mapping[str, Any], records: int, stream: str) -> News:
    """The news of a lab's parameters, of one of their kinds of streams."""
    options = {"shuffle": given["shuffle"], **given["streams"][stream]}
    return News(records, given["records_per_item"], given["top"], **options)


def tables(workload: News, *, seed: int = 0) -> dict[str, pa.Table]:
    """Both streams, `news` and `access`, their rows in the order they arrive; sno counts from 1.

    >>> access = tables(News(access_records=5, records_per_item=3, top=1))["access"]
    >>> list(zip(access["sno"].to_pylist(), access["punctuation"].to_pylist()))
    [(1, False), (1, False), (1, False), (1, True), (2, False), (2, False), (2, True)]
    """
    news_rng, access_rng = np.random.default_rng(seed).spawn(2)
    made = {"news": _news(workload, news_rng), "access": _access(workload, access_rng)}
    if workload.keys == "scattered":
        made = {name: t.set_column(0, "sno", pa.array(_scattered(t["sno"]))) for name, t in made.items()}
    return made


def _scattered(serial: pa.ChunkedArray) -> Int64s:
    """Another number for each, as splitmix64 makes them: no two are the same."""
    mixed = serial.to_numpy().astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    scattered: Int64s = mixed.view(np.int64)
    return scattered


def _news(workload: News, rng: np.random.Generator) -> pa.Table:
    subject, verb, keyword = (rng.integers(0, len(w), workload.items) for w in (_SUBJECTS, _VERBS, _KEYWORDS))
    titles = pc.binary_join_element_wise(_words(_SUBJECTS, subject), _words(_VERBS, verb), " ")
    sno = np.arange(1, workload.items + 1)
    whole = pa.table([sno, titles, _words(_KEYWORDS, keyword)], schema=NEWS)
    return whole.take(pa.array(_arrival_order(workload, rng)))


def _arrival_order(workload: News, rng: np.random.Generator) -> Int64s:
    """The places of items in the order they arrive: none comes `shuffle` places or more from its own."""
    if workload.arrival == "ordered":
        return np.arange(workload.items)
    distance = workload.items if workload.shuffle is None else workload.shuffle
    if distance >= workload.items:
        return rng.permutation(workload.items)
    return np.argsort(np.arange(workload.items) + rng.uniform(0, distance, workload.items), kind="stable")


def _access(workload: News, rng: np.random.Generator) -> pa.Table:
    """A phase is as long as the same items are monitored; it ends with a punctuation of the oldest."""
    phases = workload.items - workload.top + 1
    records = rng.multinomial(workload.access_records, np.full(phases, 1 / phases))
    oldest = np.repeat(np.arange(1, phases + 1), records)
    monitored = oldest + rng.integers(0, workload.top, workload.access_records)
    ends = np.cumsum(records)
    before = np.concatenate([ends, np.full(workload.top - 1, workload.access_records)])
    places = before + np.arange(workload.items)  # of punctuations, one an item, in order of sno
    punctuation = np.zeros(workload.access_records + workload.items, bool)
    punctuation[places] = True
    sno = np.empty(len(punctuation), np.int64)
    sno[places], sno[~punctuation] = np.arange(1, workload.items + 1), monitored
    readers = pa.array(rng.integers(0, _READERS, len(sno)), mask=punctuation)
    columns = {"sno": sno, "ipaddr": _addresses(rng).take(readers), "punctuation": punctuation}
    return pa.table(columns)


def _addresses(rng: np.random.Generator) -> pa.Array:
    numbers = rng.integers(1, 255, (4, _READERS))
    return pc.binary_join_element_wise(*(pa.array(n).cast(pa.string()) for n in numbers), ".")


def _words(words: tuple[str, ...], picked: Int64s) -> pa.Array:
    return pa.array(words).take(pa.array(picked))


def write_xml(
    table: pa.Table, file: IO[str], *, root: str, record: str = "record", punctuation: str = "punctuation"
) -> None:
    """A table as in the paper's Figures 2 and 3: `write_xml(news, file, root="NewsGeneral", record="info")`.

    A null is `*` in a punctuation, and an element less in a record. Texts must not begin or end with white
    space, which is cut when they are read. All of the text is made at once: meant for small tables.
    """
    flagged = punctuation in table.column_names
    flags = table[punctuation] if flagged else pa.repeat(False, table.num_rows)
    prefix = pc.if_else(flags, "punct:", "")
    columns = [_elements(table[name], name, flags) for name in table.column_names if name != punctuation]
    begin = _joined("  <", prefix, f"{record}>\n")
    rows = _joined(begin, *columns, "  </", prefix, f"{record}>\n")
    file.write(f"<stream:{root}>\n{''.join(rows.to_pylist())}</stream:{root}>\n")


def _elements(values: pa.ChunkedArray, name: str, flags: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each value as a line of its own; a null one as `*` or as nothing."""
    texts = values.cast(pa.string())
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        texts = pc.replace_substring(texts, sign, entity)
    texts = pc.if_else(pc.and_(flags, texts.is_null()), "*", texts)
    return pc.fill_null(_joined(f"    <{name}> ", texts, f" </{name}>\n"), "")


def _joined(*parts: pa.ChunkedArray | str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(*parts, "")
