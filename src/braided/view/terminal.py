"""A running query in the terminal; where there is none (a log file, a pipe), one line per batch.

Names of streams are the user's: they become `Text`, never markup, without control characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from braided.view.charts import Chart, latest_adaptations, plotted, table
from braided.view.follow import Show, each_new
from braided.view.records import Record
from braided.view.words import count, formatted, moment, plain, size, span

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH = 40


@contextmanager
def terminal(console: Console) -> Iterator[Show]:
    """What shows a query on a console: a live view, or lines if it is not a terminal."""
    if not console.is_terminal:
        yield each_new(lambda record: console.print(Text(line(record)), soft_wrap=True))
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda records, why: live.update(view(records, why), refresh=True)


def line(record: Record) -> str:
    """A batch in one line."""
    results = "?" if record.results is None else f"{record.results:,}"
    budget = "" if record.budget_bytes is None else f" of {size(record.budget_bytes)}"
    parts = (
        f"{moment(record.when)} batch {record.batch}: {record.rows:,} rows in",
        f"{results} results out",
        span(record.seconds),
        f"state {size(record.state_bytes)}{budget}",
        _behind(record),
        record.spilled_bytes and f"{size(record.spilled_bytes)} spilled",
        record.late_rows and f"{record.late_rows:,} late so far",
        record.driver_streams and f"driver streams {' > '.join(record.driver_streams)}",
        record.allowances and f"may probe: {_allowances(record)}",
    )
    return plain("; ".join([", ".join(str(part) for part in parts if part), *record.adaptations]))


def view(records: Sequence[Record], why: str) -> RenderableType:
    """Everything, for a terminal."""
    if not records:
        return Panel(_text(why, "italic"), title="braided", title_align="left")
    last = records[-1]
    return Panel(
        Group(_streams(last), Text(), _lines(records), Text(), _text(why, "italic")),
        title=Text(f"braided, batch {last.batch}, {moment(last.when)} UTC"),
        title_align="left",
    )


def _streams(last: Record) -> Table:
    titles, *rows = table(last)
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles:
        shown.add_column(title, justify="left" if title == titles[0] else "right")
    for name, *cells in rows:
        shown.add_row(Text(plain(name), style="bold"), *cells)
    return shown


def _lines(records: Sequence[Record]) -> Table:
    """Sparklines, and what was decided."""
    last = records[-1]
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column()
    for chart in plotted(records[-_WIDTH:]):
        if chart.series and (chart.stacked or not chart.by_name):
            shown.add_row(chart.title, _sparks(chart))
    adapted = [f"batch {batch}: {text}" for batch, text in latest_adaptations(records[-10 * _WIDTH :], 3)]
    facts = {
        "results": f"{last.total_results:,} in {last.batches:,} batch{'' if last.batches == 1 else 'es'}",
        "watermark": "" if last.watermark_us is None else f"{moment(last.watermark_us / 1e6)} UTC",
        "driver streams": " > ".join(last.driver_streams),
        "may probe": _allowances(last),
        "adaptations": "\n".join(adapted),
    }
    for name, fact in facts.items():
        if fact:
            shown.add_row(name, _text(fact))
    return shown


def _sparks(chart: Chart) -> Text:
    """The first line, or the sum of those that stand on each other."""
    lines = list(chart.series.values())
    points = zip(*(lines if chart.stacked else lines[:1]), strict=True)
    totals = [sum(v or 0 for v in point) if any(v is not None for v in point) else None for point in points]
    now = "?" if totals[-1] is None else formatted(totals[-1], chart.unit)
    limit = "" if chart.limit is None else f" of {formatted(chart.limit, chart.unit)}"
    return Text.assemble((sparkline(totals), "cyan"), f"  {now}{limit}")


def _text(lines: str, style: str = "") -> Text:
    return Text("\n".join(map(plain, lines.splitlines())), style=style)


def _behind(record: Record) -> str:
    lag_us, slowest = max(((s.lag_us or 0, name) for name, s in record.streams.items()), default=(0, ""))
    return f"{slowest} {span(lag_us / 1e6)} behind" if lag_us else ""


def _allowances(record: Record) -> str:
    budget = "" if record.probe_budget is None else f" (budget {count(record.probe_budget)})"
    allowed = ", ".join(f"{name} {count(n)}" for name, n in record.allowances.items())
    return allowed and allowed + budget


def sparkline(values: Sequence[float | None]) -> str:
    """Values as small bars, from zero; a gap where one is not known.

    >>> sparkline([0, 1, 2, None, 4])
    '▁▃▅ █'
    """
    top = max((v for v in values if v is not None), default=0) or 1
    return "".join(" " if v is None else _BARS[round(v / top * (len(_BARS) - 1))] for v in values)
