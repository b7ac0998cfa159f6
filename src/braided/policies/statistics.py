"""What policies decide on, and what users read: an immutable picture of a running join."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StreamStatistics:
    """Counts of one stream since the start, and what its side state holds now.

    `shed_rows` were not admitted, and `cut_rows` forgotten early, because of `Overload`. `index` is "hash" or
    "scan" (on Spark also "mixed": buckets choose for themselves). `staleness_us` is how much older than the
    clock the oldest row was in the latest batch's results, if there is an `Overload` (None after a restore).
    `purged_rows` could join no more by what streams promised; `closed_keys` are the single keys that are
    remembered as closed; `violations` are rows that broke a promise and were left out. `live_rows` are in
    memory, `spilled_rows` on disk, where there is a `Memory` budget.
    """

    rows_in: int = 0
    late_rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    shed_rows: int = 0
    live_rows: int = 0
    live_bytes: int = 0
    spilled_rows: int = 0
    expired_rows: int = 0
    cut_rows: int = 0
    purged_rows: int = 0
    punctuations: int = 0
    violations: int = 0
    closed_keys: int = 0
    newest_us: int | None = None
    staleness_us: int | None = None
    index: str = "hash"
    index_changes: int = 0


@dataclass(frozen=True)
class HalfJoinStatistics:
    """Rows of one stream (with what they met so far) looked up in the state of another.

    `allowance` is how many rows may probe in a batch; None means all. `same_key` counts the stored rows
    that were looked at and had the key; those outside the time bounds are not `matches`.
    """

    probes: int = 0
    matches: int = 0
    allowance: int | None = None
    same_key: int = 0

    @property
    def productivity(self) -> float:
        """Matches per probing row."""
        return self.matches / self.probes if self.probes else 0.0


@dataclass(frozen=True)
class IntermediateStatistics:
    """What the state of an intermediate holds now, and how many of its rows expired since the start."""

    live_rows: int = 0
    live_bytes: int = 0
    expired_rows: int = 0
    spilled_rows: int = 0


@dataclass(frozen=True)
class Adapted:
    """An analysis of who may probe: at which batch, why, what it promised, and whether it was taken."""

    batch: int
    reason: str
    taken: bool


@dataclass(frozen=True)
class RationingStatistics:
    """Rationed probes: the latest batch's `budget` (None: no limit was needed), and what it is spent on.

    `freshness_share` of it keeps results fresh; `results_lost` is an estimate of all that were not found
    since the start; `reason` says which rows may probe, `problem` why the budget cannot be met, if so.
    """

    budget: int | None
    freshness_share: float
    results_lost: int
    reason: str
    adaptations: tuple[Adapted, ...]
    problem: str = ""


@dataclass(frozen=True)
class Statistics:
    """A snapshot of a running join; `half_joins` is keyed by (probing, probed) stream.

    `exact_again` is the batch since which rationed probes lose nothing (0: they never did; None: results are
    missing now); rows that were shed or cut are counted with their stream. `punctuations_out` are the keys
    for which the output announced completion. `driver_streams` and
    `probe_orders` are of the latest batch with rows (none after a restore); `driver_switches` counts the runs
    of rows of one driver stream (a whole buffer is one run), `profile_probes` what the probe-order policy
    looked up to decide, `driven_rows` the rows whose turn has come (all stored rows, between batches).
    """

    results: int
    batches: int
    watermark_us: int | None
    streams: Mapping[str, StreamStatistics]
    half_joins: Mapping[tuple[str, str], HalfJoinStatistics]
    intermediates: Mapping[str, IntermediateStatistics] = dataclasses.field(default_factory=dict)
    rationing: RationingStatistics | None = None
    exact_again: int | None = 0
    spilled_bytes: int = 0
    owed: int = 0
    disk_decision: str = ""
    punctuations_out: int = 0
    driver_streams: tuple[str, ...] = ()
    probe_orders: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    driver_switches: int = 0
    profile_probes: int = 0
    driven_rows: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Only plain values; a half-join is named "probing->probed"."""
        return {
            "results": self.results,
            "batches": self.batches,
            "watermark_us": self.watermark_us,
            "streams": {name: dataclasses.asdict(s) for name, s in self.streams.items()},
            "half_joins": {
                f"{probing}->{probed}": dataclasses.asdict(h)
                for (probing, probed), h in self.half_joins.items()
            },
            "intermediates": {name: dataclasses.asdict(s) for name, s in self.intermediates.items()},
            "rationing": dataclasses.asdict(self.rationing) if self.rationing else None,
            "exact_again": self.exact_again,
            "spilled_bytes": self.spilled_bytes,
            "owed": self.owed,
            "disk_decision": self.disk_decision,
            "punctuations_out": self.punctuations_out,
            "driver_streams": list(self.driver_streams),
            "probe_orders": {name: list(order) for name, order in self.probe_orders.items()},
            "driver_switches": self.driver_switches,
            "profile_probes": self.profile_probes,
            "driven_rows": self.driven_rows,
        }
