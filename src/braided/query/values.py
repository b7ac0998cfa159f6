"""What all of a query's values share: frozen, comparable, hashable, to and from plain dicts."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from braided.query.errors import InvalidType, about, did_you_mean, require_choice, shown

T = TypeVar("T", bound=type)


@typing.dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def value_class(cls: T) -> T:
    """Make a frozen dataclass whose constructor answers a mistyped option with a hint."""
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    names = [f.name for f in dataclasses.fields(made) if f.init]
    required = [f.name for f in dataclasses.fields(made) if f.default is dataclasses.MISSING]
    plain_init, signature = made.__init__, inspect.signature(made.__init__)

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
            signature.bind(self, *args, **options)
        except TypeError as wrong:
            raise InvalidType(f"{cls.__name__}: {wrong}") from None
        plain_init(self, *args, **options)

    made.__init__ = init
    return made  # type: ignore[no-any-return]


class PlainDict:
    """Options that are read by their type hints; `to_dict` leaves out what has its default.

    A choice (`Literal`), a truth value and another value class are read by the hint alone; what a hint is
    `Annotated` with reads anything else: a function of owner, option and value, as in `kinds`.
    """

    def __post_init__(self) -> None:
        for option, hint in _hints(type(self)).items():  # type: ignore[arg-type]
            with about(option):
                freeze(self, **{option: _read(hint, self._owner, option, getattr(self, option))})
        self._check()

    def _check(self) -> None:
        """Raise if options do not go together."""

    @property
    def _owner(self) -> str:
        """What error messages call the value."""
        return type(self).__name__

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


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, localns={"Plan": Any}, include_extras=True)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, else the hint alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _read(hint: Any, owner: str, option: str, value: Any) -> Any:
    """Return an option's value as its hint asks; what does not fit raises."""
    kinds = members(hint)
    if value is None and NoneType in kinds:
        return None
    part = next((k for k in kinds if isinstance(k, type) and issubclass(k, PlainDict)), None)
    if part is not None and isinstance(value, part):
        return value
    if part is not None and isinstance(value, Mapping):
        return part.from_dict(value)
    for kind in kinds:
        if get_origin(kind) is Annotated:
            return kind.__metadata__[0](owner, option, value)
    choices = tuple(choice for k in kinds if get_origin(k) is Literal for choice in get_args(k))
    if choices:
        require_choice(owner, option, value, choices)
    elif part is not None:
        raise InvalidType.must(option, f"a bd.{part.__name__}", value, owner=owner)
    elif bool in kinds and not isinstance(value, bool):
        raise InvalidType.must(option, "True or False", value, owner=owner)
    return value


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
