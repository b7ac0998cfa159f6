"""A query in plain words: what joins, how long rows stay, what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from braided.query.durations import to_text
from braided.query.explain.warnings import warnings
from braided.query.plan_tree import Plan, intermediates, label

if TYPE_CHECKING:
    from braided.query.explain.expected_state import ExpectedState
    from braided.query.join_query import JoinQuery
    from braided.query.overload import Overload
    from braided.query.stream import Stream

_NEXT, _LAST = "├─ ", "└─ "


def explain(
    query: JoinQuery, state: ExpectedState | None, layout: Iterable[str] = (), chapters: Iterable[str] = ()
) -> str:
    """Describe the plan in words and as a tree, then what else is known of it, then warnings."""
    equal = "keys" if query.on is None else "values in these columns"
    keyed = "" if query.keyless else f" with equal, non-null {equal}"
    lines = [
        f"Join of {len(query.streams)} streams, {_equal(query) or 'without a key'}.",
        f"A result is one row of each {'required ' if query.kinds.optional else ''}stream{keyed}"
        + (", inside every bound below." if query.windowed else "; time does not limit it."),
        "",
        *_tree(query, query.tree),
        "",
        *_optional(query),
        *_conditions(query),
        _output(query),
        _policies(query),
        *_overload(query),
        *_memory(query),
        *layout,
        *(state.lines() if state else ()),
        *chapters,
        *(f"Warning: {warning}." for warning in (*warnings(query), *(state.warnings() if state else ()))),
    ]
    return "\n".join(lines)


def _equal(query: JoinQuery) -> str:
    """Say what must be equal."""
    if query.on is not None:
        return ", ".join(f"{a} = {b}" for a, b in query.on)
    keys = {s.name: ", ".join(s.key_columns) for s in query.streams if s.key}
    return " = ".join(f"{name}.{f'({key})' if ', ' in key else key}" for name, key in keys.items())


def _tree(query: JoinQuery, node: Plan, before: str = "", branch: str = "") -> Iterator[str]:
    """Draw a node and what is below it."""
    if isinstance(node, str):
        stay = _stay(query, query.streams[query.names.index(node)])
        yield f"{before}{branch}{node}: {'; '.join(stay)}"
        return
    inner = f"{before}{'   ' if branch == _LAST else '│  ' if branch else ''}"
    yield f"{before}{branch}{_operator(query, node)}"
    for i, child in enumerate(node):
        yield from _tree(query, child, inner, _LAST if i == len(node) - 1 else _NEXT)


def _operator(query: JoinQuery, node: tuple[Plan, ...]) -> str:
    if query.flat:
        return "mjoin (one operator; each stream's new rows probe the others)"
    made = "results" if node == query.tree else "rows are stored, and forgotten with the first of their parts"
    return f"{label(node)} on {' and '.join(query.graph.equalities(node)) or 'no key'}: {made}"


def _stay(query: JoinQuery, stream: Stream) -> Iterator[str]:
    stay_us, count = query.stay_us(stream), stream.count_window
    if count:
        yield f"a row stays until {count.rows} newer rows of its {count.per} came"
    elif stay_us is None:
        yield "a row stays until it can join no more" if query.promises else "a row stays forever"
    if stay_us is not None:
        yield f"a row is forgotten {to_text(stay_us)} after its {stream.time}"
    if query.windowed:
        yield f"rows may come {to_text(stream.lateness_us)} out of order"
    named = "key" if query.on is None else " and ".join(stream.key_columns)
    if stream.unique:
        yield f"{'keys' if query.on is None else f'values of {named}'} are unique (promised)"
    if stream.arrival != "any":
        yield f"rows come {stream.arrival}{'' if query.on is None else f' by {named}'} (promised)"
    if stream.flag is not None:
        ranged = f"all {'keys' if query.on is None else f'values of {named}'} up to its {stream.upto}"
        yield f"a row with {stream.flag} closes {f'its {named}' if stream.upto is None else ranged}"


_KINDS = {
    "left": "with every partner of {0}; null where there is none",
    "semi": "only if there is a partner of {0}, once, without its columns",
    "anti": "only if there is no partner of {0}",
    "full": "with every partner of {0}, null where there is none; and {0} alone where it has no partner",
}


def _optional(query: JoinQuery) -> Iterator[str]:
    """Say what optional streams do to results, and when it is known that there is no partner."""
    core = " and ".join(query.kinds.core)
    for name in query.kinds.optional:
        stream = query.streams[query.names.index(name)]
        if stream.as_of is not None:
            none = "null where there is none" if stream.how == "left" else "not at all without one"
            newest = f"the newest row of {name}, at most {stream.as_of.age} older (ties together)"
            yield f"as of: a row of {core} comes with {newest}; {none}"
        else:
            yield f"{stream.how}: a row of {core} comes {_KINDS[stream.how].format(name)}"
        if stream.how == "semi":
            continue
        late_us = query.bounds.deadline_us(query.names.index(name))
        when = "at the end"
        if late_us is not None:
            when = f"once the watermark {f'is {to_text(late_us)} after' if late_us else 'has passed'} it"
        earlier = f"{', ' if late_us is not None else ', or '}earlier if {name} closes the key"
        what = "that there is none" if stream.as_of is None else "which one"
        yield f"  {what} is known {when}{earlier if stream.promises and query.promises else ''}"
    if query.kinds.late and len(query.kinds.optional) > 1:
        yield "  nothing comes before that"


def _conditions(query: JoinQuery) -> Iterator[str]:
    for (first, second), (low, high) in query.pairs:
        yield f"within: {second} comes from {low} to {high} after {first}"
    if query.where is not None:
        yield f"where: {query.where}"
    if any(s.promises for s in query.streams) and not query.promises:
        why = "windows count rows" if query.counts else "streams have no key"
        yield f"What streams promise is not used, because {why}."
    yield from _closing(query)
    if query.counts:
        yield "Results wait until the watermark has passed them, because windows count rows."


def _closing(query: JoinQuery) -> Iterator[str]:
    """Say which streams close the values of which columns, where there are several keys."""
    for attribute in query.graph.attributes if query.promises and query.on is not None else ():
        having = dict.fromkeys(name for name, _ in attribute)
        closing = [s.name for s in query.streams if attribute in query.promised(s)]
        silent = [name for name in having if name not in closing]
        by = f"closed by {', '.join(closing)}" if closing else "never closed"
        never = f", not by {', '.join(silent)}" if closing and silent else ""
        yield f"promises: values of {' = '.join(f'{s}.{c}' for s, c in attribute)} are {by}{never}"


def _output(query: JoinQuery) -> str:
    selected = query.selected or ()
    columns = ", ".join(f"{name} (from {stream}.{column})" for name, stream, column in selected)
    timed = ", result_time (the newest time)" if any(s.time for s in query.streams) else ""
    return f"output: {columns or 'all columns as <stream>_<column>'}{timed}"


def _memory(query: JoinQuery) -> Iterator[str]:
    memory = query.memory
    if memory is None:
        return
    when = "whenever that gives more results than memory" if memory.state_manager else "at the end"
    if memory.flush != "adaptive-global":
        when = "at the end" if memory.flush == "state-spill" else "when streams are silent, and at the end"
    groups = f"{1 << memory.group_bits} groups of keys"
    yield f"memory: exact; at most {memory.limit_bytes:,} bytes of state, in {groups}"
    yield f"  groups go to disk by {memory.flush}, {memory.flush_share:.0%} of the limit at a time at least"
    if memory.owed_within is not None:
        when += f", {memory.owed_within} after it came at the latest"
    complete = "every batch ends with all of its results"
    yield f"  {complete if memory.defer is False else f'what waits on disk is joined {when}'}"


def _which(query: JoinQuery, overload: Overload) -> str:
    """Say what "jaqpot" is here, and why."""
    if overload.rule != "jaqpot":
        return ""
    if query.flat:
        return " (best paths first: one operator joins all streams)"
    if overload.intermediate_rows is None:
        return " (which is least-loss: intermediates expire with their rows; intermediate_rows changes that)"
    return " (the paper's: freshness first, then best paths)"


def _overload(query: JoinQuery) -> Iterator[str]:
    overload = query.overload
    if overload is None:
        return
    yield "overload: lossy; results are a subset of the exact ones"
    if overload.rations:
        fitting = f"as many probes as fit into batches of {overload.target_batch}"
        budget = fitting if overload.probes is None else f"at most {overload.probes:,} probes per batch"
        yield f"  {budget}, rationed by {overload.rule}{_which(query, overload)}"
    for node in intermediates(query.tree):
        if (rows := overload.rows_of(node)) is not None:
            yield f"  {label(node)} holds its {rows:,} newest rows, and loses the others"
    for stream in query.streams:
        if stream.count_window is not None and stream.freshness_rows is not None:
            of = f"its {stream.count_window.per}"
            newer = f"{stream.freshness_rows:,} newer rows of {of}"
            yield f"  no row of {stream.name} in any result once {newer} have come"
        elif stream.freshness is not None:
            clock = "the wall clock" if overload.clock == "wall" else "the newest time seen"
            yield f"  no row of {stream.name} older than {stream.freshness} in any result, by {clock}"
    if overload.drops_input:
        fitting = f"as many rows as fit into batches of {overload.target_batch}"
        most = fitting if overload.probes is None else f"at most {overload.probes:,} rows per batch"
        yield f"  {most} are let in, shared by {overload.rule}"
    if overload.cuts_windows:
        most = f"{overload.state_rows or overload.state_bytes:,} {'rows' if overload.state_rows else 'bytes'}"
        made = "" if query.flat else ", those of intermediates included"
        yield f"  at most {most} are stored after a batch{made}"
        yield f"  windows are shortened to that by {overload.window_split}"


def _index(query: JoinQuery) -> str:
    if query.keyless:
        return "scan"
    of_each = [query.tuning.index_of(name) for name in query.names]
    if len(set(of_each)) == 1:
        return of_each[0]
    return ", ".join(f"{index} for {name}" for name, index in zip(query.names, of_each, strict=True))


def _policies(query: JoinQuery) -> str:
    tuning = query.tuning
    return (
        f"policies: driver stream by {tuning.driver_stream}, probe order by {tuning.probe_order}, "
        f"index {_index(query)}, {tuning.expiry} expiry (none of them changes the result)"
    )
