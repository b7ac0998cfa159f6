"""An engine's whole state as bytes, and back."""

from __future__ import annotations

from braided.engine import codec, saving
from braided.engine.engine import Engine
from braided.engine.state import EngineState
from braided.query.errors import InvalidValue

_META = {"meaning": dict, "numbers": dict, "parts": list}


def save(engine: Engine) -> bytes:
    """The engine's state between two batches."""
    state = saving.save(engine)
    meta = {"meaning": engine.query.meaning(), "numbers": state.numbers, "parts": list(state.parts)}
    return codec.encode(meta, state.parts)


def load(engine: Engine, data: bytes) -> None:
    """Bring a new engine of the same query to the saved state."""
    meta, parts = codec.decode(data)
    if not all(
        isinstance(meta.get(n), t) for n, t in (("meaning", dict), ("numbers", dict), ("parts", list))
    ):
        raise InvalidValue("this saved state is damaged: its numbers are missing")
    different = engine.query.difference(meta["meaning"])
    if different:
        raise InvalidValue(
            f"this state belongs to another query: {different}; restore it with the query that saved it"
        )
    state = EngineState(meta["numbers"], dict(parts))
    for name in meta["parts"]:
        state.part(name)
    saving.load(engine, state)
