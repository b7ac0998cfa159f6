"""A YAML file as plain values that remember their lines, with environment variables put in.

Scalars are read as in YAML 1.2: only `true` and `false` are truth values, so that `on` and `no` stay words,
and dates and times stay texts. A key that comes twice is a problem, and so is a variable that is not set.
What a file can cost is bounded: its bytes, the digits of a number, and the values its aliases grow to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from braided.jobs.problems import JobError, Place, Problem, Problems
from braided.query.errors import BraidedError, InvalidValue, did_you_mean

try:
    import yaml
except ImportError:
    raise BraidedError(
        "job files need the package PyYAML; install it with: pip install 'braided[cli]'"
    ) from None

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TAG = "tag:yaml.org,2002:"
_MOST_BYTES = 1_000_000
_MOST_VALUES = 20_000
_MOST_DIGITS = 40


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Composes nodes by the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _kind, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_pattern})$"), None)


@dataclass(frozen=True)
class Document:
    """What a file says: `data` in dicts, lists and scalars; `lines` has the place of each key and item."""

    name: str
    data: Any = field(repr=False)  # it may hold credentials
    lines: Mapping[Place, int] = field(repr=False)
    problems: tuple[Problem, ...] = ()

    def line(self, at: Place) -> int:
        """The line of a value, or of the innermost thing around it that is in the file."""
        while at not in self.lines and at:
            at = at[:-1]
        return self.lines.get(at, 1)

    def sentence(self, at: Place, message: str) -> str:
        """A message about a value, after its file and line."""
        return f"{self.name}:{self.line(at)}: {message}"

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Raise if there are problems: all of them, in the order of the file."""
        ordered = sorted(problems, key=lambda problem: self.line(problem.at))
        lines = dict.fromkeys(self.sentence(p.at, " ".join(p.message.splitlines())) for p in ordered)
        if lines:
            head = f"{self.name} has {len(lines)} problems:\n" if len(lines) > 1 else ""
            raise JobError(head + "\n".join(lines))


