"""An engine's whole state as bytes, and back."""

from __future__ import annotations

from braided.engine import codec, saving
from braided.engine.engine import Engine
from braided.engine.state import EngineState
from braided.query.errors import InvalidValue


def save(engine: Engine) -> bytes:
    """The engine's state between two batches."""
    state = saving.save(engine)
    meta = {"meaning": engine.query.meaning(), "numbers": state.numbers}
    return codec.encode(meta, state.parts)


def load(engine: Engine, data: bytes) -> None:
    """Bring a new engine of the same query to the saved state."""
    meta, parts = codec.decode(data)
    if "meaning" not in meta or "numbers" not in meta:
        raise InvalidValue("this saved state is damaged: its numbers are missing")
    different = engine.query.difference(meta["meaning"])
    if different:
        raise InvalidValue(
            f"this state belongs to another query: {different}; restore it with the query that saved it"
        )
    saving.load(engine, EngineState(meta["numbers"], dict(parts)))
