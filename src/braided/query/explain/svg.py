"""The plan as an SVG picture, drawn without any tool: results at the right, what leads to them at the left.

A box and all that flows into it have a strip of their own, so nothing overlaps; a column is as wide as its
widest box. Text is escaped, so names may hold any sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from braided.query.explain.diagram import Box, picture

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery

_SIGN, _LINE, _PAD, _GAP, _BETWEEN = 7.8, 18.0, 10.0, 50.0, 14.0
_STREAM, _OPERATOR, _EDGE = "#e8f1fa", "#fdf3dd", "#555"
_TIP = (
    '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3.5" orient="auto">'
    f'<path d="M0,0 L7,3.5 L0,7 z" fill="{_EDGE}"/></marker></defs>'
)


def diagram_svg(query: JoinQuery) -> str:
    """Draw the plan as the text of an SVG file.

    Examples:
        >>> from braided.query.join_query import JoinQuery
        >>> from braided.query.stream import Stream
        >>> print(diagram_svg(JoinQuery([Stream("a", "k"), Stream("b", "k")]))[:46])
        <svg xmlns="http://www.w3.org/2000/svg" width=
    """
    root = picture(query)
    rights = _rights(root)
    width, height = rights[0] + _PAD, _strip(root) + 2 * _PAD
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="13">'
    back = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([opening, _TIP, back, *_drawn(root, rights, _PAD), "</svg>"])


def _rights(root: Box) -> list[float]:
    """Return where the boxes of each depth end; the root's come first, at the right."""
    widths: list[float] = []
    level = [root]
    while level:
        widths.append(max(map(_width, level)))
        level = [child for box in level for child in box.inputs]
    return [_PAD + sum(widths[i:]) + _GAP * (len(widths) - 1 - i) for i in range(len(widths))]


def _width(box: Box) -> float:
    return max(map(len, box.lines)) * _SIGN + 2 * _PAD


def _height(box: Box) -> float:
    return len(box.lines) * _LINE + _PAD


def _strip(box: Box) -> float:
    """Return the height of a box with all that flows into it."""
    return max(_height(box), _strips(box))


def _strips(box: Box) -> float:
    return sum(_strip(child) + _BETWEEN for child in box.inputs) - _BETWEEN


def _drawn(box: Box, rights: Sequence[float], top: float) -> Iterator[str]:
    """Draw a box in the middle of its strip, what flows into it, and the arrows."""
    left, middle = rights[0] - _width(box), top + _strip(box) / 2
    yield from _boxed(box, left, middle - _height(box) / 2)
    below = top + (_strip(box) - max(0.0, _strips(box))) / 2
    for child in box.inputs:
        begin, at = rights[1], below + _strip(child) / 2
        bend = (begin + left) / 2
        curve = f"M{begin:.1f},{at:.1f} C{bend:.1f},{at:.1f} {bend:.1f},{middle:.1f} {left:.1f},{middle:.1f}"
        yield f'<path d="{curve}" fill="none" stroke="{_EDGE}" marker-end="url(#tip)"/>'
        yield from _drawn(child, rights[1:], below)
        below += _strip(child) + _BETWEEN


def _boxed(box: Box, left: float, top: float) -> Iterator[str]:
    colour, round_by = (_OPERATOR, 3) if box.inputs else (_STREAM, 14)
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{_width(box):.1f}" height="{_height(box):.1f}" '
        f'rx="{round_by}" fill="{colour}" stroke="{_EDGE}"/>'
    )
    for i, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if i == 0 else ""
        x, y = left + _width(box) / 2, top + _PAD / 2 + _LINE * (i + 0.72)
        yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{weight}>{escape(_drawable(line))}</text>'


def _drawable(text: str) -> str:
    """Replace signs that XML cannot hold with question marks."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
