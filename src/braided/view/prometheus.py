"""The latest batch in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from typing import Any

from braided.policies.numbers import Number
from braided.view.records import SHOWN, Record, Shown

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(record: Record | None) -> str:
    """All metrics of a batch; before the first batch only that there was none."""
    if record is None:
        batches = next(shown for shown in SHOWN if shown.name == "batches")
        return _text(batches, {"": 0})
    return "".join(_text(shown, record.values(shown)) for shown in SHOWN if shown.number.prometheus)


def kind(number: Number) -> str:
    """Return "counter" if the number only grows."""
    return "counter" if number.prometheus.endswith("_total") else "gauge"


def _text(shown: Shown, values: dict[str, Any]) -> str:
    """A metric with its values; nothing if none is known."""
    number, name = shown.number, shown.number.prometheus
    labels = {key: f'{{{shown.of}="{escaped(key)}"}}' if key else "" for key in values}
    known = {labels[key]: number.in_units(value) for key, value in values.items() if value is not None}
    about = number.about[0].upper() + number.about[1:]
    head = f"# HELP {name} {about}.\n# TYPE {name} {kind(number)}\n" if known else ""
    return head + "".join(f"{name}{label} {value!r}\n" for label, value in known.items())


def escaped(value: str) -> str:
    r"""A label's value as the format wants it.

    >>> print(escaped('a "b" \\ c'))
    a \"b\" \\ c
    """
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
