"""What the parts of a query must be to each other, once each is right by itself.

A check yields problems: the option it is about, or a place inside it (`overload.state_rows`), and a sentence.
The first problem raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from braided.query import outer
from braided.query.durations import to_text
from braided.query.errors import InvalidValue, about, require_stream
from braided.query.plan_tree import intermediates, label
from braided.query.tuning import RowByRow, WholeBuffers
from braided.query.windows import UNBOUNDED

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream

Problems: TypeAlias = Iterator[tuple[str, str]]


def check(query: JoinQuery) -> None:
    """Raise if options do not go together."""
    for problems in (_key, _stream, _freshness):
        for stream in query.streams:
            for option, sentence in problems(query, stream):
                raise InvalidValue.of(stream.name, option, sentence)
    outer.check_streams(query)
    with about("plan"):
        query.graph.check(query.tree)
    with about("within"):
        _ = query.bounds
    _check_names(query)
    outer.check_whole(query)
    for place, sentence in _intermediates(query):
        raise InvalidValue(f"Overload: {sentence}", option="overload", position=(place,))
    for stream in query.streams:
        for place, sentence in chain(_tuning(query, stream), _overload(query, stream), _whole(query)):
            option, *position = place.split(".")
            raise InvalidValue(sentence, stream=stream.name, option=option, position=tuple(position) or None)


def streaming_problems(query: JoinQuery, *, staged: bool = False) -> Iterator[InvalidValue]:
    """Yield what streams lack to run on Spark, where they never end; at most one problem for each.

    What they promise about one of several keys is not used in stages.
    """
    promises = query.promises and (query.one_key or not staged)
    for stream in query.streams:
        for option, sentence in _streaming(query, stream, promises=promises):
            yield InvalidValue.of(stream.name, option, sentence)
            break


def _streaming(query: JoinQuery, stream: Stream, *, promises: bool) -> Problems:
    if stream.window is None and (stream.punctuation is None or not promises):
        remedy = f"give one, or write window={UNBOUNDED!r} if that is meant"
        yield "window", f"a streaming join needs a window, or its state grows forever; {remedy}"
    unbounded = stream.optional and query.bounds.deadline_us(query.names.index(stream.name)) is None
    ends = all(s.promises for s in ((*query.streams,) if query.kinds.full else (stream,))) and promises
    if unbounded and stream.how != "semi" and not ends:
        why = "without a bound a partner may always come, so a row without one could never be handed out"
        remedy = "give the required streams a window, or within, or say when a key is over (punctuation)"
        yield "how", f"how={stream.how!r}: {why}; {remedy}"
    if stream.lateness is None and query.windowed:
        meaning = "how far out of order rows may come; rows later than that are set aside"
        yield "lateness", f"a streaming join needs lateness, {meaning}; for example lateness='1 minute'"
    yield from _spread(stream)


def spread_problems(query: JoinQuery) -> Iterator[InvalidValue]:
    """Yield what cannot be where rows are spread over several engines, whether they end or not."""
    for stream in query.streams:
        for option, sentence in _spread(stream):
            yield InvalidValue.of(stream.name, option, sentence)


def _spread(stream: Stream) -> Problems:
    if stream.count_window is not None and stream.count_window.per == "stream":
        why = "needs all rows in one place and is not available on Spark"
        yield "window", f"a count window per stream {why}; use per='key'"


def _key(query: JoinQuery, stream: Stream) -> Problems:
    first = query.streams[0]
    if query.on is not None:
        yield from _promised_key(query, stream)
        return
    if query.keyless:
        if query.where is None:
            yield "key", "key is missing; name its key column (a join without any key needs where)"
    elif stream.key is None:
        yield "key", "key is missing; name its key column, or leave out all keys"
    elif len(stream.key) != len(first.key_columns):
        differ = f"it has {_columns(stream)}, stream {first.name!r} has {_columns(first)}"
        yield "key", f"{differ}; all streams need the same number of key columns"


def _promised_key(query: JoinQuery, stream: Stream) -> Problems:
    """Check that promises of a join with `on` are about columns that it joins, one for each attribute."""
    if not stream.promises or query.counts:
        return
    joined = query.graph.columns(stream.name)
    named = " or ".join(map(repr, joined))
    if stream.key is None:
        remedy = f"say which they are about: key={named}"
        yield "key", f"it promises something of its keys, and `on` joins it by several columns; {remedy}"
    for column in stream.key_columns:
        if column not in joined:
            why = f"promises are about columns that `on` joins, and key={column!r} is none of them"
            yield "key", f"{why}; use {named}"
    if len(query.promised(stream)) < len(stream.key_columns):
        yield "key", f"columns of key={stream.key!r} must be equal by `on`; name one of them"


def _columns(stream: Stream) -> str:
    names = stream.key_columns
    return f"{len(names)} key column{'s' if len(names) > 1 else ''} ({', '.join(names) or 'none'})"


def _stream(query: JoinQuery, stream: Stream) -> Problems:
    windowed = next((s for s in query.streams if s.window_us is not None or s.count_window or s.as_of), None)
    joined = query.graph.columns(stream.name)
    if stream.time is None and (windowed or query.within):
        why = f"stream {windowed.name!r} has a window" if windowed else "within bounds times"
        yield "time", f"time is missing; {why}, so every stream needs a time column"
    if stream.counts_keys and query.keyless:
        yield "window", "counting rows by key needs a key; use per='stream'"
    if stream.count_window is not None and query.memory is not None and not query.flat:
        why = "intermediates ask the rows of the stream, which may be on disk"
        remedy = "leave memory out, or use plan='mjoin' and one key"
        wrong = "memory does not go with a window that counts rows in a plan of several operators"
        yield "window", f"{wrong}: {why}; {remedy}"
    elif query.memory is not None and query.counts_apart(stream):
        why = f"its window counts rows by {joined!r}, and rows go to disk by {query.operator_key(stream)!r}"
        yield "window", f"memory needs one key for both: {why}; leave memory out, or use a time window"
    if stream.count_window is not None and query.memory is not None and not stream.counts_keys:
        why = "holds no more than these; rows go to disk by keys, and such a window does not know them"
        yield "window", f"memory goes with a window that counts rows by key; one of the stream's {why}"
    if stream.counts_keys and query.on is not None and (stream.key or joined) != joined:
        differ = f"its window counts rows by {stream.key!r}, but `on` joins it by {joined!r}"
        yield "key", f"{differ}; leave key out to count by these"
    if stream.upto is not None and len(stream.key_columns) != 1:
        yield "punctuation", f"a RangePunctuation needs a key of one column; it has {_columns(stream)}"


def _freshness(query: JoinQuery, stream: Stream) -> Problems:
    given, window_us, count = f"freshness={stream.freshness!r}", stream.window_us or 0, stream.count_window
    if stream.freshness is None:
        return
    if query.overload is None:
        yield "freshness", f"{given} only goes with overload; leave it out"
    if stream.time is None:
        yield "freshness", f"{given} needs a time column; give it time=..."
    if stream.freshness_us is not None and count is not None:
        yield "freshness", f"{given} is a time, and its window counts rows; give rows, at least {count.rows}"
    if stream.freshness_rows is not None and count is None:
        remedy = "give a duration such as '10 minutes', or a window that counts rows"
        yield "freshness", f"{given} counts rows, and its window does not; {remedy}"
    if stream.freshness_rows is not None and count is not None and stream.freshness_rows < count.rows:
        least = f"at least the window, {count.rows:,} rows"
        yield "freshness", f"{given} must be {least}; raise it, or shorten the window"
    if stream.freshness_us is not None and stream.freshness_us < window_us:
        least = f"at least the window, {to_text(window_us)}"
        yield "freshness", f"{given} must be {least}; raise it, or shorten the window"


def _check_names(query: JoinQuery) -> None:
    """Raise if `tuning` or `where` names a stream that the query does not have."""
    tuning, names = query.tuning, query.names
    indexes: Any = () if isinstance(tuning.index, str) else tuning.index
    for name, _ in indexes:
        with about("tuning", "index", name):
            require_stream(name, names, "Tuning: index")
    for name in chain.from_iterable(pair for pair, _ in tuning.selectivities):
        with about("tuning", "selectivities"):
            require_stream(name, names, "Tuning: selectivities")
    for name in dict(query.overload.weights or ()) if query.overload is not None else ():
        with about("overload", "weights", name):
            require_stream(name, names, "Overload: weights")
    with about("where"):
        for name, column in sorted(query.condition.columns() if query.condition is not None else ()):
            require_stream(name, names, f"where uses {name}.{column}")


def _tuning(query: JoinQuery, stream: Stream) -> Problems:
    index = query.tuning.index_of(stream.name)
    cannot = f"Tuning: index={index!r} cannot serve stream {stream.name!r}"
    alone = {names[0] for names, _ in query.tuning.selectivities if len(names) == 1}
    if index == "hash" and query.keyless:
        yield "tuning.index", f"{cannot}, which has no key; use 'auto'"
    if index == "scan" and stream.counts_keys:
        yield "tuning.index", f"{cannot}, whose window counts rows by key; use 'auto' or 'hash'"
    if alone and stream.name not in alone:
        some = f"Tuning: selectivities gives some streams' but not that of {stream.name!r}"
        yield "tuning.selectivities", f"{some}; give all or none"


def _overload(query: JoinQuery, stream: Stream) -> Problems:
    overload, named = query.overload, f"stream {stream.name!r}"
    if overload is None:
        return
    short = "state_rows" if overload.state_bytes is None else "state_bytes"
    if stream.count_window and (overload.drops_input or overload.cuts_windows):
        why = "rows that are dropped would keep others inside it, so results would be wrong"
        yield "overload", f"Overload: {named} has a window that counts rows; {why}; use a time window"
    if overload.cuts_windows and stream.time is None:
        yield f"overload.{short}", f"Overload: {short} needs a time column in {named}; give it time=..."
    by_window = not overload.cuts_windows and overload.rule.startswith("window")
    if by_window and query.stay_us(stream) is None:
        needs = f"Overload: allocation={overload.rule!r} needs a window for {named}"
        yield "overload.allocation", f"{needs}; give it one, or use 'equal'"


def _intermediates(query: JoinQuery) -> Problems:
    """Check that intermediates with a window of their own are some of the plan's."""
    overload = query.overload
    if overload is None or overload.intermediate_rows is None:
        return
    known = [label(node) for node in intermediates(query.tree)]
    timeless = [stream.name for stream in query.streams if stream.time is None]
    if timeless:
        why = f"rows are newest by their times, and stream {timeless[0]!r} has none; give it time=..."
        yield "intermediate_rows", f"intermediate_rows: {why}"
    if not known:
        why = "one operator joins all streams, so there are none; leave it out, or give a plan"
        yield "intermediate_rows", f"intermediate_rows are for intermediates, and {why} such as 'linear'"
    for node in () if isinstance(overload.intermediate_rows, int) else dict(overload.intermediate_rows):
        if node not in known:
            yield "intermediate_rows", f"the plan has no intermediate {node!r}; it has {', '.join(known)}"


