"""Joins tested step by step, the way they run: push, check, save, restore, continue.

>>> import braided as bd
>>> query = bd.JoinQuery([
...     bd.Stream("a", key="k", time="t", window="10 us"),
...     bd.Stream("b", key="k", time="t", window="10 us"),
... ])
>>> run_script(
...     query,
...     push(a=[{"k": 1, "t": 0}], b=[{"k": 2, "t": 0}]),
...     expect_results(),
...     snapshot(),
...     push(b=[{"k": 1, "t": 5}]),
...     expect_results({"a_k": 1, "result_time": 5}),
...     restore(),
...     push(b=[{"k": 1, "t": 6}]),
...     expect_results({"a_k": 1, "result_time": 6}),
...     expect_state(a=1, b=2),
... )
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from braided.local.local_join import LocalJoin
from braided.query.join_query import JoinQuery
from braided.testing.oracle import Row, bag

Rows: TypeAlias = Sequence[Row] | pa.Table | pa.RecordBatch


@dataclass
class Run:
    """A script under way: the join, results not yet expected, the last snapshot."""

    join: LocalJoin
    schemas: Mapping[str, pa.Schema]
    results: list[pa.Table] = field(default_factory=list)
    saved: bytes | None = None


Step: TypeAlias = Callable[[Run], None]


def run_script(query: JoinQuery, *steps: Step, schemas: Mapping[str, pa.Schema] | None = None) -> None:
    """Run the steps; an expectation that fails raises AssertionError naming its step."""
    run = Run(LocalJoin(query, schemas=schemas), schemas or {})
    for number, step in enumerate(steps, start=1):
        try:
            step(run)
        except AssertionError as failed:
            raise AssertionError(f"step {number} ({step.__name__}): {failed}") from failed


def push(**streams: Rows) -> Step:
    """Push rows, given as tables or as lists of dicts."""

    def do_push(run: Run) -> None:
        batch = {name: _table(rows, run.schemas.get(name)) for name, rows in streams.items()}
        run.results.append(run.join.push(batch))

    return do_push


def end() -> Step:
    """Declare all streams ended."""

    def do_end(run: Run) -> None:
        run.results.append(run.join.end())

    return do_end


def expect_results(*rows: Row) -> Step:
    """Expect these results since the last such step, compared on the columns given."""

    def do_expect_results(run: Run) -> None:
        tables = [t for t in run.results if t.num_rows]
        run.results = []
        columns = list(rows[0]) if rows else []
        got = bag(pa.concat_tables(tables).select(columns)) if tables and columns else Counter()
        number = sum(t.num_rows for t in tables)
        wanted = bag(pa.Table.from_pylist(list(rows))) if rows else Counter()
        shown = [row for t in tables for row in t.slice(0, 3).to_pylist()][:3]
        assert number == len(rows), f"expected {len(rows)} results; got {number}: {shown}"
        assert got == wanted, f"expected {dict(wanted)}; got {dict(got)}"

    return do_expect_results


def expect_state(**rows: int) -> Step:
    """Expect the streams to hold these numbers of rows."""

    def do_expect_state(run: Run) -> None:
        held = {name: run.join.stats().streams[name].live_rows for name in rows}
        assert held == rows, f"expected rows held {rows}; got {held}"

    return do_expect_state


def expect_late(**rows: int) -> Step:
    """Expect these numbers of late rows since the last such step."""

    def do_expect_late(run: Run) -> None:
        late = run.join.late()
        got = {name: late[name].num_rows if name in late else 0 for name in rows}
        assert got == rows, f"expected late rows {rows}; got {got}"

    return do_expect_late


def snapshot() -> Step:
    """Save the state."""

    def do_snapshot(run: Run) -> None:
        run.saved = run.join.snapshot()

    return do_snapshot


def restore() -> Step:
    """Continue from the saved state, in a new join."""

    def do_restore(run: Run) -> None:
        assert run.saved is not None, "restore() needs a snapshot() before it"
        run.join = LocalJoin(run.join.query).restore(run.saved)

    return do_restore


def _table(rows: Rows, schema: pa.Schema | None) -> pa.Table | pa.RecordBatch:
    return rows if isinstance(rows, pa.Table | pa.RecordBatch) else pa.Table.from_pylist(list(rows), schema)
