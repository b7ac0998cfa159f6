"""The chapters of `explain(rates=...)` on cost and on budgets, in words and small tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from braided.engine.calibration import machine_costs
from braided.engine.outlook import yields
from braided.engine.outlook.around import around_costs
from braided.engine.outlook.foreseen import Foreseen, unknown
from braided.engine.outlook.work import Direction, Work, most_times
from braided.engine.outlook.yields import Yield
from braided.policies import pacing
from braided.policies.flow import predict
from braided.query.durations import to_text, to_us
from braided.query.explain.chapters import Outlook
from braided.query.overload import Overload
from braided.query.plan_tree import Plan, label

_WIDEST = 30  # of a column with names


def cost(outlook: Outlook) -> Iterator[str]:
    """Say what a query costs on this machine, direction by direction, and when one core has enough."""
    if why := unknown(outlook):
        yield f"expected cost: not known, because of {why}"
        return
    work = _work(Foreseen(outlook))
    seconds = work.foreseen.batch_seconds
    yield f"expected cost on this machine, every row probing, in batches of {to_text(outlook.batch_us)}:"
    head = ("rows of", "probe", "probes/s", "found/s", "µs/s", "own index")
    yield from _table(head, [_direction(d, seconds) for d in work.directions], left=2)
    batches, rows, made = (ns / seconds / 1000 for ns in (work.batch_ns, work.rows_ns, work.made_ns))
    made_rows = math.fsum(work.flow.arrivals[op] for op in work.model.operators) / seconds
    results = work.flow.output / seconds
    inside = f", {_number(made_rows - results)}/s of them intermediate" if made_rows > results else ""
    yield f"  batches: {_number(batches)} µs/s; rows in and stored: {_number(rows)} µs/s"
    yield f"  rows made: {_number(made_rows)}/s{inside}: {_number(made)} µs/s"
    yield f"  results: {_number(results)}/s{_before_where(outlook)}"
    yield _busy(work)
    yield from _assumed(work.foreseen)


def overload(outlook: Outlook) -> Iterator[str]:
    """Say what each rule yields under a query's budgets."""
    budgets = outlook.state.query.overload
    if budgets is None:
        return
    if why := unknown(outlook):
        yield f"expected loss: not known, because of {why}"
        return
    foreseen = Foreseen(outlook)
    if budgets.drops_input:
        yield from _input(foreseen, budgets)
    elif budgets.rations:
        yield from _probes(foreseen, budgets)
    elif foreseen.model.caps:
        left, everything = yields.by_intermediates(foreseen), predict(foreseen.exact).output
        yield f"expected loss: windows of intermediates leave {_part(left, everything)} of the results"
    if budgets.cuts_windows:
        yield from _windows(foreseen, budgets)


def _work(foreseen: Foreseen) -> Work:
    return Work(foreseen, machine_costs(), around_costs())


# cost


def _direction(one: Direction, seconds: float) -> tuple[str, ...]:
    numbers = (one.probes / seconds, one.found / seconds, one.ns / seconds / 1000)
    return (
        _short(label(one.node)),
        _names(one.probed),
        *map(_number, numbers),
        "scan" if one.scanned else "hash",
    )


def _busy(work: Work) -> str:
    """How busy one core is, and at which rates it can do no more."""
    seconds = work.foreseen.batch_seconds
    busy, most = work.ns / (1e9 * seconds), most_times(work, seconds)
    rows = math.fsum(work.foreseen.rates.values()) / seconds
    full = f"fully busy at {_factor(most)} times these rates ({_number(most * rows)} rows a second)"
    if math.isinf(most):
        full = "never fully busy, because nothing comes"
    return f"  total: {busy:.2%} of one core, which is {full}"


def _factor(most: float) -> str:
    return f"{most:.2g}" if most < 10 else f"{most:,.0f}"


def _assumed(foreseen: Foreseen) -> Iterator[str]:
    """Say what the figures rest on."""
    query = foreseen.query
    if query.keyless:
        yield "  (assumed: where is true for every pair of rows inside the bounds)"
    elif foreseen.outlook.keys is None:
        numbers = {n for n in foreseen.keys.values() if n > 1} or {1.0}
        keys = " and ".join(_number(n) for n in sorted(numbers))
        yield f"  (assumed: {keys} different keys, as many as rows are stored; say how many with keys=)"
    yield "  (in this process, all keys as frequent, rows of a few numbers; Spark's own work comes on top)"


def _before_where(outlook: Outlook) -> str:
    return "" if outlook.state.query.where is None else " before where"


# budgets


