"""Does MJoin's state stay flat (Figure 10)? Runs of one length, and of twice that.

Within one finite run the state falls in the end whatever it does before: rows that wait find their partners,
and queues run empty. So flat means that a run twice as long has no larger peak; counts alone are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

import braided as bd
from braided.local.queues import scheduled
from braided_lab.metadata_measure import Feed, at_punctuations, news_query, run_mjoin
from braided_lab.news import tables, workload
from braided_lab.report import Claim, Report, Verdict, mean_of, quiet

Peaks = list[tuple[float, float]]  # of a run and one twice as long, by seed
FEEDS = {"own schedules": "own_records", "a batch per punctuation": "fine_records"}
_FLAT = 1.1


def add(
    report: Report,
    given: Mapping[str, Any],
    size: Mapping[str, Any],
    seed: int,
    say: Callable[[str], object] = quiet,
) -> None:
    """Run both lengths and enter claims."""
    for stream in size["streams"]:
        peaks: dict[str, Peaks] = {said: [] for said in FEEDS}
        for number in range(size["seeds"]):
            say(f"lengths, {stream}, seed {seed + number}")
            for said, records in FEEDS.items():
                lengths = (size[records], 2 * size[records])
                short, long = (_peak(given, size, said, stream, n, seed + number) for n in lengths)
                peaks[said].append((short, long))
        report.claims += claims(stream, peaks)


def claims(stream: str, peaks: Mapping[str, Peaks]) -> Iterator[Claim]:
    """Whether the longer run holds more."""
    for said, of_seeds in peaks.items():
        growth = mean_of([long / max(1.0, short) for short, long in of_seeds])
        unsure: Verdict = "not tested" if growth.low <= _FLAT else "not reproduced"
        short, long = (statistics.fmean(p) for p in zip(*of_seeds, strict=True))
        yield Claim(
            f"Figure 10, {stream}, {said}: the state of MJoin stays flat", "flat",
            f"peak of a run twice as long {growth}", "reproduced" if growth.high <= _FLAT else unsure,
            f"{short:,.0f} and {long:,.0f} rows",
        )  # fmt: skip


def _peak(
    given: Mapping[str, Any], size: Mapping[str, Any], said: str, stream: str, records: int, seed: int
) -> float:
    made = tables(workload(given, records, stream), seed=seed)
    whole: dict[str, pa.RecordBatch] = {n: t.combine_chunks().to_batches()[0] for n, t in made.items()}
    scheduling = bd.Scheduling("priority", "value", quota=size["quota"])
    feed: Feed = lambda engine: (batch for batch, _ in scheduled(engine, whole, scheduling))  # noqa: E731
    if said != "own schedules":
        batches = at_punctuations(whole, given["top"])
        feed = lambda _: batches  # noqa: E731
    return run_mjoin(feed, news_query(max(given["purge_every"]))).peak
