"""What policies decide on, and what users read: an immutable picture of a running join.

Every number of a join is declared here (see `numbers`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any

from braided.policies.numbers import Plot, number

_STATE = Plot("State", stacked=True)
_SPILLED = Plot("Spilled", "Nothing went to disk.")
_NOT_RATIONED = "Probes are not rationed: every result is as fresh as its rows."
_FRESHNESS = Plot("Budget spent on freshness", _NOT_RATIONED, peaks=False)
_ALLOWED = Plot("Probes allowed a batch", "Probes are not rationed.", peaks=False)
_given = functools.partial(number, default=MISSING)


@dataclass(frozen=True)
class StreamStatistics:
    """Counts of one stream since the start, and what its side holds now.

    `shed_rows` and `cut_rows` are because of `Overload`; `staleness_us` is known only with one (and not after
    a restore). `index` is "hash" or "scan" (on Spark also "mixed": buckets choose for themselves).
    """

    rows_in: int = number("rows since the start", prometheus="braided_rows_total", column="rows")
    late_rows: int = number("rows that came too late", prometheus="braided_late_rows_total", column="late")
    null_keys: int = number("rows without a key, which join nothing")
    null_times: int = number("rows without a time, which join nothing")
    copied_rows: int = number("copies of rows that several buckets got, which only one of them counts")
    shed_rows: int = number("rows that were not let in")
    live_rows: int = number("rows held in memory", prometheus="braided_live_rows", column="held")
    live_bytes: int = number(
        "bytes of these rows", unit="bytes", prometheus="braided_live_bytes", column="bytes", plot=_STATE
    )
    spilled_rows: int = number("rows on disk", prometheus="braided_spilled_rows", column="on disk")
    expired_rows: int = number("rows that time has let go")
    cut_rows: int = number(
        "rows that were forgotten early, or did not enter, because of a budget or their age"
    )
    purged_rows: int = number("rows that can join no more by what streams promised")
    punctuations: int = number("punctuations that came")
    partial_punctuations: int = number(
        "those of them that also name a value of another column, and so close nothing"
    )
    violations: int = number("rows that broke a promise and were left out")
    closed_keys: int = number("single keys that are remembered as closed", prometheus="braided_closed_keys")
    closed_entries: int = number("entries that remember them: of neighbours one is enough")
    newest_us: int | None = number("its newest time", "max", "us", default=None)
    idle: bool = number(
        "whether it holds the watermark no more, because it brings nothing", "max", default=False
    )
    staleness_us: int | None = number(
        "how old the oldest row of the latest results was, by the newest time seen", "max", "us", default=None
    )
    staleness_wall_us: int | None = number("the same by the wall clock", "max", "us", default=None)
    index: str = number("how its rows are looked up", "same", default="hash")
    index_changes: int = number("how often that changed")


@dataclass(frozen=True)
class HalfJoinStatistics:
    """Rows of one stream (with what they met so far) looked up in the state of another.

    An `allowance` of None means all.
    """

    probes: int = number("rows that probed")
    matches: int = number("combinations that were found")
    allowance: int | None = number(
        "rows that may probe in a batch", default=None, prometheus="braided_allowance_probes", plot=_ALLOWED
    )
    same_key: int = number("stored rows with the key; those outside the time bounds are no matches")

    @property
    def productivity(self) -> float:
        """Matches per probing row."""
        return self.matches / self.probes if self.probes else 0.0


@dataclass(frozen=True)
class IntermediateStatistics:
    """What the state of an intermediate holds now, and how many of its rows expired since the start."""

    live_rows: int = number("rows of intermediates in memory", prometheus="braided_intermediate_rows")
    live_bytes: int = number(
        "bytes of these rows", unit="bytes", prometheus="braided_intermediate_bytes", plot=_STATE
    )
    expired_rows: int = number("rows that time has let go")
    spilled_rows: int = number("rows on disk")
    entered_rows: int = number("rows that came in with the latest batch")
    refresh_rows: int | None = number("rows a batch that must come in for bounds on age", default=None)


@dataclass(frozen=True)
class Adapted:
    """An analysis of who may probe: at which batch, why, what it promised, and whether it was taken.

    On Spark every bucket has its own.
    """

    batch: int
    reason: str
    taken: bool
    bucket: int | None = None


@dataclass(frozen=True)
class RationingStatistics:
    """Rationed probes: the latest batch's `budget` (None: no limit was needed), and what it is spent on.

    `results_lost` is an estimate. On Spark `reasons` are those of all buckets, `reason` is one of them, and
    `freshness_needs` adds up; it is None where freshness costs nothing. With `shed="input"` the budget is of
    rows that are let in. `curve` and `rows_of_all` are for the decisions that buckets have in common: the
    results that are expected of some budgets, and the rows that all buckets should let in.
    """

    budget: int | None = _given(
        "probes that a batch may make, or rows that it lets in", prometheus="braided_probe_budget"
    )
    freshness_share: float = _given(
        "part of the probes that keeps results fresh",
        "mean",
        "share",
        prometheus="braided_freshness_share",
        plot=_FRESHNESS,
        line="freshness",
    )
    results_lost: int = _given("results that were not found since the start")
    reason: str = _given("who may probe", "words")
    adaptations: tuple[Adapted, ...] = _given("the latest analyses", "list")
    problem: str = number("why the budget cannot be kept, if so", "words", default="")
    reasons: tuple[str, ...] = number("who may probe, bucket by bucket", "list", default=())
    freshness_needs: int | None = number("probes a batch that keep all bounds on age", default=None)
    curve: tuple[tuple[float, float], ...] = ()
    rows_of_all: int | None = None


@dataclass(frozen=True)
class Statistics:
    """A snapshot of a running join; `half_joins` is keyed by (probing, probed) stream.

    `exact_again` is 0 if rationed probes never lost anything, and None if results are missing now; rows that
    were shed or cut are counted with their stream. `driver_streams` and `probe_orders` are of the latest
    batch with rows (none after a restore). A whole buffer is one run for `driver_switches`; between batches
    all stored rows are `driven_rows`.
    """

    results: int = _given("results since the start", prometheus="braided_results_total")
    batches: int = _given("batches since the start", "max", prometheus="braided_batches_total")
    watermark_us: int | None = _given(
        "the watermark", "max", "us", prometheus="braided_watermark_timestamp_seconds"
    )
    streams: Mapping[str, StreamStatistics] = field(default_factory=dict)
    half_joins: Mapping[tuple[str, str], HalfJoinStatistics] = field(default_factory=dict)
    intermediates: Mapping[str, IntermediateStatistics] = field(default_factory=dict)
    rationing: RationingStatistics | None = None
    exact_again: int | None = number("the batch since which rationed probes lose nothing", "all")
    spilled_bytes: int = number(
        "state on disk", unit="bytes", prometheus="braided_spilled_bytes", plot=_SPILLED, line="on disk"
    )
    owed: int = number("combinations that wait until groups on disk are merged, about")
    owed_seconds: float = number(
        "how long the oldest of them has waited, at most", "max", "seconds", default=0.0
    )
    unsettled_rows: int = number("required rows of which it is not known yet whether partners are lacking")
    exempt_rows: int = number("rows in memory that do not go while something may be owed to them")
    disk_decision: str = number("what was last decided about the disk", "words", default="")
    punctuations_out: int = number("keys that the output was told to be complete")
    driver_streams: tuple[str, ...] = ()
    probe_orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    driver_switches: int = number("runs of rows of one driver stream")
    profile_probes: int = number("rows that the probe-order policy looked up to decide")
    driven_rows: int = number("rows whose turn has come")

    def to_dict(self) -> dict[str, Any]:
        """Only plain values; a half-join is named "probing->probed"."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {"->".join(n) if isinstance(n, tuple) else n: _plain(v) for n, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class EpochMetrics:
    """An epoch of a join on Spark: from and before when the oldest row of its results lies (None: open).

    Once the watermark has passed `passes_us`, it is empty, and goes at the next start. `live_rows` are the
    rows that its buckets hold, `changes` how it differs from the one before, in words.
    """

    number: int
    since_us: int | None
    until_us: int | None
    passes_us: int | None
    live_rows: int
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinMetrics(Statistics):
    """The statistics of a join on Spark, and what Spark and the state store know of it.

    `epochs` are those that live, oldest first; `hot_keys` has, by stream, the heaviest keys and about their
    shares of its rows. `batch_seconds` are the latest batches' times, oldest first. A `largest_bucket_share`
    of 1 / buckets is even; it and `hottest_key_share` are those of the most uneven stage. `lag_us` is how far
    each stream's newest time lies behind the newest of all. `rebuilds`, `arena_hits` and the seconds are of
    the latest batch, over all buckets.
    """

    query_id: str = ""
    batch_id: int = -1
    active: bool = False
    batch_seconds: tuple[float, ...] = ()
    rows_per_second: float = 0.0
    buckets: int = number("parts that the keys are split into")
    largest_bucket_share: float = number("the largest bucket's part of live rows", "", "share", default=0.0)
    hottest_key_share: float = number("about the hottest key's part of new rows", "", "share", default=0.0)
    state_bytes: int = number("chunks in the state store", unit="bytes")
    state_chunks: int = number("how many chunks these are")
    rebuilds: int = number("engines that were rebuilt from chunks")
    arena_hits: int = number("engines that went on from an arena")
    engine_seconds: float = number("time in engines", unit="seconds", default=0.0)
    state_seconds: float = number("time with state and arenas", unit="seconds", default=0.0)
    lag_us: Mapping[str, int | None] = field(default_factory=dict)
    epochs: tuple[EpochMetrics, ...] = ()
    hot_keys: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    owed_within_seconds: float | None = number(
        "how long owed results may wait, as was asked for", "", "seconds", default=None
    )
    memory_limit: int | None = number(
        "the memory budget of all buckets",
        "",
        "bytes",
        default=None,
        prometheus="braided_memory_limit_bytes",
        limit_of=_STATE,
    )

    @property
    def copies(self) -> float:
        """Rows that were sent to buckets for each that was read, since the start."""
        read = sum(s.rows_in for s in self.streams.values())
        return 1 + sum(s.copied_rows for s in self.streams.values()) / read if read else 1.0

    @property
    def too_hot(self) -> dict[tuple[str, str], float]:
        """The keys that are much for one bucket, by stream and key, and their shares of the stream's rows."""
        shares = {(name, key): share for name, keys in self.hot_keys.items() for key, share in keys.items()}
        return {named: share for named, share in shares.items() if share > self.hot_share}

    @property
    def hot_share(self) -> float:
        """The part of a stream's rows that is much for one bucket."""
        return max(0.1, 2 / max(1, self.buckets))

    @property
    def idle(self) -> tuple[str, ...]:
        """The streams that hold the watermark no more, because they bring nothing."""
        return tuple(name for name, s in self.streams.items() if s.idle)
