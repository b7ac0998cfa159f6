"""The latest batch in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from braided.view.records import Record, StreamRecord

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """A metric: what it is, and its values by label."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    values: Mapping[Labels, float] = field(default_factory=dict)


def exposition(record: Record | None) -> str:
    """All metrics of a batch; before the first batch only that there was none."""
    found = [Metric("braided_batches_total", "counter", "Batches since the start.", {(): 0})]
    return "".join(_text(m) for m in (metrics(record) if record else found) if m.values)


def metrics(record: Record) -> list[Metric]:
    """Return the samples of a batch."""
    return [
        Metric("braided_batches_total", "counter", "Batches since the start.", {(): record.batches}),
        Metric("braided_results_total", "counter", "Results since the start.", {(): record.total_results}),
        *_of_streams(record.streams),
        Metric("braided_batch_id", "gauge", "Number of the latest batch.", {(): record.batch}),
        Metric("braided_batch_end_timestamp_seconds", "gauge", "When it ended.", {(): record.when}),
        Metric("braided_batch_seconds", "gauge", "How long the latest batch took.", {(): record.seconds}),
        Metric("braided_latency_seconds", "gauge", "How long a row waited at most.", {(): record.latency}),
        Metric(
            "braided_watermark_timestamp_seconds", "gauge", "The watermark.", _one(record.watermark_us, 1e6)
        ),
        Metric("braided_state_bytes", "gauge", "State, with intermediates.", {(): record.state_bytes}),
        Metric("braided_spilled_bytes", "gauge", "State on disk.", {(): record.spilled_bytes}),
        Metric("braided_memory_limit_bytes", "gauge", "The memory budget.", _one(record.budget_bytes)),
        Metric("braided_probe_budget", "gauge", "Probes a batch may make.", _one(record.probe_budget)),
        Metric(
            "braided_freshness_share",
            "gauge",
            "Part of the probes that keeps results fresh.",
            _one(record.freshness_share),
        ),
        Metric(
            "braided_allowance_probes",
            "gauge",
            "Rows that may probe in a batch.",
            _by("half_join", record.allowances),
        ),
    ]


def _of_streams(streams: Mapping[str, StreamRecord]) -> Iterator[Metric]:
    for name, kind, about, value in _STREAM:
        yield Metric(name, kind, about, _by("stream", {s: getattr(r, value) for s, r in streams.items()}))
    lags = {s: r.lag_us / 1e6 for s, r in streams.items() if r.lag_us is not None}
    yield Metric("braided_lag_seconds", "gauge", "How far behind the newest stream.", _by("stream", lags))


_STREAM: tuple[tuple[str, Literal["counter", "gauge"], str, str], ...] = (
    ("braided_rows_total", "counter", "Rows since the start.", "total_rows"),
    ("braided_late_rows_total", "counter", "Rows that came too late.", "late_rows"),
    ("braided_live_rows", "gauge", "Rows that can be found in memory.", "live_rows"),
    ("braided_live_bytes", "gauge", "What they take.", "live_bytes"),
    ("braided_spilled_rows", "gauge", "Rows on disk.", "spilled_rows"),
)


def _by(label: str, values: Mapping[str, float]) -> dict[Labels, float]:
    return {((label, name),): value for name, value in values.items()}


def _one(value: float | None, unit: float = 1) -> dict[Labels, float]:
    return {} if value is None else {(): value / unit if unit != 1 else value}


def _text(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    lines += [f"{metric.name}{_labels(labels)} {value!r}" for labels, value in metric.values.items()]
    return "\n".join(lines) + "\n"


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def escaped(value: str) -> str:
    r"""A label's value as the format wants it.

    >>> print(escaped('a "b" \\ c'))
    a \"b\" \\ c
    """
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
