"""Values of a file against type hints: `read` builds what a hint asks for.

The JSON Schema (`job.schema.json`) is made of the same hints, so what is checked and what an editor is told
cannot differ.

>>> problems = Problems()
>>> read(tuple[str, ...], ["a", 3], ("columns",), problems)
('a', None)
>>> problems[0].message
'columns.1 must be a text; got 3; put it in quotes'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from braided.jobs.definitions import helped
from braided.jobs.problems import Place, Problems, called
from braided.jobs.queries import read_query
from braided.query.errors import did_you_mean
from braided.query.join_query import JoinQuery
from braided.query.values import members

_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a mapping",
    tuple: "a list",
}
_READ_AS: dict[Any, Any] = {tuple: list, float: (int, float)}  # how YAML gives them
MISSING = dataclasses.MISSING


def read(hint: Any, value: Any, at: Place, problems: Problems) -> Any:
    """`value` as the hint asks; None if it does not fit, which is added to `problems`.

    Where a text may stand for an object with a format, it is the format.
    """
    if hint is JoinQuery:
        return read_query(value, at, problems)
    options = members(hint)
    chosen = next((option for option in options if _fits(option, value)), None)
    if chosen is None:
        wanted = (_word(option) for option in options if option is not type(None))
        problems.must(at, " or ".join(dict.fromkeys(wanted)), value, _hint(options, value))
        return None
    if _is_class(chosen):
        before = len(problems)
        made = read_options(chosen, value, at, problems)
        return chosen(**made) if len(problems) == before else None
    if chosen is str and _is_class(options[0]):
        return options[0](format=value)
    kind, parts = _kind(chosen), get_args(chosen)
    if kind is tuple:
        return tuple(read(parts[0], v, (*at, i), problems) for i, v in enumerate(value))
    if kind is Mapping:
        return {k: read(parts[1], v, (*at, k), problems) for k, v in value.items()}
    return value


def read_options(cls: Any, value: Mapping[str, Any], at: Place, problems: Problems) -> dict[str, Any]:
    """The options of a class, each read by its own hint; one that is wrong is None."""
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for name in value:
        if name not in fields:
            problems.add((*at, name), f"{called(at)} has no option {name!r}; {did_you_mean(name, fields)}")
    for name, one in fields.items():
        if required(one) and name not in value:
            problems.add(at, f"{called(at)}: {name} is missing ({helped(cls)[name]})")
    return {
        name: read(hints[name], v, (*at, name), problems)
        for name, v in value.items()
        if name in fields and (v is not None or required(fields[name]))
    }


def required(one: dataclasses.Field[Any]) -> bool:
    """Return whether an option must be given."""
    return one.default is MISSING and one.default_factory is MISSING


def _kind(hint: Any) -> Any:
    """What a hint asks for: `Literal`, or a key of `_WORDS`."""
    return Mapping if _is_class(hint) else get_origin(hint) or hint


def _is_class(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint)


def _fits(hint: Any, value: Any) -> bool:
    kind = _kind(hint)
    if kind is Literal:
        return value in get_args(hint)
    return isinstance(value, _READ_AS.get(kind, kind)) and (kind is bool or not isinstance(value, bool))


def _word(hint: Any) -> str:
    kind = _kind(hint)
    return " or ".join(map(repr, get_args(hint))) if kind is Literal else _WORDS[kind]


def _hint(options: Sequence[Any], value: Any) -> str:
    known = [word for option in options if get_origin(option) is Literal for word in get_args(option)]
    if isinstance(value, str) and known:
        return f"; {did_you_mean(value, known)}"
    if options[0] is str and len(options) < 3 and isinstance(value, int | float):
        return "; put it in quotes"
    return ""
