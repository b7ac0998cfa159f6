"""Values of a file against type hints: `read` builds what a hint asks for.

The JSON Schema (`job.schema.json`) is made of the same hints, so what is checked and what an editor is told
cannot differ.

>>> problems = []
>>> read(tuple[str, ...], ["a", 3], ("columns",), problems)
('a', 3)
>>> problems[0].message
'columns.1 must be a text; got 3; put it in quotes'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from braided.jobs.definitions import helped
from braided.jobs.problems import Place, Problem, called
from braided.query.errors import did_you_mean
from braided.query.values import members

Problems = list[Problem]
Reader = Callable[[Any, Place, Problems], Any]
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "empty",
    Mapping: "a mapping",
    tuple: "a list",
}
MISSING = dataclasses.MISSING


def read(
    hint: Any, value: Any, at: Place, problems: Problems, readers: Mapping[Any, Reader] | None = None
) -> Any:
    """`value` as the hint asks; what does not fit is added to `problems`; `readers` read their own types."""
    readers = readers or {}
    if hint in readers:
        return readers[hint](value, at, problems)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        before = len(problems)
        made = read_options(hint, value, at, problems, readers)
        return hint(**made) if len(problems) == before else None
    options = members(hint)
    chosen = next((option for option in options if _fits(option, value)), None)
    if chosen is None:
        wanted = " or ".join(dict.fromkeys(_word(option) for option in options if option is not type(None)))
        problems.append(
            Problem(at, f"{called(at)} must be {wanted}; got {given(value)}{_hint(options, value)}")
        )
        return value
    if len(options) > 1:
        return read(chosen, value, at, problems, readers)
    parts = get_args(chosen)
    if get_origin(chosen) is tuple:
        return tuple(read(parts[0], v, (*at, i), problems, readers) for i, v in enumerate(value))
    if get_origin(chosen) is not None and isinstance(value, Mapping):
        return {k: read(parts[1], v, (*at, k), problems, readers) for k, v in value.items()}
    return value


def read_options(
    cls: Any, value: Any, at: Place, problems: Problems, readers: Mapping[Any, Reader]
) -> dict[str, Any]:
    """The options of a class, each read by its own; one that is wrong is None, or as it was given."""
    if not isinstance(value, Mapping):
        example = "" if at else "; `braided init` writes an example"
        problems.append(Problem(at, f"{called(at)} must be a mapping; got {given(value)}{example}"))
        return {}
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for name in value:
        if name not in fields:
            hint = did_you_mean(name, fields)
            problems.append(Problem((*at, name), f"{called(at)} has no option {name!r}; {hint}"))
    for name, one in fields.items():
        if required(one) and name not in value:
            problems.append(Problem(at, f"{called(at)}: {name} is missing ({helped(cls)[name]})"))
    return {
        name: read(hints[name], v, (*at, name), problems, readers)
        for name, v in value.items()
        if name in fields and (v is not None or required(fields[name]))
    }


def given(value: Any) -> str:
    """Return a value as an error message shows it; YAML's empty value is nothing."""
    return "nothing" if value is None else repr(value)


def required(one: dataclasses.Field[Any]) -> bool:
    """Whether an option must be given."""
    return one.default is MISSING and one.default_factory is MISSING


def _fits(hint: Any, value: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if dataclasses.is_dataclass(hint) or (origin is not None and origin is not tuple):
        return isinstance(value, Mapping)
    if origin is tuple:
        return isinstance(value, list | tuple)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _word(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if dataclasses.is_dataclass(hint):
        return "a mapping"
    origin = get_origin(hint)
    return _WORDS[hint if origin is None else tuple if origin is tuple else Mapping]


def _hint(options: Sequence[Any], value: Any) -> str:
    known = [word for option in options if get_origin(option) is Literal for word in get_args(option)]
    if isinstance(value, str) and known:
        return f"; {did_you_mean(value, known)}"
    if options[0] is str and len(options) < 3 and isinstance(value, int | float):
        return "; put it in quotes"
    return ""
