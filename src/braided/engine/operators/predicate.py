"""Evaluates a residual condition on columns, with Arrow.

SQL's three-valued logic: a comparison with null is null, and a combination passes only if the
condition is true. Division is in double precision, and null where the divisor is zero. Where Arrow's types
do not hold a whole number or a decimal, the operation is done again in Python's decimals, which do; more than
76 digits raise. NaN equals NaN and is larger than any other number, as in keys, in Spark and in DuckDB.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, localcontext
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.policies.arrays import Bools
from braided.query.condition import MOST_DIGITS, Call, Column, Condition, Literal, show
from braided.query.errors import InvalidType, InvalidValue

EXACT: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": lambda a, b: a % b if b else None,
    "neg": operator.neg,
    "abs": abs,
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
    """Tell for which rows the condition is true."""
    try:
        answer = evaluate(condition, columns)
    except pa.ArrowException as wrong:
        raise InvalidValue(f"where failed on the data: {text!r}: {wrong}") from None
    answer = pc.fill_null(_boolean(answer), False)
    if isinstance(answer, pa.Scalar):
        return np.full(rows, answer.as_py())
    return np.asarray(answer.to_numpy(zero_copy_only=False))


def evaluate(condition: Condition, columns: Mapping[tuple[str, str], pa.Array]) -> Any:
    """The condition's value: an array, or a scalar if it names no column."""
    if isinstance(condition, Column):
        return columns[condition.stream, condition.column]
    if isinstance(condition, Literal):
        return literal_of(condition)
    name, values = condition.operation, [evaluate(a, columns) for a in condition.arguments]
    try:
        return _OPERATIONS[name](*values)
    except pa.ArrowInvalid:
        if name in EXACT and _any_float(values):
            return _OPERATIONS[name](*map(_float, values))
        if name in EXACT and all(pa.types.is_integer(v.type) or pa.types.is_decimal(v.type) for v in values):
            return _exactly(condition, values)
        raise


def _compare(comparison: Callable[..., Any], a: Any, b: Any) -> Any:
    a, b = _beside(a, b.type), _beside(b, a.type)
    floats = _any_float((a, b))
    try:
        answer = comparison(a, b)
    except pa.ArrowInvalid:  # integers that the other type does not hold
        a, b = map(_float if floats else _wide, (a, b))
        answer = comparison(a, b)
    return _compare_nan(comparison, a, b, answer) if floats else answer


def _compare_nan(comparison: Callable[..., Any], a: Any, b: Any, answer: Any) -> Any:
    """The answer, where one of both is NaN: whether it is NaN compares instead, false before true."""
    nans = [pc.is_nan(_float(value)) for value in (a, b)]
    either = pc.or_(*nans)
    if not pc.any(either if isinstance(either, pa.Array) else pa.array([either.as_py()], pa.bool_())).as_py():
        return answer
    return pc.if_else(either, comparison(*nans), answer)


def _exactly(call: Call, values: list[Any]) -> Any:
    """An operation on whole numbers and decimals whose result Arrow's own types may not hold."""
    arrays = [v for v in values if isinstance(v, pa.Array)]
    rows = len(arrays[0]) if arrays else 1
    columns = [v.to_pylist() if isinstance(v, pa.Array) else [v.as_py()] * rows for v in values]
    with localcontext(prec=6 * MOST_DIGITS):
        given = zip(*([None if x is None else Decimal(x) for x in column] for column in columns), strict=True)
        results = [None if None in row else EXACT[call.operation](*row) for row in given]
    sizes = [(x.adjusted() + 1, -x.as_tuple().exponent) for x in results if x is not None]
    scale = max((scale for _, scale in sizes), default=0)
    digits = max((digits for digits, _ in sizes), default=1)
    if max(digits, 1) + scale > MOST_DIGITS:
        raise InvalidValue(
            f"where: {show(call)} has more than {MOST_DIGITS} digits; cast a column to double "
            "precision before the join"
        )
    made = pa.array(results, pa.decimal256(max(digits, 1) + scale, scale))
    return made if arrays else made[0]


def _like(value: Any, pattern: Any) -> Any:
    text = pattern.as_py()
    if "\\" not in text:
        return pc.match_like(value, text)
    pieces = re.findall(r"\\(.)|([%_])|(.)", text, re.DOTALL)
    wild = {"%": ".*", "_": ".", "": ""}
    regex = "".join(wild[any_] + re.escape(escaped + plain) for escaped, any_, plain in pieces)
    return pc.match_substring_regex(value, rf"(?s)\A{regex}\z")


