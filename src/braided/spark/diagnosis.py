"""Why is there no (or little) output? A few plain sentences, for three in the morning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pyspark.sql.streaming.query import StreamingQuery

from braided.policies.statistics import JoinMetrics
from braided.query.durations import to_text
from braided.spark.measures import metrics

_ROWS = {  # by the number of a stream that counts them
    "late_rows": "came too late; a larger lateness would let them in",
    "null_keys": "have no key (null), and join nothing",
    "null_times": "have no time (null), and join nothing",
    "shed_rows": "were not let in: overload shares its budget out; a larger one would let them in",
    "cut_rows": "were forgotten early, or did not enter, because of state_rows, state_bytes or freshness",
    "partial_punctuations": "are punctuations that also name a value of another column: they close nothing",
    "violations": "broke what it promises of its keys (unique, arrival, punctuation): left out",
}
_MANY_ENTRIES = 10_000  # of closed keys; fewer are no burden
_SLACK_S = 2.0  # of a deadline: a heartbeat and a batch
_UNITS_US = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000)


def why(streaming: StreamingQuery) -> str:
    """What keeps a join from producing, most telling first; one sentence a line."""
    if failed := streaming.exception():
        return f"The query has stopped with an error: {str(failed).splitlines()[0]}"
    return "\n".join(explain(metrics(streaming)))


def explain(seen: JoinMetrics) -> Iterator[str]:
    """The sentences that fit the metrics."""
    if not seen.batches:
        yield "No batch has been finished yet: the sources brought no rows, or the first one still runs."
        return
    batches = "batch" if seen.batches == 1 else "batches"
    yield f"{_counted(seen.results, 'result')} in {seen.batches:,} {batches} so far."
    yield from _sources(seen)
    yield from _rows(seen)
    yield from _closed(seen)
    if seen.unsettled_rows:
        waiting = _counted(seen.unsettled_rows, "row")
        closes = any(s.closed_keys or s.punctuations for s in seen.streams.values())
        when = f"once the watermark has passed{', or a stream has closed the key' if closes else ''}"
        yield f"{waiting} may still get partners; what comes without one comes {when}."
    yield from _half_joins(seen)
    yield from _rationing(seen)
    if rows := sum(s.spilled_rows for s in seen.streams.values()):
        waits = ""
        if seen.owed:
            waits = f"; about {seen.owed:,} combinations wait until they are merged"
            waits += f", the oldest since {seen.owed_seconds:.0f} s" if seen.owed_seconds else ""
        decision = f" ({seen.disk_decision})" if seen.disk_decision else ""
        yield f"{rows:,} rows do not fit into the memory budget and lie in cold groups{waits}{decision}."
    if seen.owed_within_seconds is not None and seen.owed_seconds > seen.owed_within_seconds + _SLACK_S:
        kept = f"owed_within={seen.owed_within_seconds:g} seconds is not kept: the oldest has waited"
        remedy = "merges take longer than there is time; give more memory, or a longer owed_within"
        yield f"{kept} {seen.owed_seconds:.0f} s; {remedy}."
    yield from _keys(seen)
    yield from _epochs(seen)


def _sources(seen: JoinMetrics) -> Iterator[str]:
    silent = [name for name, s in seen.streams.items() if not s.rows_in]
    for name in silent:
        nothing = "nothing can join, and nothing is forgotten, until it does"
        yield f"Stream {name!r} has not brought a single row: {nothing}; look at its source."
    for name in seen.idle:
        yield f"Stream {name!r} is idle: it holds the watermark no more; rows it brings late are set aside."
    lags = {name: lag for name, lag in seen.lag_us.items() if lag and name not in seen.idle}
    if lags and not silent:
        slowest = max(lags, key=lags.__getitem__)
        behind = f"its newest row is {_about(lags[slowest])} older than the newest of all"
        yield f"Stream {slowest!r} is furthest behind: {behind}, so it holds the watermark back."


def _keys(seen: JoinMetrics) -> Iterator[str]:
    """Name the keys that are too much for one bucket."""
    for (name, key), share in seen.too_hot.items():
        brings = f"Key {key} brings about {100 * share:.0f} % of the rows of stream {name!r}"
        yield f"{brings}; unless it is spread (hot_keys=, or resume=), one bucket has them all."
    if seen.hottest_key_share > seen.hot_share and not seen.too_hot:
        share_text = f"about {100 * seen.hottest_key_share:.0f} % of the rows"
        yield f"One key brings {share_text}; all of them go to one bucket, which takes longest."


def _epochs(seen: JoinMetrics) -> Iterator[str]:
    """Say which epochs live beside the newest."""
    for epoch, later in itertools.pairwise(seen.epochs):
        if seen.watermark_us is not None and epoch.passes_us is not None:
            left_us = epoch.passes_us - seen.watermark_us
            when = f"in {_about(left_us)} of event time" if left_us > 0 else "now, and goes at the next start"
            changed = f" ({'; '.join(later.changes)})" if later.changes else ""
            holds = f"epoch {epoch.number} still holds {epoch.live_rows:,} rows"
            yield f"The query has changed{changed}: {holds}; it ends {when}."


def _rows(seen: JoinMetrics) -> Iterator[str]:
    for name, s in seen.streams.items():
        for counted, words in _ROWS.items():
            if count := getattr(s, counted):
                share = 100 * count / max(1, s.rows_in)
                percent = f"{share:.0f} %" if share >= 1 else "under 1 %"
                yield f"{_counted(count, 'row')} ({percent}) of stream {name!r} {words}."


def _closed(seen: JoinMetrics) -> Iterator[str]:
    """Say where what is remembered of closed keys is more than the rows that are held."""
    held = sum(s.live_rows + s.spilled_rows for s in seen.streams.values())
    for name, s in seen.streams.items():
        if s.closed_entries > max(_MANY_ENTRIES, held):
            much = f"Stream {name!r} is closed for {s.closed_keys:,} keys; {held:,} rows are held"
            until = "a key is remembered, and written in every batch, until all streams have closed it"
            yield f"{much}: {until}; let the others close theirs (punctuation=), or give a window."


def _rationing(seen: JoinMetrics) -> Iterator[str]:
    rationing = seen.rationing
    if rationing is None:
        return
    if rationing.problem:
        yield f"Overload: {rationing.problem}."
    if seen.exact_again is None:
        most = "" if rationing.budget is None else f": at most {rationing.budget:,} probes a batch"
        reason = f"; {rationing.reason}" if rationing.reason else ""
        yield f"Probes are rationed, so results are missing now{most}{reason}."
    if rationing.results_lost:
        again = "" if seen.exact_again is None else f"; all is exact again since batch {seen.exact_again}"
        yield f"About {rationing.results_lost:,} results were lost to rationed probes since the start{again}."


def _half_joins(seen: JoinMetrics) -> Iterator[str]:
    for (probing, probed), h in seen.half_joins.items():
        if h.probes >= 100 and not h.same_key and not seen.half_joins[probed, probing].same_key:
            if probing < probed:
                vain = f"{h.probes:,} look-ups met no row with the same key"
                ask = "are the key columns the right ones, in the same form?"
                yield f"Keys of {probing!r} and {probed!r} never overlap: {vain}; {ask}"
        elif h.same_key >= 100 and not h.matches:
            met = f"{h.same_key:,} rows of {probed!r} with their key, but all outside the windows"
            ask = "are the windows long enough, and the time columns the right ones?"
            yield f"Rows of {probing!r} find {met}; {ask}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _about(us: int) -> str:
    """A duration in one unit: minutes up to two hours, hours up to two days."""
    unit = next((unit for unit in _UNITS_US if us >= 2 * unit), 1)
    return to_text(us // unit * unit)
