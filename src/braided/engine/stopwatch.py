"""Where a bucket's time goes."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Stopwatch:
    """Adds up time by name; what happens while a consumer holds an item is not counted."""

    def __init__(self) -> None:
        self._ns: Counter[str] = Counter()

    def us(self, name: str) -> int:
        """Microseconds so far."""
        return self._ns[name] // 1000

    @contextlib.contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Count this block."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self._ns[name] += time.perf_counter_ns() - began

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Count the making of each item."""
        made = iter(items)
        while True:
            with self.on(name):
                item = next(made, None)
            if item is None:
                return
            yield item