def _modulo(a: Any, b: Any) -> Any:
    """The remainder, with the sign of `a`; null where `b` is zero."""
    if _any_float((a, b)):
        return _float_modulo(_float(a), _non_zero(_float(b)))
    a, b = (pc.cast(v, pa.int64()) if pa.types.is_null(v.type) else v for v in (a, b))
    if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
        b = _non_zero(b)
        if pa.types.is_signed_integer(b.type):  # the smallest integer has no quotient by -1
            b = pc.if_else(pc.equal(b, pa.scalar(-1, b.type)), pa.scalar(1, b.type), b)
        return pc.subtract(a, pc.multiply(pc.divide(a, b), b))
    raise pa.ArrowInvalid(f"no remainder of {a.type} and {b.type}")


def _float_modulo(a: Any, b: Any) -> Any:
    """C's fmod: exact, where `a - trunc(a / b) * b` is rounded three times."""
    both = [v if isinstance(v, pa.Array) else pa.array([v.as_py()], v.type) for v in (a, b)]
    with np.errstate(invalid="ignore"):
        answer = pa.array(np.fmod(*(v.to_numpy(zero_copy_only=False) for v in both)))
    nulls = pc.or_(pc.is_null(a), pc.is_null(b))
    return pc.if_else(nulls, pa.scalar(None, pa.float64()), answer if len(answer) != 1 else answer[0])


def _non_zero(b: Any) -> Any:
    return pc.if_else(pc.equal(b, pa.scalar(0).cast(b.type)), pa.scalar(None, b.type), b)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "=": partial(_compare, pc.equal),
    "<>": partial(_compare, pc.not_equal),
    "<": partial(_compare, pc.less),
    "<=": partial(_compare, pc.less_equal),
    ">": partial(_compare, pc.greater),
    ">=": partial(_compare, pc.greater_equal),
    "and": lambda a, b: pc.and_kleene(_boolean(a), _boolean(b)),
    "or": lambda a, b: pc.or_kleene(_boolean(a), _boolean(b)),
    "in": lambda a, *others: reduce(pc.or_kleene, [_compare(pc.equal, a, b) for b in others]),
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": lambda a, b: pc.divide(_float(a), _non_zero(_float(b))),
    "%": _modulo,
    "neg": pc.negate_checked,
    "abs": pc.abs_checked,
    "not": lambda a: pc.invert(_boolean(a)),
    "is null": pc.is_null,
    "like": _like,
}


def _any_float(values: Iterable[Any]) -> bool:
    return any(pa.types.is_floating(v.type) for v in values)


def _float(value: Any) -> Any:
    return pc.cast(value, pa.float64(), safe=False)


def _wide(value: Any) -> Any:
    return pc.cast(value, pa.decimal256(20, 0)) if pa.types.is_integer(value.type) else value


def _beside(value: Any, type_: pa.DataType) -> Any:
    """Read a literal as the type it is compared with; one without a time zone as UTC."""
    zoned = pa.types.is_timestamp(type_) and type_.tz
    if isinstance(value, pa.TimestampScalar) and not value.type.tz:
        return value.cast(pa.timestamp(value.type.unit, "UTC")) if zoned else value
    if not isinstance(value, pa.StringScalar) or pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return value
    text = value.as_py()
    return pa.scalar(text if not zoned or re.search("Z$|[+-]", text[10:]) else f"{text}Z").cast(type_)


def _boolean(value: Any) -> Any:
    return value.cast(pa.bool_()) if pa.types.is_null(value.type) else value


def literal_of(literal: Literal) -> pa.Scalar:
    """A constant as Arrow has it."""
    if literal.kind == "date":
        return pa.scalar(literal.value).cast(pa.date32())
    if literal.kind == "timestamp":
        return _timestamp(str(literal.value))
    if isinstance(literal.value, int) and not -(1 << 63) <= literal.value < 1 << 63:
        return pa.scalar(Decimal(literal.value), pa.decimal256(len(str(literal.value)), 0))
    return pa.scalar(literal.value)


def _timestamp(text: str) -> pa.Scalar:
    for unit, zone in itertools.product(("us", "ns"), (None, "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            return pa.scalar(text).cast(pa.timestamp(unit, zone))
    raise pa.ArrowInvalid(f"{text!r} is no timestamp")