def _whole(query: JoinQuery) -> Problems:
    driver = query.tuning.driver_stream
    if driver in get_args(RowByRow) and query.overload is not None and query.overload.rations:
        why = "which rows a rationed row meets would depend on the order they come in, and differ in a retry"
        remedy = f"use {', '.join(map(repr, get_args(WholeBuffers)))}, or shed='input'"
        says = f"driver_stream={driver!r} takes single rows, and probes are rationed (shed='probes')"
        yield "tuning.driver_stream", f"Tuning: {says}: {why}; {remedy}"
    if query.memory and query.overload:
        remedy = "give one of them (overload's state_rows bounds memory, too)"
        yield "memory", f"memory keeps results exact and overload does not; {remedy}"
    if query.memory and query.keyless:
        yield "memory", "memory needs a key: rows go to disk by slices of keys; give the streams one"
    if query.memory and query.promises and not query.one_key:
        remedy = "leave memory out, or let streams promise nothing (unique, arrival, punctuation)"
        why = "what is closed is looked for in all stored rows, and those on disk are not seen"
        yield "memory", f"memory does not go with promises about one of several keys: {why}; {remedy}"
    if query.emit_punctuations and (query.on is not None or not query.promises):
        promise = "a stream that is unique, punctuated, clustered or ordered"
        needs = f"{promise}, one key that all streams have and no window that counts rows"
        why = "nothing else tells when a key is complete"
        yield "emit_punctuations", f"emit_punctuations=True needs {needs}: {why}"
