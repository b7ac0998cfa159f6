"""Epochs: how a join goes on when its windows, `within`, `where`, buckets, layout or hot keys have changed.

A new epoch begins at an event time T. A result belongs to the epoch in which its oldest row lies, and is
found there under that epoch's meaning and layout, so every result has exactly one owner. An epoch gets the
rows from its beginning on and, for the partners of its last ones, up to its *span* after its end. T is chosen
so that nothing that is stored belongs to the new epoch: no row has to move.

    rows seen so far                T             T + span of the old epoch
    ----------------------+---------+-------------+------------------->  event time
    old epoch             |<- span->|   partners  |  nothing more: it goes at the next start
                                    | new epoch ------------------->

T is later than every time seen by the larger of both spans, and never before an earlier one. It depends on
the committed state alone, so a start that is repeated chooses the same.

What a checkpoint knows of its epochs is in the small value of each bucket (`JoinPlan.describe`).
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from braided.query.bounds import INFINITE_US
from braided.query.durations import to_text
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.layout import HotKey, Layout, choose, dimensions_of
from braided.query.meaning import difference
from braided.spark import hot_keys
from braided.spark.plan import Epoch, JoinPlan, Resumed
from braided.spark.storage.cold import cold_pieces
from braided.spark.storage.store import Meta

_CHANGING = ("window", "lateness", "idle_after")  # options of streams that may differ
_FAR = 10  # times a query's own span and lateness
_REMEDY = "go back to it, or start a new checkpoint"


def what_changes(epoch: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an epoch's description that makes it another epoch if it differs."""
    meaning = epoch["meaning"]
    return {
        "windows": {s["name"]: s.get("window") for s in meaning["streams"]},
        "within": meaning.get("within"),
        "where": meaning.get("where"),
        "buckets": epoch["buckets"],
        "shares": epoch["shares"],
        "hot_keys": sorted(hot[:3] for hot in epoch["hot_keys"]),
    }


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How an epoch differs from the one before, in words."""
    old, new = _in_words(was), _in_words(now)
    return [f"{part} was {old[part]} and is {new[part]}" for part in old if old[part] != new[part]]


def _in_words(epoch: Mapping[str, Any]) -> dict[str, str]:
    meaning, hot = epoch["meaning"], [HotKey(*values) for values in epoch["hot_keys"]]
    within = [f"{' to '.join(p['streams'])} {p['from']} .. {p['to']}" for p in meaning.get("within") or ()]
    parts = {f"the window of {s['name']!r}": s.get("window") for s in meaning["streams"]}
    parts |= {"within": ", ".join(within), "where": meaning.get("where"), "buckets": epoch["buckets"]}
    parts["the layout"] = " x ".join(map(str, epoch["shares"])) if len(epoch["shares"]) > 1 else ""
    parts["hot keys"] = ", ".join(f"{h.text} of {h.stream} in {h.cells} cells" for h in hot)
    return {part: str(value or "none") for part, value in parts.items()}


def fingerprint(plan: JoinPlan) -> str:
    """A text that tells what batches are planned by: the query and layout of the newest epoch."""
    described = plan.describe()
    planned = {**what_changes(described), "meaning": described["meaning"]}
    return hashlib.sha256(json.dumps(planned, sort_keys=True).encode()).hexdigest()[:16]


def resume(
    plan: JoinPlan,
    metas: Mapping[int, Meta],
    planned: str | None = None,
    *,
    find_hot: bool = False,
    choose_shares: bool = True,
) -> JoinPlan:
    """The plan with the epochs of a checkpoint, and a new one if it differs from the last; it may be refused.

    `metas` are the small values of all buckets, by label; `planned` is the fingerprint of the batch that is
    logged and not committed, if there is one. With `find_hot` keys that have become hot are spread, unless
    that batch was planned without them. Without `choose_shares` the layout stays as it is, or is chosen by
    the rows seen if the number of buckets differs.
    """
    latest = max(metas.values(), key=lambda meta: meta.epoch)
    known = latest.epochs
    if not choose_shares and not plan.staged and known[-1]["shares"]:
        plan = _with_shares(plan, known[-1], list(metas.values()))
    for epoch in known:
        _check_same(epoch["meaning"], plan)
    if find_hot:
        as_it_was, plan = _with_hot_keys(plan, known, list(metas.values()))
        plan = as_it_was if planned == fingerprint(as_it_was) else plan
    check_planned(plan, planned, known[-1])
    newest_us = tuple(latest.newest_us[name] for name in plan.query.names)
    watermark_us = latest.watermark_us
    live = [e for e in known if not _passed(e, known, list(metas.values()), watermark_us, plan.query)]
    gone = {e["number"] for e in known if e not in live}
    begins = what_changes(plan.describe()) != what_changes(known[-1])
    if begins:
        live.append(_next(plan, known[-1], newest_us))
    numbers = {e["number"] for e in live}
    resumed = Resumed(
        latest.checkpoint,
        live,
        newest_us,
        latest.batches,
        latest.numbers["watermark"],
        _counted([meta for meta in metas.values() if meta.epoch in gone]),
        tuple(label for label, meta in metas.items() if meta.epoch not in numbers),
        begins,
    )
    return _with_epochs(plan, live, resumed)


def _with_shares(plan: JoinPlan, last: Mapping[str, Any], metas: Sequence[Meta]) -> JoinPlan:
    """The plan with the layout of its checkpoint, or with one for the rows that it has seen."""
    if plan.buckets == last["buckets"]:
        layout = dataclasses.replace(plan.grid, shares=tuple(last["shares"]))
    else:
        seen = _counted(metas)["streams"]
        rates = {name: float(seen.get(name, {}).get("rows_in", 0)) + 1 for name in plan.query.names}
        layout = dataclasses.replace(choose(plan.query, plan.buckets, rates), hot_keys=plan.grid.hot_keys)
    return dataclasses.replace(plan, layout=layout)


def check_planned(plan: JoinPlan, planned: str | None, last: Mapping[str, Any] | None = None) -> None:
    """Raise if a batch that is logged and not committed was planned by another query than this.

    `last` is the newest epoch that the checkpoint knows.
    """
    if planned is None or planned == fingerprint(plan):
        return
    differs = ""
    if last is not None:
        other = difference(last["meaning"], plan.query.meaning())
        differs = "; ".join(changes(last, plan.describe())) or other or "it has changed twice"
    raise InvalidValue(
        f"the checkpoint's last batch was planned by another query{differs and f' ({differs})'} and has not "
        "been finished; start the query that planned it, with resume, until it is, then change it, or start "
        "a new checkpoint"
    )


def _with_hot_keys(
    plan: JoinPlan, known: Sequence[Mapping[str, Any]], metas: Sequence[Meta]
) -> tuple[JoinPlan, JoinPlan]:
    """The plan with the hot keys of its checkpoint, and with those that came since too.

    None are added while a change is under way.
    """
    hot = tuple(HotKey(*values) for values in known[-1]["hot_keys"])
    more = hot
    if plan.buckets == known[-1]["buckets"] and len(known) == 1:
        more = hot_keys.more(plan, hot, [meta.heavy for meta in metas])
    return _spreading(plan, hot), _spreading(plan, more)


def _spreading(plan: JoinPlan, hot: Sequence[HotKey]) -> JoinPlan:
    """The plan with those of some hot keys that it can spread."""
    same = [h for h in hot if h.cells <= plan.buckets and not hot_keys.why_not_fat(plan, h.stream)]
    return dataclasses.replace(plan, layout=dataclasses.replace(plan.grid, hot_keys=tuple(same)))


def _check_same(meaning: Mapping[str, Any], plan: JoinPlan) -> None:
    """Raise if something differs that no epoch can change."""
    old, new = _fixed(meaning), _fixed(plan.query.meaning())
    names = [s["name"] for s in old["streams"]]
    if names != list(plan.query.names):
        raise InvalidValue(
            f"resume: the checkpoint joins the streams {', '.join(names)}, and the query "
            f"{', '.join(plan.query.names)}: a checkpoint's sources are fixed; start a new checkpoint"
        )
    if old != new:
        raise InvalidValue(f"resume: {difference(old, new)}, which cannot change while it runs; {_REMEDY}")


def _fixed(meaning: Mapping[str, Any]) -> dict[str, Any]:
    """What of a query's meaning never changes while it runs."""
    streams = [{k: v for k, v in s.items() if k not in _CHANGING} for s in meaning["streams"]]
    return {**{k: meaning.get(k) for k in ("on", "emit_punctuations")}, "streams": streams}


