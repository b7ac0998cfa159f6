"""What all of a query's values share: frozen, comparable, hashable, to and from plain dicts."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeAlias, Union, get_args, get_origin

from braided.query.errors import InvalidType, about, did_you_mean, require_choice, shown

Reader: TypeAlias = Callable[[str, str, Any], Any]  # owner, option, what was given


@typing.dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Value:
    """Base of frozen dataclasses whose options are read by their type hints; a mistyped one gets a hint.

    A choice (`Literal`), a truth value and another value class are read by the hint alone; what a hint is
    `Annotated` with reads anything else: a function of owner, option and value, as in `kinds`.
    """

    def __init_subclass__(cls) -> None:
        plain_init = dataclasses.dataclass(frozen=True)(cls).__init__

        @functools.wraps(plain_init)
        def init(self: Any, *args: Any, **options: Any) -> None:
            for option, mistake in _mistakes(dataclasses.fields(self), args, options):
                raise InvalidType(f"{cls.__name__}{mistake}", option=option)
            plain_init(self, *args, **options)

        cls.__init__ = init  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for option, read in _readers(type(self)).items():  # type: ignore[arg-type]
            with about(option):
                object.__setattr__(self, option, read(self._owner, option, getattr(self, option)))
        self._check()

    def _check(self) -> None:
        """Raise if options do not go together."""

    @property
    def _owner(self) -> str:
        """What error messages call the value."""
        return type(self).__name__

    def to_dict(self) -> dict[str, Any]:
        """Return plain values (text, numbers, lists, dicts), fit for JSON or YAML; defaults are left out."""
        values = [(field, getattr(self, field.name)) for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {field.name: plain(value) for field, value in values if value != field.default}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the value that `to_dict` described; unknown names raise with a hint."""
        if not isinstance(data, Mapping):
            raise InvalidType(f"{cls.__name__} must be a mapping of options; got {shown(data)}")
        return cls(**{str(name): value for name, value in data.items()})


def _mistakes(
    fields: Sequence[Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Iterator[tuple[str | None, str]]:
    """Yield the option that a constructor cannot take, or misses, and a sentence without its subject."""
    names, positional = [f.name for f in fields], [f.name for f in fields if not f.kw_only]
    for name in options:
        if name not in names:
            yield name, f" has no option {name!r}; {did_you_mean(name, names)}"
    for field in fields[len(args) :]:
        if field.default is dataclasses.MISSING and field.name not in options:
            yield field.name, f": {field.name} is missing; give it"
    for name in positional[: len(args)]:
        if name in options:
            yield name, f": {name} is given twice; leave one out"
    if len(args) > len(positional):
        most = f"only {', '.join(positional)} may be given without their names"
        yield None, f": {most}; got {len(args)} values"


@functools.cache
def _readers(cls: Any) -> dict[str, Reader]:
    """Return what reads each option, made from its hint; those that are stored as they come are left out."""
    hints = typing.get_type_hints(cls, localns={"Plan": Any}, include_extras=True)
    readers = {f.name: _reader(members(hints[f.name])) for f in dataclasses.fields(cls)}
    return {option: read for option, read in readers.items() if read is not None}


def members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, else the hint alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _reader(kinds: Sequence[Any]) -> Reader | None:
    """Return the reader of one of several kinds of value, or None."""
    parts = [k for k in kinds if isinstance(k, type) and issubclass(k, Value)]
    part = parts[0] if parts else None
    own = next((k.__metadata__[0] for k in kinds if get_origin(k) is Annotated), None)
    choices = tuple(choice for k in kinds if get_origin(k) is Literal for choice in get_args(k))

    def read(owner: str, option: str, value: Any) -> Any:
        if (value is None and NoneType in kinds) or isinstance(value, tuple(parts)):
            return value
        if part is not None and isinstance(value, Mapping):
            return next((p for p in parts if set(p.__annotations__) >= set(value)), part).from_dict(value)
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
    """Return `value` in lists, dicts, text and numbers only."""
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return value
