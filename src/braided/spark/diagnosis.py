"""Why is there no (or little) output? A few plain sentences, for three in the morning."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.streaming.query import StreamingQuery

from braided.policies.statistics import JoinMetrics
from braided.query.durations import to_text
from braided.spark.measures import metrics


def why(streaming: StreamingQuery) -> str:
    """What keeps a join from producing, most telling first; one sentence a line."""
    failed = streaming.exception()
    if failed is not None:
        first = str(failed).splitlines()[0]
        return f"The query has stopped with an error: {first}"
    seen = metrics(streaming)
    lines = list(explain(seen))
    return "\n".join(lines or ["Nothing looks wrong: rows come in, keys meet inside the windows."])


def explain(seen: JoinMetrics) -> Iterator[str]:
    """The sentences that fit the metrics."""
    if not seen.batches:
        yield (
            "No batch has been finished yet: the sources brought no rows, or the first batch is still "
            "running."
        )
        return
    yield f"{_number(seen.results, 'result')} in {_number(seen.batches, 'batch', 'batches')} so far."
    yield from _sources(seen)
    yield from _rows(seen)
    yield from _half_joins(seen)
    yield from _rationing(seen)
    yield from _spilled(seen)
    if seen.hottest_key_share > max(0.1, 2 / max(1, seen.buckets)):
        yield (
            f"One key brings about {100 * seen.hottest_key_share:.0f} % of the rows; all of them go to one "
            "bucket, which takes longest."
        )


def _sources(seen: JoinMetrics) -> Iterator[str]:
    silent = [name for name, s in seen.streams.items() if not s.rows_in]
    for name in silent:
        yield (
            f"Stream {name!r} has not brought a single row: nothing can join, and nothing is forgotten, "
            "until it does; look at its source."
        )
    lags = {name: lag for name, lag in seen.lag_us.items() if lag}
    if lags and not silent:
        slowest = max(lags, key=lambda name: lags[name] or 0)
        yield (
            f"Stream {slowest!r} is furthest behind: its newest row is {_about(lags[slowest] or 0)} older "
            "than the newest of all, so it holds the watermark back."
        )


def _rows(seen: JoinMetrics) -> Iterator[str]:
    for name, s in seen.streams.items():
        for count, words in (
            (s.late_rows, "came too late; a larger lateness would let them in"),
            (s.null_keys, "have no key (null), and join nothing"),
            (s.null_times, "have no time (null), and join nothing"),
            (s.shed_rows, "were not let in: overload shares its budget out; a larger one would let them in"),
            (s.cut_rows, "were forgotten early to keep to state_rows; results with them are lost"),
            (
                s.violations,
                "broke what it promises of its keys (unique, arrival, punctuation): left out",
            ),
        ):
            if count:
                share = 100 * count / max(1, s.rows_in)
                percent = f"{share:.0f} %" if share >= 1 else "under 1 %"
                yield f"{_number(count, 'row')} ({percent}) of stream {name!r} {words}."


def _rationing(seen: JoinMetrics) -> Iterator[str]:
    if seen.rationing is None:
        return
    if seen.rationing.problem:
        yield f"Overload: {seen.rationing.problem}."
    if seen.exact_again is None:
        budget = seen.rationing.budget
        yield (
            "Probes are rationed, so results are missing now"
            + (f": at most {budget:,} probes a batch" if budget is not None else "")
            + (f"; {seen.rationing.reason}" if seen.rationing.reason else "")
            + "."
        )
    if seen.rationing.results_lost:
        again = "" if seen.exact_again is None else f"; all is exact again since batch {seen.exact_again}"
        yield (
            f"About {seen.rationing.results_lost:,} results were lost to rationed probes since the start"
            f"{again}."
        )


def _spilled(seen: JoinMetrics) -> Iterator[str]:
    rows = sum(s.spilled_rows for s in seen.streams.values())
    if rows:
        yield (
            f"{rows:,} rows do not fit into the memory budget and lie in cold groups"
            + (f"; about {seen.owed:,} combinations wait until they are merged" if seen.owed else "")
            + (f" ({seen.disk_decision})" if seen.disk_decision else "")
            + "."
        )


def _half_joins(seen: JoinMetrics) -> Iterator[str]:
    for (probing, probed), h in seen.half_joins.items():
        if h.probes >= 100 and not h.same_key and not _meets(seen, probed, probing):
            if probing < probed:
                yield (
                    f"Keys of {probing!r} and {probed!r} never overlap: {h.probes:,} look-ups found no row "
                    "with the same key; are the key columns the right ones, in the same form?"
                )
        elif h.same_key >= 100 and not h.matches:
            yield (
                f"Rows of {probing!r} find {h.same_key:,} rows of {probed!r} with their key, but all outside "
                "the windows; are the windows long enough, and the time columns the right ones?"
            )


def _number(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _meets(seen: JoinMetrics, probing: str, probed: str) -> bool:
    return bool(seen.half_joins[probing, probed].same_key)


def _about(us: int) -> str:
    """A duration in one unit: minutes up to two hours, hours up to two days."""
    for least, unit in (
        (2 * 86_400_000_000, 86_400_000_000),
        (2 * 3_600_000_000, 3_600_000_000),
        (2 * 60_000_000, 60_000_000),
        (1_000_000, 1_000_000),
        (1_000, 1_000),
    ):
        if us >= least:
            return to_text(us // unit * unit)
    return to_text(us)