def _next(plan: JoinPlan, last: Mapping[str, Any], newest_us: Sequence[int | None]) -> dict[str, Any]:
    """The epoch that begins now; a query that cannot have one is refused."""
    before = _query_of(plan.query, last)
    for query, when in ((before, "was"), (plan.query, "is")):
        _check_bounded(query, when)
    if plan.query.emit_punctuations:
        raise InvalidValue(
            "resume: with emit_punctuations a key is complete only once, so windows, within, where, buckets, "
            f"layout and hot keys are fixed; {_REMEDY}"
        )
    for stream, old in zip(plan.query.streams, before.streams, strict=True):
        if (stream.as_of is None) != (old.as_of is None):
            was = "was not" if old.as_of is None else "was"
            raise InvalidValue(
                f"resume: stream {stream.name!r} {was} joined as of the others (AsOf), and that is fixed; "
                f"{_REMEDY}",
                stream=stream.name,
                option="window",
            )
    if any(s.how == "full" for s in plan.query.streams) and _asks(before) != _asks(plan.query):
        raise InvalidValue(
            "resume: in a full join windows, within and where are fixed: a row without a partner would be "
            f"judged by two queries; {_REMEDY}"
        )
    if plan.staged or not last["shares"]:
        raise InvalidValue(
            "resume: a join in several stages cannot change its windows, within, where or buckets while it "
            f"runs; {_REMEDY} with layout='grid'"
        )
    seen_us = max((t for t in newest_us if t is not None), default=0)
    span = max(before.bounds.span_us, plan.query.bounds.span_us)
    since_us = max(last["since_us"] if last["since_us"] is not None else -INFINITE_US, seen_us + 1 + span)
    return {**plan.describe(), "number": last["number"] + 1, "since_us": since_us}


