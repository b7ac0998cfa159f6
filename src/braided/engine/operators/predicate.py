"""Evaluates a residual condition on columns, with Arrow.

SQL's three-valued logic: a comparison with null is null, and a combination passes only if the
condition is true. Division is in double precision, and null where the divisor is zero. Integers do not
overflow: where 64 bits do not hold a value, the condition is evaluated again in decimals. Comparisons of
floats follow IEEE, so nothing compares true with NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.policies.arrays import Bools
from braided.query.condition import Call, Column, Condition, Literal
from braided.query.errors import InvalidType, InvalidValue

_WIDE = pa.decimal256(20, 0)
_ARITHMETIC = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def check(condition: Condition, types: Mapping[tuple[str, str], pa.DataType], text: str) -> None:
    """Raise unless the condition can be evaluated on columns of these types."""
    empty = {name: pa.array([], type_) for name, type_ in types.items()}
    try:
        answer = evaluate(condition, empty)
    except pa.ArrowException as wrong:
        used = ", ".join(f"{s}.{c} is {t}" for (s, c), t in sorted(types.items()))
        reason = str(wrong).splitlines()[0]
        raise InvalidType(f"where cannot be evaluated: {text!r} ({used}): {reason}") from None
    if not pa.types.is_boolean(answer.type) and not pa.types.is_null(answer.type):
        raise InvalidType(f"where must be a condition; {text!r} has type {answer.type}")


def passes(condition: Condition, columns: Mapping[tuple[str, str], pa.Array], rows: int, text: str) -> Bools:
    """Which rows the condition is true for."""
    try:
        answer = evaluate(condition, columns)
    except pa.ArrowInvalid:
        answer = _evaluate_wide(condition, columns, text)
    if isinstance(answer, pa.Scalar):
        return np.full(rows, answer.as_py() is True)
    if pa.types.is_null(answer.type):
        return np.zeros(rows, np.bool_)
    return np.asarray(pc.fill_null(answer, False).to_numpy(zero_copy_only=False))


def _evaluate_wide(condition: Condition, columns: Mapping[tuple[str, str], pa.Array], text: str) -> Any:
    wide = {
        name: column.cast(_WIDE) if pa.types.is_integer(column.type) else column
        for name, column in columns.items()
    }
    try:
        return evaluate(condition, wide)
    except pa.ArrowException as wrong:
        raise InvalidValue(f"where failed on the data: {text!r}: {wrong}") from None


def evaluate(condition: Condition, columns: Mapping[tuple[str, str], pa.Array]) -> Any:
    """The condition's value: an array, or a scalar if it names no column."""
    if isinstance(condition, Column):
        return _plain(columns[condition.stream, condition.column])
    if isinstance(condition, Literal):
        return _literal(condition)
    return _call(condition, [evaluate(a, columns) for a in condition.arguments])


def _call(call: Call, values: list[Any]) -> Any:
    name = call.operation
    if name in _COMPARISONS:
        return _COMPARISONS[name](*_comparable(*values))
    if name in ("and", "or"):
        return (pc.and_kleene if name == "and" else pc.or_kleene)(*map(_boolean, values))
    if name == "in":
        matches = [pc.equal(*_comparable(values[0], v)) for v in values[1:]]
        return functools.reduce(pc.or_kleene, matches)
    return _SIMPLE[name](*values) if name in _SIMPLE else _ARITHMETIC[name](*values)


def _like(value: Any, pattern: Any) -> Any:
    if not isinstance(pattern, pa.StringScalar):
        raise pa.ArrowInvalid("LIKE needs a pattern in quotes")
    return pc.match_like(value, pattern.as_py())


def _divide(a: Any, b: Any) -> Any:
    """A true division; null where the divisor is zero."""
    return pc.divide(pc.cast(a, pa.float64()), _non_zero(pc.cast(b, pa.float64())))


def _modulo(a: Any, b: Any) -> Any:
    b = _non_zero(b)
    if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
        return pc.subtract(a, pc.multiply(pc.divide(a, b), b))
    return pc.subtract(a, pc.multiply(pc.trunc(pc.divide(a, b)), b))


def _non_zero(b: Any) -> Any:
    return pc.if_else(pc.equal(b, pa.scalar(0).cast(b.type)), pa.scalar(None, b.type), b)


_SIMPLE: dict[str, Callable[..., Any]] = {
    "not": lambda a: pc.invert(_boolean(a)),
    "neg": pc.negate_checked,
    "abs": pc.abs_checked,
    "is null": pc.is_null,
    "like": _like,
    "/": _divide,
    "%": _modulo,
}


def _comparable(a: Any, b: Any) -> tuple[Any, Any]:
    """Read a quoted literal as the type it is compared with."""
    if isinstance(a, pa.StringScalar) and not _is_text(b.type):
        return _cast_literal(a, b.type), b
    if isinstance(b, pa.StringScalar) and not _is_text(a.type):
        return a, _cast_literal(b, a.type)
    return a, b


def _cast_literal(literal: pa.Scalar, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_timestamp(type_) and type_.tz:
        text = literal.as_py()
        zoned = text if text.endswith("Z") or "+" in text[10:] or "-" in text[10:] else text + "Z"
        return pa.scalar(zoned).cast(type_)
    return literal.cast(type_)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _boolean(value: Any) -> Any:
    return value.cast(pa.bool_()) if pa.types.is_null(value.type) else value


def _literal(literal: Literal) -> pa.Scalar:
    if literal.kind == "date":
        return pa.scalar(literal.value).cast(pa.date32())
    if isinstance(literal.value, int) and not -(1 << 63) <= literal.value < 1 << 63:
        return pa.scalar(Decimal(literal.value), pa.decimal256(76, 0))
    return pa.scalar(literal.value)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
