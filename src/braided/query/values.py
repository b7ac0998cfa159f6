"""What all of a query's values share: frozen, comparable, hashable, to and from plain dicts."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar, Union, get_args, get_origin

from braided.query.errors import BraidedError, InvalidType, did_you_mean, require_choice, shown

T = TypeVar("T", bound=type)
Reader: TypeAlias = Callable[[str, str, Any], Any]  # owner, option, what was given


@typing.dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def value_class(cls: T) -> T:
    """Make a frozen dataclass whose constructor answers a mistyped option with a hint."""
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    names = [f.name for f in dataclasses.fields(made)]
    positional = [f.name for f in dataclasses.fields(made) if not f.kw_only]
    required = [f.name for f in dataclasses.fields(made) if f.default is dataclasses.MISSING]
    plain_init = made.__init__

    @functools.wraps(plain_init)
    def init(self: Any, *args: Any, **options: Any) -> None:
        wrong = next((option for option in options if option not in names), None)
        if wrong is not None:
            hint = did_you_mean(wrong, names)
            raise InvalidType(f"{cls.__name__} has no option {wrong!r}; {hint}", option=wrong)
        wrong = next((name for name in required[len(args) :] if name not in options), None)
        if wrong is not None:
            raise InvalidType(f"{cls.__name__}: {wrong} is missing; give it", option=wrong)
        wrong = next((name for name in positional[: len(args)] if name in options), None)
        if wrong is not None:
            raise InvalidType(f"{cls.__name__}: {wrong} is given twice; leave one out", option=wrong)
        if len(args) > len(positional):
            most = f"only {', '.join(positional)} may be given without their names"
            raise InvalidType(f"{cls.__name__}: {most}; got {len(args)} values")
        plain_init(self, *args, **options)

    made.__init__ = init
    return made  # type: ignore[no-any-return]


class PlainDict:
    """Options that are read by their type hints; `to_dict` leaves out what has its default.

    A choice (`Literal`), a truth value and another value class are read by the hint alone; what a hint is
    `Annotated` with reads anything else: a function of owner, option and value, as in `kinds`.
    """

    def __post_init__(self) -> None:
        option, owner = "", self._owner
        try:
            for option, read in _readers(type(self)).items():  # type: ignore[arg-type]
                object.__setattr__(self, option, read(owner, option, getattr(self, option)))
        except BraidedError as wrong:
            wrong.place(option)
            raise
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
def _readers(cls: Any) -> dict[str, Reader]:
    """Return what reads each option, made from its hint; those that are stored as they come are left out."""
    hints = typing.get_type_hints(cls, localns={"Plan": Any}, include_extras=True)
    readers = {f.name: _reader(members(hints[f.name])) for f in dataclasses.fields(cls)}
    return {option: read for option, read in readers.items() if read is not None}


def members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, else the hint alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _reader(kinds: Sequence[Any]) -> Reader | None:
    """Return the reader of one of several kinds of value, or None."""
    part = next((k for k in kinds if isinstance(k, type) and issubclass(k, PlainDict)), None)
    own = next((k.__metadata__[0] for k in kinds if get_origin(k) is Annotated), None)
    choices = tuple(choice for k in kinds if get_origin(k) is Literal for choice in get_args(k))

    def read(owner: str, option: str, value: Any) -> Any:
        if (value is None and NoneType in kinds) or (part is not None and isinstance(value, part)):
            return value
        if part is not None and isinstance(value, Mapping):
            return part.from_dict(value)
        if own is not None:
            return own(owner, option, value)
        if choices:
            require_choice(owner, option, value, choices)
        elif part is not None or not isinstance(value, bool):
            wanted = "True or False" if part is None else f"a bd.{part.__name__}"
            raise InvalidType.must(option, wanted, value, owner=owner)
        return value

    return read if part is not None or own is not None or choices or bool in kinds else None


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