def _probes(foreseen: Foreseen, budgets: Overload) -> Iterator[str]:
    budget, full = _budget(foreseen, budgets), predict(foreseen.exact)
    yield f"expected under {_asked(budget, budgets, 'probes')}, of {_number(full.spent)} that find all:"
    if full.spent <= budget and not foreseen.model.caps:
        yield f"  it is enough for all {_number(full.output)} results a batch, whatever the allocation"
        return
    plan, found = yields.freshness(foreseen, budget), yields.by_probes(foreseen, budget)
    yield from _yields(foreseen, ("allocation", "probes/batch"), found, budgets.rule)
    if plan is not None:
        yield "  (no result is older than asked; a state that starves holds too few fresh rows)"
        if problem := foreseen.freshening().problem(plan):
            yield f"  ({problem})"
    elif any(s.freshness is not None for s in foreseen.query.streams):
        yield "  (bounds on age cost nothing here: rows of intermediates expire with their parts)"


def _input(foreseen: Foreseen, budgets: Overload) -> Iterator[str]:
    budget, rows = _budget(foreseen, budgets), math.fsum(foreseen.rates.values())
    full = predict(foreseen.exact)
    yield f"expected under {_asked(budget, budgets, 'rows let in')}, of {_number(rows)} that come:"
    if rows <= budget:
        yield f"  it is enough for all {_number(full.output)} results a batch, whatever the allocation"
        return
    found = yields.by_input(foreseen, budget)
    yield from _yields(foreseen, ("allocation", "rows/batch"), found, budgets.rule)
    if budgets.cuts_windows:
        yield "  (this budget alone; with windows that are cut, too, the window- rules admit otherwise)"


def _windows(foreseen: Foreseen, budgets: Overload) -> Iterator[str]:
    query, given = foreseen.query, foreseen.outlook.state.row_bytes
    sizes = [given.get(name) for name in query.names] if budgets.state_bytes is not None else []
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        yield "expected under state_bytes: not known, because row_bytes is not given for every stream"
        return
    room, unit = float(budgets.state_rows or budgets.state_bytes or 0), "bytes" if known else "rows"
    yield f"expected under {room:,.0f} {unit} stored:"
    found = yields.by_windows(foreseen, room, known)
    yield from _yields(foreseen, ("window_split", unit), found, budgets.window_split)


def _budget(foreseen: Foreseen, budgets: Overload) -> float:
    """Probes, or rows, that a batch may have: given, or what fits into the target by the costs of here."""
    if budgets.probes is not None:
        return float(budgets.probes)
    assert budgets.target_batch is not None
    work, target = _work(foreseen), to_us(budgets.target_batch) / 1e6
    rows = math.fsum(foreseen.rates.values())
    if budgets.drops_input:  # fewer rows find less, and cost less each
        return max(1.0, rows * min(1.0, most_times(work, target)))
    fitting = pacing.budget(work.pace, target, round(rows))
    return math.inf if fitting is None else float(fitting)


def _asked(budget: float, budgets: Overload, unit: str) -> str:
    fits = f" (what fits into {budgets.target_batch} here)" if budgets.probes is None else ""
    return f"{_number(budget)} {unit} a batch{fits}"


def _yields(foreseen: Foreseen, head: tuple[str, str], found: Sequence[Yield], chosen: str) -> Iterator[str]:
    """A table of what rules yield, most results first."""
    best, full = yields.most(found, chosen), predict(foreseen.exact).output
    ranked = sorted(found, key=lambda y: (y is not best, -y.results))
    rows = [
        (
            y.rule,
            _number(y.results / foreseen.batch_seconds),
            _part(y.results, full),
            _number(y.used),
            _marks(y, best, chosen),
        )
        for y in ranked
    ]
    rule, used = head
    yield from _table((rule, "results/s", "of all", used, ""), rows, left=1)


def _marks(one: Yield, best: Yield, chosen: str) -> str:
    starves = f"starves {_names(one.starved)}" if one.starved else ""
    marks = ("most results" if one is best else "", "chosen" if one.rule == chosen else "", starves)
    return ", ".join(filter(None, marks))


# words and tables


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """Lines with the first columns, and the last, at the left, and numbers at the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            text.ljust(width) if i < left or not _numeric(rows, i) else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _numeric(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column][:1].isdigit() for row in rows)


def _number(value: float) -> str:
    """Write a number with as many digits as are of use.

    >>> _number(1234567.8), _number(12.34), _number(0.0123), _number(0)
    ('1,234,568', '12', '0.012', '0')
    """
    if math.isinf(value) or value > 1e15:
        return "endless" if math.isinf(value) else f"{value:.1e}"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def _part(value: float, whole: float) -> str:
    return f"{value / whole:.1%}" if whole > 0 else "-"


def _names(nodes: Iterable[Plan]) -> str:
    """Names in a row, or as many as there is room for."""
    names = [label(node) for node in nodes]
    text = ", ".join(names)
    return text if len(text) <= _WIDEST else f"{_short(names[0])[: _WIDEST - 12]} ... ({len(names)})"


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."
