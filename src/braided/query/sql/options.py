"""Words that only streams have: what stands behind a stream's name, and at the end of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from braided.query.plan_tree import Plan
from braided.query.promises import Arrival
from braided.query.sql.words import Words
from braided.query.windows import UNBOUNDED, AsOf, CountWindow, Per

_BUDGETS: dict[str, tuple[str, Any]] = {  # option, an example of the value
    "PROBES": ("probes", 1000),
    "TARGET BATCH": ("target_batch", "2 seconds"),
    "STATE ROWS": ("state_rows", 1000),
    "STATE BYTES": ("state_bytes", "2 GB"),
    "INTERMEDIATE ROWS": ("intermediate_rows", 1000),
    "ALLOCATION": ("allocation", "jaqpot"),
    "SHED": ("shed", "input"),
    "WINDOW SPLIT": ("window_split", "max-slow"),
    "CLOCK": ("clock", "wall"),
}
_PLANS = ("MJOIN", "LINEAR", "((a, b), c)")


def _punctuation(words: Words) -> str | dict[str, str]:
    flag = words.name("a boolean column after PUNCTUATION").text
    if not words.accept("UPTO"):
        return flag
    return {"flag": flag, "upto": words.name("a column after UPTO").text}


def _window(words: Words) -> str | CountWindow | AsOf:
    if words.accept("UNBOUNDED"):
        return UNBOUNDED
    at = words.peek()
    if words.accept("AS", "OF"):
        with words.blaming(at):
            return AsOf(words.quoted("WINDOW AS OF", "1 hour"))
    if at.kind == "text":
        return words.read().text
    if not words.accept("ROWS"):
        words.wrong(
            at, f"WINDOW needs '2 hours', ROWS 100 PER KEY, AS OF '1 hour', or UNBOUNDED; got {at.shown}"
        )
    rows = words.number("WINDOW ROWS")
    per: Any = words.choice("PER", [p.upper() for p in get_args(Per)]) if words.accept("PER") else "key"
    with words.blaming(at):
        return CountWindow(rows, per=per)


def _freshness(words: Words) -> str | int:
    """Read a duration, or rows where the window counts them."""
    return words.number("FRESHNESS ROWS") if words.accept("ROWS") else words.quoted("FRESHNESS", "2 hours")


def _within(words: Words) -> tuple[tuple[str, str], str | tuple[str, str]]:
    """Read two streams, and how far apart they are: one duration, or from and to."""
    low = words.quoted("WITHIN", "10 minutes")
    bound = (low, words.quoted("TO", "10 minutes")) if words.accept("TO") else low
    remedy = "write WITHIN '10 minutes' BETWEEN orders AND payments"
    words.expect("BETWEEN", remedy)
    first = _stream(words, "a stream after BETWEEN")
    words.expect("AND", remedy)
    at, second = words.peek(), _stream(words, "a stream after AND")
    if first == second:
        words.wrong(at, f"WITHIN needs two different streams; got {first!r} twice")
    return (first, second), bound


def _stream(words: Words, what: str) -> str:
    word = words.name(what)
    return words.stream(word.text, word).text


def _overload(words: Words) -> dict[str, Any]:
    budgets: dict[str, Any] = {}
    while (word := words.peek()).upper in {phrase.split()[0] for phrase in _BUDGETS}:
        phrase = _budget(words)
        option, example = _BUDGETS[phrase]
        if option in budgets:
            words.wrong(word, f"OVERLOAD {phrase} is given twice; leave one out")
        budgets[option] = words.number(phrase) if isinstance(example, int) else words.quoted(phrase, example)
    if not budgets:
        known = "PROBES 1000, TARGET BATCH '2 seconds' or STATE ROWS 1000"
        words.wrong(word, f"OVERLOAD needs {known}; got {word.shown}")
    return budgets


def _budget(words: Words) -> str:
    """Read the one or two words of a budget."""
    first = words.read().upper
    phrases = [phrase for phrase in _BUDGETS if phrase.split()[0] == first]
    if first in phrases:
        return first
    found = next((phrase for phrase in phrases if words.accept(phrase.split()[1])), None)
    if found is None:
        words.expect(phrases[0].split()[1], f"write {phrases[0]} {_BUDGETS[phrases[0]][1]!r}")
    return found or phrases[0]


def _plan(words: Words, depth: int = 0) -> Plan:
    opening = words.peek()
    if not words.accept("("):
        return _stream(words, "a stream in PLAN") if depth else words.choice("PLAN", _PLANS)
    if depth > 16:
        words.wrong(opening, "PLAN is nested too deeply; a join has at most 16 streams")
    inputs = []
    while not words.accept(")"):
        if words.peek().kind == "end":
            words.wrong(opening, "PLAN: a parenthesis is not closed")
        inputs.append(_plan(words, depth + 1))
        words.accept(",")
    return tuple(inputs)


def _emit(words: Words) -> bool:
    return bool(words.expect("PUNCTUATIONS", "write EMIT PUNCTUATIONS"))


OPTIONS: dict[str, Callable[[Words], Any]] = {  # behind a stream's name
    "KEY": lambda words: words.name("the column after KEY that promises are about").text,
    "WINDOW": _window,
    "TIME": lambda words: words.name("the time column after TIME").text,
    "LATENESS": lambda words: words.quoted("LATENESS", "1 minute"),
    "FRESHNESS": _freshness,
    "PUNCTUATION": _punctuation,
    "UNIQUE": lambda _: True,
    "ARRIVAL": lambda words: words.choice("ARRIVAL", [a.upper() for a in get_args(Arrival)]),
}
ENDS: dict[str, tuple[str, Callable[[Words], Any]]] = {  # at the end
    "WITHIN": ("within", _within),
    "MEMORY": ("memory", lambda words: {"limit": words.quoted("MEMORY", "512 MB")}),
    "OVERLOAD": ("overload", _overload),
    "PLAN": ("plan", _plan),
    "EMIT": ("emit_punctuations", _emit),
}
