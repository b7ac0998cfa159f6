"""The plan as a picture: what is drawn, and as Mermaid text (a flowchart that Markdown viewers show).

Boxes are numbered from the root down, so that the same query always gives the same text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braided.query.durations import to_text
from braided.query.plan_tree import Plan

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream


@dataclass(frozen=True)
class Box:
    """A stream or an operator: its lines of text, and what flows into it."""

    lines: tuple[str, ...]
    inputs: tuple[Box, ...] = ()


def picture(query: JoinQuery) -> Box:
    """Return the box of the results, with all that leads to them."""
    return Box(("results",), (_box(query, query.tree),))


def mermaid(query: JoinQuery) -> str:
    """Draw the plan as a Mermaid flowchart."""
    lines = ["flowchart LR"]
    _write(picture(query), lines, itertools.count())
    return "\n".join(lines)


def _write(box: Box, lines: list[str], numbers: Iterator[int]) -> str:
    """Add a box and what flows into it, and return the name of the box."""
    name = f"n{next(numbers)}"
    text = "<br>".join(map(_escaped, box.lines))
    opening, closing = ("[", "]") if box.inputs else ("([", "])")
    lines.append(f'    {name}{opening}"{text}"{closing}')
    for child in box.inputs:
        lines.append(f"    {_write(child, lines, numbers)} --> {name}")
    return name


def _escaped(text: str) -> str:
    """Escape a text so that Mermaid shows it literally: entities start with a number sign.

    >>> _escaped('a "b" <c> #1')
    'a #quot;b#quot; #lt;c#gt; #35;1'
    """
    signs = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\n": " "}
    return "".join(signs.get(sign, sign) for sign in text)


def _box(query: JoinQuery, node: Plan) -> Box:
    if isinstance(node, str):
        return Box((node, _stay(query, query.streams[query.names.index(node)])))
    equal = query.graph.equalities(node) or ["no key"]
    return Box((f"join of {len(node)}", *equal), tuple(_box(query, child) for child in node))


def _stay(query: JoinQuery, stream: Stream) -> str:
    """Return how long a stream's rows stay, in words."""
    if (stay_us := query.stay_us(stream)) is not None:
        return f"kept {to_text(stay_us)}"
    if stream.count_window is not None:
        return f"kept for {stream.count_window.rows} rows of its {stream.count_window.per}"
    return "kept until keys are closed" if query.promises else "kept forever"