def _asks(query: JoinQuery) -> tuple[Any, ...]:
    """Which rows meet."""
    return tuple(s.window for s in query.streams), query.within, query.where


def _check_bounded(query: JoinQuery, when: str) -> None:
    for i, stream in enumerate(query.streams):
        if query.bounds.reach_us(i) >= INFINITE_US:
            raise InvalidValue(
                f"resume: a row of stream {stream.name!r} {when} joinable forever, so the old query would "
                "never end beside the new one; give it a window in both, or start a new checkpoint",
                stream=stream.name,
                option="window",
            )


def _passed(
    epoch: Mapping[str, Any], known: Sequence[Mapping[str, Any]], metas: Sequence[Meta],
    watermark_us: int | None, query: JoinQuery,
) -> bool:  # fmt: skip
    """Whether an epoch has ended, can get no row any more, and owes nothing."""
    end_us = until_us(epoch, known)
    if end_us is None or watermark_us is None:
        return False
    passes_us = end_us + _query_of(query, epoch).bounds.span_us
    own = [meta for meta in metas if meta.epoch == epoch["number"]]
    if watermark_us < passes_us or any(meta.settled_us < passes_us for meta in own):
        return False
    return not any(map(cold_pieces, own))


def until_us(epoch: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> int | None:
    """When an epoch ends: where the next one begins."""
    later = [e["since_us"] for e in known if e["number"] > epoch["number"]]
    return min(later, default=None)


def _query_of(query: JoinQuery, epoch: Mapping[str, Any]) -> JoinQuery:
    """The query with an epoch's windows, `within` and `where`; all else is as it is asked for now."""
    was = _ageless(epoch["meaning"])
    streams = [
        dataclasses.replace(stream, window=old.window)
        for stream, old in zip(query.streams, was.streams, strict=True)
    ]
    return dataclasses.replace(query, streams=streams, within=was.within, where=was.where)


def _ageless(meaning: Mapping[str, Any]) -> JoinQuery:
    """Return the query of an earlier meaning without bounds on age: these need a budget, which it has not."""
    streams = [{k: v for k, v in s.items() if k != "freshness"} for s in meaning["streams"]]
    return JoinQuery.from_dict({**meaning, "streams": streams})


def _counted(metas: Sequence[Meta]) -> dict[str, Any]:
    """What the buckets of epochs that go have counted since the start."""
    if not metas:
        return {}
    streams: dict[str, Counter[str]] = {}
    for meta in metas:
        for name, numbers in meta.numbers["streams"].items():
            streams.setdefault(name, Counter()).update(numbers["counters"])
    results = sum(meta.numbers["results"] for meta in metas)
    return {"results": results, "streams": {name: dict(counts) for name, counts in streams.items()}}


def _with_epochs(plan: JoinPlan, live: Sequence[Mapping[str, Any]], resumed: Resumed) -> JoinPlan:
    plans = [_plan_of(plan, epoch, live, resumed) for epoch in live]
    newest = dataclasses.replace(plan, epoch=plans[-1].epoch, layout=plans[-1].layout)
    return dataclasses.replace(newest, earlier=tuple(reversed(plans[:-1])), resumed=resumed)


def _plan_of(
    plan: JoinPlan, epoch: Mapping[str, Any], live: Sequence[Mapping[str, Any]], resumed: Resumed
) -> JoinPlan:
    span = Epoch(epoch["number"], epoch["since_us"], until_us(epoch, live))
    query = _query_of(plan.query, epoch)
    hot = tuple(HotKey(*values) for values in epoch["hot_keys"])
    layout = Layout(dimensions_of(query), tuple(epoch["shares"]), hot) if epoch["shares"] else None
    return dataclasses.replace(
        plan, query=query, buckets=epoch["buckets"], layout=layout, epoch=span, earlier=(), resumed=resumed
    )


def far_ahead(plan: JoinPlan) -> str:
    """A warning if the newest epoch begins so late that a row from the future must have pushed it there."""
    since_us, watermark_us = plan.epoch.since_us, plan.resumed.watermark["floor_us"] if plan.resumed else None
    if since_us is None or watermark_us is None or not plan.earlier:
        return ""
    usual_us = plan.query.bounds.span_us + max(s.lateness_us for s in plan.query.streams)
    if since_us - watermark_us <= _FAR * max(usual_us, 1_000_000):
        return ""
    return (
        f"resume: the new query begins at {_time(since_us)}, {to_text(since_us - watermark_us)} ahead of the "
        "watermark: a row from the future has pushed it there, and until then the old query goes on"
    )


def spans(plan: JoinPlan) -> Iterator[tuple[Epoch, int | None, list[str]]]:
    """The epochs of a plan, oldest first: when each has passed, and how it differs from the one before."""
    before = None
    for live in reversed(plan.live):
        described, until_us = live.describe(), live.epoch.until_us
        passes_us = None if until_us is None else until_us + live.query.bounds.span_us
        yield live.epoch, passes_us, changes(before, described) if before is not None else []
        before = described


def explained(plan: JoinPlan) -> list[str]:
    """What the epochs of a plan mean, in words, oldest first; a first start has nothing to say."""
    if plan.resumed is None:
        return []
    watermark_us = plan.resumed.watermark["floor_us"]
    now = "no watermark yet" if watermark_us is None else f"the watermark is at {_time(watermark_us)}"
    lines = []
    for epoch, passes_us, changed in spans(plan):
        since, until = epoch.since_us, epoch.until_us
        words = [f"epoch {epoch.number}: results whose oldest row is"]
        words.append("at any time" if since is None and until is None else "")
        words.append("" if since is None else f"from {_time(since)} on")
        if until is not None and passes_us is not None:
            words.append(f"{'' if since is None else 'and '}before {_time(until)}; it is empty once the")
            words.append(f"watermark has passed {_time(passes_us)} ({now}), and goes")
            words.append("at the next start after that")
        lines.append("; ".join([" ".join(filter(None, words)), *changed]))
    return lines


def _time(us: int) -> str:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return (epoch + datetime.timedelta(microseconds=us)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return to_text(us)
