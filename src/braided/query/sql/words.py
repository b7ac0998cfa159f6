"""The words of a query text, one after the other; an error names its line and column.

Words come from sqlglot's tokenizer, so that texts, quoted names and comments are never mistaken for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

from braided.query.condition import sqlglot
from braided.query.errors import InvalidType, InvalidValue, did_you_mean

T = TypeVar("T")
Kind = Literal["word", "name", "text", "number", "sign", "end"]
_KINDS: dict[str, Kind] = {"STRING": "text", "NUMBER": "number", "IDENTIFIER": "name"}
# texts, quoted names and comments; what opens one of them and is left over is not closed
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|(?P<open>['"]|/\*)""", re.DOTALL)


@dataclass(frozen=True)
class Word:
    """A word, a "quoted name", a 'text', a number or a sign; `upper` is what an unquoted word says."""

    kind: Kind
    text: str
    upper: str
    start: int
    end: int
    plain: bool = True

    @property
    def shown(self) -> str:
        """How an error message calls it."""
        return "the end" if self.kind == "end" else repr(self.text)


class Words:
    """A query text, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = _tokens(text)
        self._at = 0

    def peek(self, ahead: int = 0) -> Word:
        """A word that is still to be read."""
        return self._words[min(self._at + ahead, len(self._words) - 1)]

    def read(self) -> Word:
        """The next word; at the end it is the end, again and again."""
        word = self.peek()
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def accept(self, *upper: str) -> Word | None:
        """The next words if they are these, else None, and nothing is read."""
        if any(self.peek(i).upper != word for i, word in enumerate(upper)):
            return None
        return [self.read() for _ in upper][-1]

    def expect(self, upper: str, remedy: str) -> Word:
        """The next word, which must be this one."""
        found = self.accept(upper)
        return found or self.wrong(self.peek(), f"expected {upper}, got {self.peek().shown}; {remedy}")

    def name(self, what: str) -> Word:
        """The next word, as the name of something."""
        word = self.read()
        if word.kind not in ("word", "name"):
            self.wrong(word, f"expected {what}, got {word.shown}")
        return word

    def quoted(self, after: str, example: str) -> str:
        """The next word, which must be a text in single quotes."""
        word = self.read()
        if word.kind != "text":
            self.wrong(word, f"{after} needs a text in single quotes such as '{example}'; got {word.shown}")
        return word.text

    def number(self, after: str) -> int:
        """The next word, which must be a whole number."""
        word = self.read()
        if word.kind != "number" or not word.text.isdecimal() or len(word.text) > 18:
            self.wrong(word, f"{after} needs a whole number such as 1000; got {word.shown}")
        return int(word.text)

    def choice(self, after: str, known: Iterable[str]) -> str:
        """The next word, which must be one of these; in small letters."""
        word, names = self.read(), list(known)
        if word.upper not in names:
            hint = did_you_mean(word.text.upper(), names)
            self.wrong(word, f"{after} must be {' or '.join(names)}; got {word.shown}; {hint}")
        return word.upper.lower()

    def listed(self, read: Callable[[Words], T]) -> list[T]:
        """What `read` reads, as often as a comma follows."""
        items = [read(self)]
        while self.accept(","):
            items.append(read(self))
        return items

    def dotted(self) -> bool:
        """Whether the next word is part of a name such as orders.window, or of :limit."""
        before = self._words[self._at - 1].text if self._at else ""
        return before in (".", ":", "@") or self.peek(1).text == "."

    def wrong(self, at: Word | int, message: str) -> NoReturn:
        """Raise, with line and column."""
        raise self.error(at, message) from None

    def error(self, at: Word | int, message: str) -> InvalidValue:
        """The error, with line and column."""
        return _error(self.text, at if isinstance(at, int) else at.start, message)


def _error(text: str, offset: int, message: str) -> InvalidValue:
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return InvalidValue(f"sql, line {line}, column {column}: {message}", position=(line, column))


def _tokens(text: str) -> list[Word]:
    if not isinstance(text, str):
        raise InvalidType(f"sql must be a query as text; got {text!r}")
    package = sqlglot("sql")
    try:
        tokens = package.tokenize(text)
    except package.errors.SqlglotError:
        raise _not_closed(text) from None
    end = len(text.rstrip())
    return [*(_word(token, text) for token in tokens), Word("end", "", "", end, end)]


def _not_closed(text: str) -> InvalidValue:
    """The error about a text that cannot be cut into words."""
    opening = next((m for m in _QUOTED.finditer(text) if m["open"]), None)
    if opening is None:
        return _error(text, 0, "this cannot be read; look for a quote that is not closed")
    what = "a comment" if opening["open"] == "/*" else f"a quote ({opening['open']})"
    return _error(
        text, opening.start(), f"{what} that is not closed; close it, or look for one missing before"
    )


def _word(token: Any, text: str) -> Word:
    written = text[token.start : token.end + 1]
    joined = " ".join(written.split())
    kind = _KINDS.get(token.token_type.name)
    if kind is None:
        kind = "word" if joined.replace(" ", "").isidentifier() else "sign"
    upper = joined.upper() if kind in ("word", "sign") else ""
    plain = token.token_type.name == "VAR"
    return Word(kind, token.text, upper, token.start, token.end + 1, plain)
