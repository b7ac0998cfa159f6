"""Which tests are slow: those that take much of the 90 seconds of `make quick`, by folder and by file."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = (  # what a change breaks here, the quick tests of the same part or its oracle in `make test` show
    "engine/overload",
    "engine/promises",
    "engine/spill",
    "engine/test_properties.py",
    "engine/test_saved_state.py",
    "engine/test_zero_windows.py",
    "local/test_scheduling.py",
    "operators/test_plans.py",
    "operators/test_policies.py",
    "operators/test_rations.py",
    "sides/test_payload_types.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = [HERE / part for part in SLOW]
    for item in items:
        if any(item.path.is_relative_to(part) for part in slow):
            item.add_marker(pytest.mark.slow)
