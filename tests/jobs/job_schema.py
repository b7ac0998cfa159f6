"""The JSON Schema of a job file, made from the classes that check it, for editors.

`src/braided/jobs/job.schema.json` is what `text()` gives; a test says when it is not, and
`python -m tests.jobs.job_schema` writes it again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin, get_type_hints

from braided.jobs.definitions import SCHEMA_FILE, JobFile, helped
from braided.jobs.shapes import required
from braided.query.join_query import JoinQuery
from braided.query.parts import MAX_STREAMS
from braided.query.stream import Stream
from braided.query.tuning import Index, Tuning
from braided.query.values import members

_ENVIRONMENT = {"type": "string", "pattern": r"\$\{"}  # ${NAME} may stand for anything
_TEXT: dict[str, Any] = {"type": "string"}
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def text() -> str:
    """The schema as it is shipped."""
    return json.dumps(json_schema(), indent=1) + "\n"


def json_schema() -> dict[str, Any]:
    """The schema of a whole job file."""
    classes: dict[str, Any] = {}
    top = _class(JobFile, classes)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Braided job",
        **top,
        "definitions": {name: classes[name] for name in sorted(classes)},
    }


def _class(cls: Any, classes: dict[str, Any]) -> dict[str, Any]:
    """An object with the options of a class and no others."""
    hints = get_type_hints(cls, localns={"Plan": str})
    words, properties = helped(cls) if cls.__module__ == JobFile.__module__ else {}, {}
    for one in dataclasses.fields(cls):
        said = _OWN.get((cls, one.name)) or _any_of(_hint(m, classes) for m in members(hints[one.name]))
        properties[one.name] = _described(said, words.get(one.name))
        _note_classes(cls, one.name, classes)
    needed = [f.name for f in dataclasses.fields(cls) if required(f)]
    return {
        "type": "object",
        "description": _first_line(cls),
        "properties": properties,
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def _note_classes(cls: Any, option: str, classes: dict[str, Any]) -> None:
    """Classes that an option described by hand refers to."""
    if (cls, option) == (JobFile, "query"):
        _reference(JoinQuery, classes)
    if (cls, option) == (JoinQuery, "streams"):
        _reference(Stream, classes)
        named = classes["Stream"]
        inner = {**named, "required": [n for n in named.get("required", []) if n != "name"]}
        classes["NamedStream"] = {k: v for k, v in inner.items() if k != "required" or v}


def _hint(hint: Any, classes: dict[str, Any]) -> dict[str, Any] | None:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is timedelta:
        return None  # a duration in a file is a text
    if dataclasses.is_dataclass(hint):
        return _reference(hint, classes)
    if origin is Literal:
        return _or_environment({"enum": list(parts)})
    if origin is not None and issubclass(origin, Mapping):
        inner = _any_of(_hint(m, classes) for m in members(parts[1]))
        return {"type": "object", "additionalProperties": inner}
    if origin is tuple or (origin is not None and issubclass(origin, Sequence)):
        return {"type": "array", "items": _any_of(_hint(m, classes) for m in members(parts[0]))}
    if hint is str or hint is type(None):
        return {"type": _PLAIN[hint]}
    return _or_environment({"type": _PLAIN[hint]})


def _reference(cls: Any, classes: dict[str, Any]) -> dict[str, Any]:
    if cls.__name__ not in classes:
        classes[cls.__name__] = {}  # so that a class may hold itself
        classes[cls.__name__] = _class(cls, classes)
    return {"$ref": f"#/definitions/{cls.__name__}"}


def _any_of(schemas: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for schema in schemas:
        for one in (schema or {}).get("anyOf", [schema]):
            if one is not None and one not in found:
                found.append(one)
    if _TEXT in found:
        found = [one for one in found if one != _ENVIRONMENT]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _or_environment(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, _ENVIRONMENT]}


def _described(schema: dict[str, Any], words: str | None) -> dict[str, Any]:
    if not words:
        return schema
    if "$ref" in schema:
        schema = {"allOf": [schema]}  # draft 7 ignores what stands beside a reference
    return {"description": words, **schema}


def _first_line(cls: Any) -> str:
    return str(cls.__doc__).strip().splitlines()[0]


_LIST = {"type": "array"}
_PAIR = {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}
_WITHIN_ITEM = {
    "type": "object",
    "properties": {"streams": _PAIR, "from": _TEXT, "to": _TEXT},
    "required": ["streams", "from", "to"],
    "additionalProperties": False,
}
_NAMED = {"$ref": "#/definitions/NamedStream"}
_OWN: dict[tuple[Any, str], dict[str, Any]] = {
    (JobFile, "query"): {"anyOf": [{"$ref": "#/definitions/JoinQuery"}, _TEXT]},
    (JoinQuery, "streams"): {
        "description": "the streams by name, or a list of streams with a name each",
        "anyOf": [
            {
                "type": "object",
                "additionalProperties": _NAMED,
                "minProperties": 2,
                "maxProperties": MAX_STREAMS,
            },
            {
                "type": "array",
                "items": {"$ref": "#/definitions/Stream"},
                "minItems": 2,
                "maxItems": MAX_STREAMS,
            },
        ],
    },
    (JoinQuery, "on"): {
        "description": "pairs of equal columns: `orders.item = items.id`, or a list of two",
        "type": "array",
        "items": {"anyOf": [_TEXT, _PAIR]},
    },
    (JoinQuery, "within"): {
        "description": "bounds on pairs: `orders, payments: 1 hour`, or `[0 seconds, 1 hour]` (from, to)",
        "anyOf": [
            {"type": "object", "additionalProperties": {"anyOf": [_TEXT, _PAIR]}},
            {"type": "array", "items": {"anyOf": [_WITHIN_ITEM, _LIST]}},
        ],
    },
    (JoinQuery, "select"): {
        "description": "output names and what they are, such as `order_id: orders.order_id`",
        "type": "object",
        "additionalProperties": _TEXT,
    },
    (JoinQuery, "plan"): {
        "description": "`mjoin`, `linear`, or nested lists of stream names",
        "anyOf": [{"enum": ["mjoin", "linear"]}, _LIST, _ENVIRONMENT],
    },
    (Tuning, "index"): {
        "description": "one choice, or one per stream",
        "anyOf": [
            {"enum": list(get_args(Index))},
            {"type": "object", "additionalProperties": {"enum": list(get_args(Index))}},
            _LIST,
            _ENVIRONMENT,
        ],
    },
    (Tuning, "selectivities"): {
        "description": "what is known of streams and pairs, as [[names, share], ...] or by stream",
        "anyOf": [_LIST, {"type": "object"}],
    },
}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(text(), encoding="utf-8")
