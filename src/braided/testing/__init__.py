"""For your own tests: the join by its definition, step scripts, and sample streams (`samples`).

Names are imported when they are first used: the samples need no engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'braided.testing' has no attribute {name!r}")
    home = "oracle" if name in ("assert_same_bag", "bag", "expected") else "script"
    return getattr(importlib.import_module(f"braided.testing.{home}"), name)


__all__ = ["assert_same_bag", "bag", "expected"]
__all__ += ["end", "push", "restore", "run_script", "snapshot"]
__all__ += ["expect_late", "expect_results", "expect_state"]
