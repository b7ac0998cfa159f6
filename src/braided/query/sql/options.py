"""Words that only streams have: what stands behind a stream's name, and at the end of a query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from braided.query.promises import Arrival, RangePunctuation
from braided.query.sql.words import Word, Words
from braided.query.windows import UNBOUNDED, CountWindow, Per

_BUDGETS: dict[
    str, tuple[str, str, int | str]
] = {  # the option, the word that follows, and an example: of a number, or of a text
    "PROBES": ("probes", "", 1000),
    "TARGET": ("target_batch", "BATCH", "2 seconds"),
    "STATE": ("state_rows", "ROWS", 1000),
    "ALLOCATION": ("allocation", "", "jaqpot"),
    "SHED": ("shed", "", "input"),
    "WINDOW": ("window_split", "SPLIT", "max-slow"),
}


@dataclass
class Pair:
    """A WITHIN clause: how far apart (one duration, or from and to), and the two streams."""

    bound: str | tuple[str, str]
    first: Word
    second: Word


def _punctuation(words: Words) -> str | RangePunctuation:
    flag = words.name("a boolean column after PUNCTUATION").text
    upto = words.name("a column after UPTO").text if words.accept("UPTO") else None
    return flag if upto is None else RangePunctuation(flag, upto)


def _window(words: Words) -> str | CountWindow:
    if words.accept("UNBOUNDED"):
        return UNBOUNDED
    if words.peek().kind == "text":
        return words.read().text
    at = words.peek()
    if not words.accept("ROWS"):
        words.wrong(at, f"WINDOW needs '2 hours', ROWS 100 PER KEY, or UNBOUNDED; got {at.shown}")
    rows = words.number("WINDOW ROWS")
    per: Any = words.choice("PER", [p.upper() for p in get_args(Per)]) if words.accept("PER") else "key"
    if not 1 <= rows < 1 << 31:
        words.wrong(at, f"WINDOW ROWS must be at least 1 and less than 2^31; got {rows}")
    return CountWindow(rows, per=per)


def within(words: Words) -> Pair:
    """Read a WITHIN clause."""
    low = words.quoted("WITHIN", "10 minutes")
    high = words.quoted("TO", "10 minutes") if words.accept("TO") else None
    remedy = "write WITHIN '10 minutes' BETWEEN orders AND payments"
    words.expect("BETWEEN", remedy)
    first = words.name("a stream after BETWEEN")
    words.expect("AND", remedy)
    return Pair(low if high is None else (low, high), first, words.name("a stream after AND"))


def _overload(words: Words) -> dict[str, Any]:
    budgets: dict[str, Any] = {}
    while words.peek().upper in _BUDGETS:
        word = words.peek()
        option, value = _budget(words)
        if option in budgets:
            words.wrong(word, f"OVERLOAD {word.upper} is given twice; leave one out")
        budgets[option] = value
    if not budgets:
        known = "PROBES 1000, TARGET BATCH '2 seconds' or STATE ROWS 1000"
        words.wrong(words.peek(), f"OVERLOAD needs {known}; got {words.peek().shown}")
    return budgets


def _budget(words: Words) -> tuple[str, Any]:
    word = words.read().upper
    option, follows, example = _BUDGETS[word]
    after = f"{word} {follows}".rstrip()
    if follows:
        words.expect(follows, f"write {after} {example!r}")
    return option, words.number(after) if isinstance(example, int) else words.quoted(after, example)


def _plan(words: Words) -> str | list[Any]:
    if words.peek().upper != "(":
        return words.choice("PLAN", ("MJOIN", "LINEAR", "((a, b), c)"))
    return _node(words, 0)


def _node(words: Words, depth: int) -> list[Any]:
    """An operator in parentheses: the words that name its streams, and operators below it."""
    opening = words.read()
    if depth > 8:
        words.wrong(opening, "PLAN is nested too deeply; a join has at most 8 streams")
    inputs: list[Any] = []
    while not words.accept(")"):
        if words.peek().kind == "end":
            words.wrong(opening, "PLAN: a parenthesis is not closed")
        inputs.append(
            _node(words, depth + 1) if words.peek().upper == "(" else words.name("a stream in PLAN")
        )
        words.accept(",")
    return inputs


def _emit(words: Words) -> bool:
    words.expect("PUNCTUATIONS", "write EMIT PUNCTUATIONS")
    return True


OPTIONS: dict[str, Callable[[Words], Any]] = {  # behind a stream's name
    "WINDOW": _window,
    "TIME": lambda words: words.name("the time column after TIME").text,
    "LATENESS": lambda words: words.quoted("LATENESS", "1 minute"),
    "FRESHNESS": lambda words: words.quoted("FRESHNESS", "2 hours"),
    "PUNCTUATION": _punctuation,
    "UNIQUE": lambda _: True,
    "ARRIVAL": lambda words: words.choice("ARRIVAL", [a.upper() for a in get_args(Arrival)]),
}
ENDS: dict[str, tuple[str, Callable[[Words], Any]]] = {  # at the end; streams in their values are still words
    "WITHIN": ("within", within),
    "MEMORY": ("memory", lambda words: {"limit": words.quoted("MEMORY", "512 MB")}),
    "OVERLOAD": ("overload", _overload),
    "PLAN": ("plan", _plan),
    "EMIT": ("emit_punctuations", _emit),
}
