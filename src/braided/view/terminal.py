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

from braided.view.follow import Newcomers, Show
from braided.view.records import Record
from braided.view.words import count, moment, plain, size, span

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_ADAPTATIONS = 3


@contextmanager
def terminal(console: Console | None = None) -> Iterator[Show]:
    """What shows a query on a console: a live view, or lines if it is not a terminal."""
    console = console or Console()
    if not console.is_terminal:
        yield Lines(console).show
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda records, why: live.update(view(records, why), refresh=True)


class Lines:
    """One line per batch."""

    def __init__(self, console: Console) -> None:
        self._console, self._newcomers = console, Newcomers()

    def show(self, records: Sequence[Record], _: str) -> None:
        """Print what is new."""
        for record in self._newcomers.among(records):
            self._console.print(line(record), markup=False, highlight=False, emoji=False, soft_wrap=True)


def line(record: Record) -> str:
    """A batch in one line."""
    results = "?" if record.results is None else f"{record.results:,}"
    parts = [
        f"{moment(record.when)} batch {record.batch}: {record.rows:,} rows in",
        f"{results} results out",
        span(record.seconds),
        f"state {_state(record)}",
    ]
    if behind := _behind(record):
        parts.append(behind)
    if record.spilled_bytes:
        parts.append(f"{size(record.spilled_bytes)} spilled")
    if record.late_rows:
        parts.append(f"{record.late_rows:,} late so far")
    if record.driver_streams:
        parts.append(f"driver streams {' > '.join(record.driver_streams)}")
    if record.allowances:
        parts.append(f"may probe: {_allowances(record)}")
    return plain(", ".join(parts) + "".join(f"; {a}" for a in record.adaptations))


def view(records: Sequence[Record], why: str) -> RenderableType:
    """Everything, for a terminal."""
    if not records:
        return Panel(_why(why), title="braided", title_align="left")
    last = records[-1]
    parts: list[RenderableType] = [_streams(last), Text(), _lines(records)]
    return Panel(
        Group(*parts, Text(), _why(why)),
        title=Text(f"braided, batch {last.batch}, {moment(last.when)} UTC"),
        title_align="left",
    )


def _streams(last: Record) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stream")
    for title in ("rows/s", "rows", "late", "behind", "held", "bytes", "on disk"):
        table.add_column(title, justify="right")
    for name, s in last.streams.items():
        rate = "" if s.rows is None or not last.seconds else count(s.rows / last.seconds)
        behind = "" if s.lag_us is None else span(s.lag_us / 1e6)
        numbers = (rate, count(s.total_rows), count(s.late_rows), behind, count(s.live_rows))
        table.add_row(
            Text(plain(name), style="bold"), *numbers, size(s.live_bytes), count(s.spilled_rows) or ""
        )
    return table


def _lines(records: Sequence[Record]) -> Table:
    """Sparklines, and what was decided."""
    last, recent = records[-1], records[-_WIDTH:]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    out = last.results_per_second
    _add(table, "rows in/s", count(last.rows_per_second), [r.rows_per_second for r in recent])
    _add(table, "results/s", "?" if out is None else count(out), [r.results_per_second for r in recent])
    _add(table, "batch", span(last.seconds), [r.seconds for r in recent])
    _add(table, "state", _state(last), [float(r.state_bytes) for r in recent])
    if any(r.spilled_bytes for r in recent):
        _add(table, "spilled", size(last.spilled_bytes), [float(r.spilled_bytes) for r in recent])
    table.add_row(
        "results",
        Text(f"{last.total_results:,} in {last.batches:,} batch{'' if last.batches == 1 else 'es'}"),
    )
    if last.watermark_us is not None:
        table.add_row("watermark", Text(f"{moment(last.watermark_us / 1e6)} UTC"))
    if last.driver_streams:
        table.add_row("driver streams", Text(plain(" > ".join(last.driver_streams))))
    if last.allowances:
        table.add_row("may probe", Text(plain(_allowances(last))))
    for number, adapted in enumerate(_adapted(records)):
        table.add_row("" if number else "adaptations", Text(plain(adapted)))
    return table


def _add(table: Table, name: str, now: str, values: Sequence[float | None]) -> None:
    table.add_row(name, Text.assemble((sparkline(values), "cyan"), "  ", now))


def _adapted(records: Sequence[Record]) -> list[str]:
    """The latest adaptations, newest first."""
    said = [f"batch {r.batch}: {a}" for r in records[-10 * _WIDTH :] for a in r.adaptations]
    return said[: -_ADAPTATIONS - 1 : -1]


def _why(why: str) -> Text:
    return Text("\n".join(plain(sentence) for sentence in why.splitlines()), style="italic")


def _state(record: Record) -> str:
    held = size(record.state_bytes)
    return held if record.budget_bytes is None else f"{held} of {size(record.budget_bytes)}"


def _behind(record: Record) -> str:
    lags = {name: s.lag_us for name, s in record.streams.items() if s.lag_us}
    if not lags:
        return ""
    slowest = max(lags, key=lambda name: lags[name] or 0)
    return f"{slowest} {span((lags[slowest] or 0) / 1e6)} behind"


def _allowances(record: Record) -> str:
    budget = "" if record.probe_budget is None else f" (budget {count(record.probe_budget)})"
    return ", ".join(f"{name} {count(n)}" for name, n in record.allowances.items()) + budget


def sparkline(values: Sequence[float | None]) -> str:
    """Values as small bars, from zero; a gap where one is not known.

    >>> sparkline([0, 1, 2, None, 4])
    '▁▃▅ █'
    """
    top = max((v for v in values if v is not None), default=0) or 1
    return "".join(" " if v is None else _BARS[round(v / top * (len(_BARS) - 1))] for v in values)
