"""What a query did, as one HTML file: numbers, plots, adaptations, the plan; no script, nothing external."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from xml.etree.ElementTree import tostring

from braided.query.errors import InvalidValue
from braided.view.charts import charts_of, latest_adaptations, summary
from braided.view.page import asset
from braided.view.records import JOURNAL, Journal, Record, ViewFailed, os_errors, usual_journal
from braided.view.svg import figure
from braided.view.words import moment, span

REPORT = "report.html"
_ADAPTATIONS = 50


def report(records: Sequence[Record], query_text: str, to: Path) -> Path:
    """Write the report of these batches to a file; `query_text` is what `explain` says of the query."""
    page = Template(asset("report.html")).substitute(
        style=asset("style.css"),
        when=escape(_when(records)),
        batches="\n".join(_batches(records)),
        query=f"<h2>The query</h2>\n<pre>{escape(query_text)}</pre>" if query_text else "",
    )
    with os_errors(lambda why: ViewFailed(f"{to}: the report cannot be written ({why})")):
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(page, encoding="utf-8")
    return to


def report_of(path: Path, to: Path | None = None) -> Path:
    """Write the report of a journal, or of the one in a folder or in a job's checkpoint.

    It goes beside the journal by default.
    """
    journal = next((j for j in (path / JOURNAL, usual_journal(path)) if j.is_file()), path)
    if not journal.is_file():
        raise InvalidValue(
            f"{path} is no journal, nor a folder with a {JOURNAL}, nor the checkpoint of a job; "
            "name one of them (braided run keeps a journal, and so does watch with journal=...)"
        )
    records, about = Journal(journal).read(), Journal(journal).about()
    if not records and not about:
        raise InvalidValue(f"{journal} holds no batch: it is empty, or no journal")
    return report(records, about, to or journal.with_name(REPORT))


def _batches(records: Sequence[Record]) -> Iterator[str]:
    if not records:
        yield '<p class="why">No batch was finished: there is nothing to report yet.</p>'
        return
    yield '<dl class="tiles">'
    for name, value in summary(records):
        yield f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
    yield '</dl>\n<main class="charts">'
    for chart in charts_of(records):
        yield tostring(figure(chart), encoding="unicode", method="html")
    yield "</main>"
    yield from _adaptations(records)


def _when(records: Sequence[Record]) -> str:
    if not records:
        return "report"
    began, ended = records[0].when - records[0].seconds, records[-1].when
    return f"{moment(began)} to {moment(ended)} UTC, {span(ended - began)}"


def _adaptations(records: Sequence[Record]) -> Iterator[str]:
    total = sum(len(r.adaptations) for r in records)
    if not total:
        return
    more = f", the latest {_ADAPTATIONS} of {total:,}" if total > _ADAPTATIONS else ""
    yield f"<h2>Adaptations{more}</h2>\n<ol>"
    for batch, text in latest_adaptations(records, _ADAPTATIONS):
        yield f"<li><b>batch {batch}</b>{escape(text)}</li>"
    yield "</ol>"
