"""For your own tests: the join by its definition, and step scripts."""

from __future__ import annotations

from braided.testing.oracle import assert_same_bag, bag, expected
from braided.testing.script import (
    end,
    expect_late,
    expect_results,
    expect_state,
    push,
    restore,
    run_script,
    snapshot,
)

__all__ = [
    "assert_same_bag",
    "bag",
    "end",
    "expect_late",
    "expect_results",
    "expect_state",
    "expected",
    "push",
    "restore",
    "run_script",
    "snapshot",
]
