"""The words of a query text, one after the other; an error names its line and column.

Words come from sqlglot's tokenizer, so that texts, quoted names and comments are never mistaken for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar

from braided.query.condition import sqlglot
from braided.query.errors import BraidedError, InvalidType, InvalidValue, did_you_mean

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

    @property
    def names(self) -> bool:
        """Whether it can be the name of something."""
        return self.kind in ("word", "name")


class Words:
    """A query text, read from left to right."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidType(f"sql must be a query as text; got {text!r}")
        self.text, self._at, end = text, 0, len(text.rstrip())
        self.streams: dict[str, Word] = {}  # by what the text calls them, once FROM and JOIN are read
        package = sqlglot("sql")
        try:
            tokens = package.tokenize(text)
        except package.errors.SqlglotError:
            self._not_closed()
        self._words = [*(_word(token, text) for token in tokens), Word("end", "", "", end, end)]

    def peek(self, ahead: int = 0) -> Word:
        """Return a word that is still to be read."""
        return self._words[min(self._at + ahead, len(self._words) - 1)]

    def read(self) -> Word:
        """Read the next word; at the end that is the end, every time."""
        word = self.peek()
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def accept(self, *upper: str) -> Word | None:
        """Read the next words if they are these; otherwise read nothing and return None."""
        if any(self.peek(i).upper != word for i, word in enumerate(upper)):
            return None
        return [self.read() for _ in upper][-1]

    def expect(self, upper: str, remedy: str) -> Word:
        """Read the next word, which must be this one."""
        word = self.peek()
        return self.accept(upper) or self.wrong(word, f"expected {upper}, got {word.shown}; {remedy}")

    def name(self, what: str) -> Word:
        """Read the next word as the name of something."""
        word = self.read()
        if not word.names:
            self.wrong(word, f"expected {what}, got {word.shown}")
        return word

    def quoted(self, after: str, example: str) -> str:
        """Read the next word, which must be a text in single quotes."""
        word = self.read()
        if word.kind != "text":
            self.wrong(word, f"{after} needs a text in single quotes such as '{example}'; got {word.shown}")
        return word.text

    def number(self, after: str) -> int:
        """Read the next word, which must be a whole number."""
        word = self.read()
        if word.kind != "number" or not word.text.isdecimal() or len(word.text) > 18:
            self.wrong(word, f"{after} needs a whole number such as 1000; got {word.shown}")
        return int(word.text)

    def choice(self, after: str, known: Iterable[str]) -> str:
        """Read the next word, which must be one of these, and return it in small letters."""
        word, names = self.read(), list(known)
        if word.upper not in names:
            hint = did_you_mean(word.text.upper(), names)
            self.wrong(word, f"{after} must be {' or '.join(names)}; got {word.shown}; {hint}")
        return word.upper.lower()

    def stream(self, name: str, at: Word | int) -> Word:
        """Return the stream that the text calls by this name; an unknown one raises."""
        if name not in self.streams:
            self.wrong(at, f"no stream {name!r}; {did_you_mean(name, self.streams)}")
        return self.streams[name]

    def listed(self, read: Callable[[Words], T]) -> list[T]:
        """Read items with `read` as long as a comma follows."""
        items = [read(self)]
        while self.accept(","):
            items.append(read(self))
        return items

    def dotted(self) -> bool:
        """Return whether the next word is part of a name such as orders.window, or of :limit."""
        before = self._words[self._at - 1].text if self._at else ""
        return before in (".", ":", "@") or self.peek(1).text == "."

    def wrong(self, at: Word | int, message: str) -> NoReturn:
        """Raise, with line and column."""
        offset = at if isinstance(at, int) else at.start
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        place = f"sql, line {line}, column {column}"
        raise InvalidValue(f"{place}: {message}", position=(line, column)) from None

    @contextmanager
    def blaming(self, at: Word | int) -> Iterator[None]:
        """Give errors raised meanwhile a place in the text."""
        try:
            yield
        except BraidedError as wrong:
            self.wrong(at, str(wrong))

    def _not_closed(self) -> NoReturn:
        """Raise about a text that cannot be cut into words."""
        opening = next((m for m in _QUOTED.finditer(self.text) if m["open"]), None)
        if opening is None:
            self.wrong(0, "this cannot be read; look for a quote that is not closed")
        what = "a comment" if opening["open"] == "/*" else f"a quote ({opening['open']})"
        self.wrong(opening.start(), f"{what} that is not closed; close it, or look for one missing before")


def _word(token: Any, text: str) -> Word:
    joined, kind = " ".join(text[token.start : token.end + 1].split()), token.token_type.name
    otherwise: Kind = "word" if joined.replace(" ", "").isidentifier() else "sign"
    upper = "" if kind in _KINDS else joined.upper()
    return Word(_KINDS.get(kind, otherwise), token.text, upper, token.start, token.end + 1, kind == "VAR")
