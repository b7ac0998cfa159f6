"""For the reference: a `Value` is a dataclass, so its constructor's options are shown."""

from __future__ import annotations

from typing import Any

import griffe


class ValueClasses(griffe.Extension):
    """Tells griffe, which reads the source without running it."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Decorate a class that is derived from `Value` with `dataclass`."""
        if "Value" in map(str, cls.bases):
            dataclass = griffe.ExprName("dataclasses.dataclass", None)
            cls.decorators.append(griffe.Decorator(dataclass, lineno=cls.lineno, endlineno=cls.lineno))
