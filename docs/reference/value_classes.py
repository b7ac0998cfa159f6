"""For the reference: a `value_class` is a dataclass, so its constructor's options are shown."""

from __future__ import annotations

from typing import Any

import griffe


class ValueClasses(griffe.Extension):
    """Tells griffe, which reads the source without running it."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Where a class is decorated with `value_class`, say `dataclass`."""
        for decorator in cls.decorators:
            if str(decorator.value) == "value_class":
                decorator.value = griffe.ExprName("dataclasses.dataclass", None)
