"""What all of a query's values share: frozen, comparable, hashable, to and from plain dicts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Self, TypeVar, dataclass_transform

from braided.query.errors import InvalidType, did_you_mean, shown

T = TypeVar("T", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def value_class(cls: T) -> T:
    """A frozen dataclass whose constructor answers a mistyped option with a hint."""
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    names = [f.name for f in dataclasses.fields(made) if f.init]
    required = [f.name for f in dataclasses.fields(made) if f.default is dataclasses.MISSING]
    plain_init = made.__init__

    @functools.wraps(plain_init)
    def init(self: Any, *args: Any, **options: Any) -> None:
        for option in options:
            if option not in names:
                raise InvalidType(
                    f"{cls.__name__} has no option {option!r}; {did_you_mean(option, names)}", option=option
                )
        missing = [name for name in required[len(args) :] if name not in options]
        if missing:
            raise InvalidType(f"{cls.__name__}: {missing[0]} is missing; give it", option=missing[0])
        try:
            plain_init(self, *args, **options)
        except TypeError as wrong:
            if isinstance(wrong, InvalidType) or wrong.__traceback__ is None:
                raise
            if wrong.__traceback__.tb_next is not None:  # from inside: our own bug, not a bad call
                raise
            raise InvalidType(f"{cls.__name__}: {wrong}") from None

    made.__init__ = init
    return made  # type: ignore[no-any-return]


class PlainDict:
    """`to_dict` leaves out what has its default; `from_dict` undoes it."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only (text, numbers, lists, dicts), fit for JSON or YAML."""
        result = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value != field.default:
                result[field.name] = plain(value)
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the value that `to_dict` described; unknown names raise with a hint."""
        if not isinstance(data, Mapping):
            raise InvalidType(f"{cls.__name__} must be a mapping of options; got {shown(data)}")
        return cls(**{str(name): value for name, value in data.items()})


def plain(value: Any) -> Any:
    """`value` in lists, dicts, text and numbers only."""
    if isinstance(value, PlainDict):
        return value.to_dict()
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return value


def freeze(instance: object, **values: Any) -> None:
    """Set normalised values in a frozen dataclass's `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
