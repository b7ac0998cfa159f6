"""A query's meaning: the part of its plain values that decides the result, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS = ("streams", "on", "within", "where", "select", "emit_punctuations")


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Describe the first part that differs; None if there is none."""
    for part in PARTS:
        if new.get(part) != old.get(part):
            streams = _stream_difference(old.get(part), new[part]) if part == "streams" else None
            return streams or f"{part} was {old.get(part)!r} and is {new.get(part)!r}"
    return None


def _stream_difference(old: Any, new: list[dict[str, Any]]) -> str | None:
    """Describe the option in which a stream differs, or their order, if the streams are the same ones."""
    before = {stream["name"]: stream for stream in old or ()}
    names = [stream["name"] for stream in new]
    if sorted(before) != sorted(names):
        return None
    for now in new:
        was = before[now["name"]]
        for option in [*was, *now]:
            if was.get(option) != now.get(option):
                return (
                    f"streams: {option} of {now['name']!r} was {was.get(option)!r} and is {now.get(option)!r}"
                )
    return f"streams: their order, which is that of the result's columns, was {list(before)} and is {names}"
