"""The text for Prometheus, parsed back by its grammar."""

from __future__ import annotations

import re

from braided.view.prometheus import exposition
from tests.view.batches import record

LABEL = r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parsed(text: str) -> tuple[dict[str, str], dict[tuple[str, str], float]]:
    """Kinds by name, and values by name and label value."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    values: dict[tuple[str, str], float] = {}
    helped = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ")[2]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == helped
            assert name not in kinds
            kinds[name] = kind
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == helped
            label = re.sub(r"\\[\\\"n]", lambda m: UNESCAPED[m[0]], sample[4] or "")
            assert (sample[1], label) not in values
            values[sample[1], label] = float(sample[SAMPLE.groups])
    return kinds, values


def test_it_is_parsed_back_whatever_a_stream_is_called() -> None:
    evil = 'a"b\\c\nd{},=<script>'
    kinds, values = parsed(exposition(record(4, evil)))
    assert values["braided_results_total", ""] == 1_500
    assert values["braided_rows_total", evil] == 5_000
    assert values["braided_rows_total", "payments"] == 2_500
    assert values["braided_lag_seconds", "payments"] == 3.0
    assert values["braided_allowance_probes", f"{evil}->payments"] == 700
    assert values["braided_memory_limit_bytes", ""] == 64_000_000
    assert values["braided_watermark_timestamp_seconds", ""] == 1_699_999_000.0
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
    assert kinds.keys() == {name for name, _ in values}


def test_what_is_not_known_is_left_out() -> None:
    _, values = parsed(
        exposition(record(0, without=["memory_limit", "watermark_us"], half_joins={}, streams={}))
    )
    names = {name for name, _ in values}
    assert not names & {
        "braided_memory_limit_bytes",
        "braided_watermark_timestamp_seconds",
        "braided_rows_total",
    }
    assert parsed(exposition(None))[1] == {("braided_batches_total", ""): 0.0}