def read_document(path: Path, environment: Mapping[str, str] | None = None) -> Document:
    """Read the document in a file; what is not YAML raises, with line and column."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise InvalidValue(f"{str(path)!r} has more than {_MOST_BYTES:,} bytes; a job file is YAML")
        return parse(content.decode("utf-8-sig"), str(path), environment)
    except FileNotFoundError:
        beside = sorted(p.name for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
        hint = did_you_mean(path.name, beside) if beside else "`braided init` writes an example"
        raise InvalidValue(f"there is no job file {str(path)!r}; {hint}") from None
    except IsADirectoryError:
        raise InvalidValue(f"{str(path)!r} is a folder; name a job file in it") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{str(path)!r} is no text in UTF-8; a job file is YAML") from None
    except OSError as wrong:
        raise InvalidValue(f"{str(path)!r} cannot be read: {wrong.strerror}") from None


def parse(text: str, name: str, environment: Mapping[str, str] | None = None) -> Document:
    """The document in a text; variables come from `environment`, else from the process."""
    reader = _Reader(name, os.environ if environment is None else environment)
    try:
        root = yaml.compose(text, Loader=_Loader)
        data = reader.read(root, ()) if root is not None else None
    except yaml.MarkedYAMLError as wrong:
        raise JobError(_described(wrong, name)) from None
    except yaml.YAMLError as wrong:
        raise JobError(f"{name}: it is no YAML: {' '.join(str(wrong).split())}") from None
    except RecursionError:
        raise JobError(f"{name}: it is nested too deeply, or holds itself by an alias") from None
    return Document(name, data, reader.lines, tuple(reader.problems))


def _described(wrong: yaml.MarkedYAMLError, name: str) -> str:
    mark = wrong.problem_mark or wrong.context_mark
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else name
    message = f"{place}: it is no YAML: {wrong.problem or wrong.context}"
    if wrong.problem and wrong.context and wrong.context_mark is not None:
        message += f", {wrong.context} that began in line {wrong.context_mark.line + 1}"
    if "'\\t'" in message:
        message += "; indent with spaces, not tabs"
    elif "expected <block end>" in message or "end of stream" in message:
        message += "; look for a quote or a bracket before it that is not closed, or for a wrong indent"
    return message


@dataclass
class _Reader:
    """Turns nodes into values, noting lines and problems."""

    name: str
    environment: Mapping[str, str]
    lines: dict[Place, int] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
    values: int = 0

    def read(self, node: yaml.Node, at: Place) -> Any:
        self._count(node)
        self.lines.setdefault(at, node.start_mark.line + 1)
        known = _SCALARS if isinstance(node, yaml.ScalarNode) else ("map", "seq")
        if node.tag.removeprefix(_TAG) not in known:
            tag = node.tag.replace(_TAG, "!!", 1)
            self.problems.add(at, f"the tag {tag} has no meaning here; leave it out")
        if isinstance(node, yaml.MappingNode):
            return {key: self.read(value, (*at, key)) for key, value in self._entries(node, at)}
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*at, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, at)

    def _count(self, node: yaml.Node) -> None:
        """Raise if aliases of aliases make the file grow without end."""
        self.values += 1
        if self.values > _MOST_VALUES:
            raise JobError(
                f"{self.name}:{node.start_mark.line + 1}: it grows to more than {_MOST_VALUES:,} values; "
                "leave out aliases of aliases"
            )

    def _entries(self, node: yaml.MappingNode, at: Place) -> Iterator[tuple[str, yaml.Node]]:
        """Keys and values; a key that is there wins over one of a merged mapping (`<<: *name`)."""
        merged: dict[str, yaml.Node] = {}
        own: dict[str, tuple[int, yaml.Node]] = {}
        for key, value in node.value:
            self._count(key)
            name, line = key.value, key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.add(at, "a key must be a word or a text")
            elif name == "<<":
                for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(one, yaml.MappingNode):
                        merged = dict(self._entries(one, at)) | merged
            elif name in own:
                again = (*at, name, "again")
                self.lines[again] = line
                lines = f"in lines {own[name][0]} and {line}"
                self.problems.add(again, f"{name!r} is given twice, {lines}; leave one out")
            else:
                own[name] = (line, value)
        yield from ((name, value) for name, value in merged.items() if name not in own)
        for name, (line, value) in own.items():
            self.lines[*at, name] = line
            yield name, value

    def _scalar(self, node: yaml.ScalarNode, at: Place) -> Any:
        text, tag = self._filled(node.value, at), node.tag
        if text != node.value and node.style is None:
            tag = _Loader("").resolve(yaml.ScalarNode, text, (True, False))
        read = _SCALARS.get(tag.removeprefix(_TAG), str)
        if read is _whole and len(text) > _MOST_DIGITS:
            self.problems.add(
                at, f"a number of {len(text):,} digits is too long; give at most {_MOST_DIGITS}"
            )
            return 0
        try:
            return read(text)
        except (ValueError, KeyError):  # a tag that does not fit: !!int abc
            self.problems.add(at, f"{text!r} cannot be read as {tag.replace(_TAG, '!!')}")
            return text

    def _filled(self, text: str, at: Place) -> str:
        """The text with `${NAME}` and `${NAME:-default}` replaced; `$${` stands for `${`."""

        def fill(match: re.Match[str]) -> str:
            name, default = match.groups()
            if name is None:
                return "${"
            if default is None and name not in self.environment:
                remedy = f"set it, or give a default: ${{{name}:-...}}"
                self.problems.add(at, f"the environment variable {name} is not set; {remedy}")
            return self.environment.get(name) or default or ""

        return _VARIABLE.sub(fill, text)


def _whole(text: str) -> int:
    return int(text, 0) if text.lower().startswith(("0x", "0o")) else int(text)


_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda _: None,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": _whole,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}
