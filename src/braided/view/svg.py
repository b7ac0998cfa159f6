"""A chart as an SVG element: it takes its colours from the page it stands in, and needs no script.

Built as a tree and written by the standard library, so names are escaped wherever they stand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias
from xml.etree.ElementTree import Element, SubElement

from braided.policies.numbers import Unit
from braided.view.charts import Chart
from braided.view.words import formatted, moment

_WIDTH, _HEIGHT = 480, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 8, 12, 22
_COLOURS = 8
_TICKS = 4
_SPANS = (86_400, 3_600, 60)
_DOTS = 60  # up to this number, batches are drawn one by one
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)

_END = {"text-anchor": "end"}

_Point: TypeAlias = tuple[float, float, float]  # x, bottom, top


def figure(chart: Chart) -> Element:
    """Title, drawing and legend; or what there is to say where there is nothing to draw."""
    box = Element("figure")
    caption = SubElement(box, "figcaption")
    caption.text = chart.title
    if not chart.series:
        SubElement(box, "p", {"class": "quiet"}).text = chart.nothing
        return box
    box.append(_drawing(chart))
    if len(chart.series) > 1:
        legend = SubElement(box, "ul", {"class": "legend"})
        for number, name in enumerate(chart.series):
            item = SubElement(legend, "li")
            SubElement(item, "i", {"class": f"b{number % _COLOURS}"}).tail = name
    return box


def _drawing(chart: Chart) -> Element:
    svg = Element("svg", {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "role": "img"})
    SubElement(svg, "title").text = chart.title
    layers = list(_layers(chart))
    peak = max([p[2] for layer in layers for p in layer if p] + [chart.limit or 0])
    top = ceiling(peak, chart.unit)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top, 1)

    for value in (top * i / _TICKS for i in range(_TICKS + 1)):
        _level(svg, y(value), "grid")
        _text(svg, _LEFT - 6, y(value) + 4, formatted(value, chart.unit), **_END)
    first, last = _clocks(chart)
    _text(svg, _LEFT, _HEIGHT - 5, first)
    _text(svg, _WIDTH - _RIGHT, _HEIGHT - 5, last, **_END)
    for number, layer in enumerate(layers):
        for known, run in itertools.groupby(layer, key=bool):
            if known:
                _draw(svg, [p for p in run if p], y, number % _COLOURS, chart)
    if chart.limit is not None:
        _limit(svg, chart.limit, y(chart.limit), chart.unit)
    return svg


def _layers(chart: Chart) -> Iterator[list[_Point | None]]:
    """Each line's points; stacked ones stand on those before them."""
    first, length = chart.times[0], chart.times[-1] - chart.times[0]
    shares = ((time - first) / length if length else 0.5 for time in chart.times)
    places = [round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * share, 1) for share in shares]
    base = [0.0] * len(places)
    for values in chart.series.values():
        points = zip(places, base, values, strict=True)
        yield [None if value is None else (x, bottom, bottom + value) for x, bottom, value in points]
        if chart.stacked:
            base = [bottom + (value or 0.0) for bottom, value in zip(base, values, strict=True)]


def _draw(
    svg: Element, run: Sequence[_Point], y: Callable[[float], float], colour: int, chart: Chart
) -> None:
    """Draw neighbours that are known."""
    line = [f"{x:g},{y(top):g}" for x, _, top in run]
    if chart.stacked:
        below = [f"{x:g},{y(bottom):g}" for x, bottom, _ in reversed(run)]
        SubElement(svg, "polygon", {"class": f"area f{colour}", "points": " ".join(line + below)})
    if len(run) > 1:
        SubElement(svg, "polyline", {"class": f"stroke s{colour}", "points": " ".join(line)})
    for x, _, top in run if len(chart.times) <= _DOTS or len(run) == 1 else ():
        SubElement(svg, "circle", {"class": f"f{colour}", "r": "2.5", "cx": f"{x:g}", "cy": f"{y(top):g}"})


def _limit(svg: Element, limit: float, at: float, unit: Unit) -> None:
    _level(svg, at, "limit")
    beside = at + 16 if at < _TOP + 16 else at - 4
    name = {"class": "limit-name", **_END}
    _text(svg, _WIDTH - _RIGHT, beside, f"budget {formatted(limit, unit)}", **name)


def _level(svg: Element, at: float, style: str) -> None:
    ends = {"x1": f"{_LEFT}", "x2": f"{_WIDTH - _RIGHT}", "y1": f"{at:g}", "y2": f"{at:g}"}
    SubElement(svg, "line", {"class": style, **ends})


def _text(svg: Element, x: float, y: float, text: str, **options: str) -> None:
    SubElement(svg, "text", {"x": f"{x:g}", "y": f"{y:g}", **options}).text = text


def _clocks(chart: Chart) -> tuple[str, str]:
    """The first and the last time of day; with their dates if these differ."""
    first, last = moment(chart.times[0]), moment(chart.times[-1])
    return (first[:-3], last[:-3]) if first[:10] != last[:10] else (first[11:], last[11:])


def ceiling(top: float, unit: Unit) -> float:
    """A round number that is not smaller; of time, in its largest unit; of rows, without parts of one.

    >>> ceiling(3.1, "seconds"), ceiling(200, "seconds"), ceiling(41, "rows"), ceiling(3, "rows")
    (3.2, 240.0, 60.0, 4.0)
    """
    least = 4.0 if unit == "rows" else 1.0
    if top <= 0:
        return least
    base = next((b for b in _SPANS if top > b), 1) if unit == "seconds" else 1
    power = 10.0 ** math.floor(math.log10(top / base))
    rounded = next(n * power for n in _STEPS if n * power >= 0.999 * top / base)
    return max(least, rounded) if unit == "rows" else base * rounded
