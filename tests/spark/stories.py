"""The choices of a random history: what is joined, how that changes while it runs, and what comes in.

Every choice is one that the product allows; what it refuses is not drawn. Streams keep what they promise.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import pyarrow as pa

import braided as bd
from braided.engine.operators.layout import key_format_of
from braided.query.layout import HotKey, Layout, choose, dimensions_of
from braided.query.overload import InputAllocation, ProbeAllocation, WindowSplit
from braided.query.plan_tree import Plan, intermediates, label
from braided.spark.plan import JoinPlan
from braided.testing.samples.plans import random_plan
from tests.spark.definition import WHERE

ONE_KEY, NO_KEY = "one key", "no key"
GRAPHS: list[Any] = [
    [("s0.k", "s1.k"), ("s1.m", "s2.m")],
    [("s0.k", "s1.k"), ("s0.m", "s2.m")],
    [("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.k", "s0.m")],
    [("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.k", "s3.k")],
    [("s0.k", "s1.k"), ("s0.m", "s1.m"), ("s1.k", "s2.k")],
    [("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.m", "s3.m"), ("s1.k", "s4.k")],
    NO_KEY,
]  # fmt: skip
UPWARD = ("unique", "punctuated", "range", "ordered", "clustered", "unique-punctuated", "any")
DOWNWARD = ("unique", "punctuated", "descending", "clustered", "unique-punctuated", "any")
MOST_ROWS = {2: 9, 3: 8, 4: 6, 5: 4, 6: 4}  # of a stream in a batch
PROBES: tuple[Any, ...] = (None, *get_args(ProbeAllocation))
SHARES: tuple[Any, ...] = (None, *get_args(InputAllocation))
SPLITS: tuple[Any, ...] = get_args(WindowSplit)


class Story:
    """One history's choices; what never changes is chosen at once."""

    def __init__(
        self,
        rng: np.random.Generator,
        windows: str | None = None,
        budget: str | None = None,
        *,
        optional: bool = False,
    ) -> None:
        """With a `budget` of this kind, which is short and does not change; with `optional` streams."""
        self.rng = rng
        self.graph: Any = ONE_KEY if rng.random() < 0.6 else GRAPHS[int(rng.integers(len(GRAPHS)))]
        self.names = [f"s{i}" for i in range(self._streams())]
        self.windows = windows or str(rng.choice(["time"] * 14 + ["unbounded", "mixed", "count", "count"]))
        if self.windows == "count" and self.graph == NO_KEY:
            self.windows = "time"
        if self.windows != "time":
            self.names = self.names[:3] if self.graph == ONE_KEY else self.names
        self.within = self.windows in ("mixed", "count") and rng.random() < 0.6  # so that all is bounded
        self.budget, self.short = budget or self._budget(), budget is not None
        self.kinds = ["inner"] * len(self.names)
        self.as_of = [False] * len(self.names)
        if (optional or rng.random() < 0.25) and not self.short:
            self._with_optional_streams()
        self.ample = self.budget.startswith("overload") and rng.random() < 0.4 and not self.short
        self.early = self.budget == "overload-input" and (self.short or rng.random() < 0.6)  # is dropped
        self.fixed: bd.Overload | None = None
        self.idles = rng.random() < 0.25
        lossy = self.budget.startswith("overload") and not self.ample and not self.optional
        self.ages = str(rng.choice(["", "event", "wall"])) if lossy else ""  # by which clock rows are too old
        self.beats = self.idles or self.budget == "defer" or self.ages == "wall" or rng.random() < 0.1
        aged = [n for n in range(len(self.names)) if self.ages and rng.random() < 0.7]
        self.fresh = {self.names[n]: self._fresh(n) for n in aged}  # a checkpoint's are always the same
        self.promises = ["any"] * len(self.names)
        self.downward = rng.random() < 0.3
        must = self.windows == "unbounded" and self.optional
        if self.graph == ONE_KEY and (must or rng.random() < (0.7 if self.windows == "unbounded" else 0.4)):
            kinds: tuple[str, ...] = DOWNWARD if self.downward else UPWARD
            if self.windows == "unbounded" and rng.random() < 0.6:  # so that all keys can be closed
                kinds = ("punctuated", "unique-punctuated") if self.downward else ("punctuated", "range")
            kinds = kinds[:-1] if must and kinds[-1] == "any" else kinds
            self.promises = rng.choice(kinds, len(self.names)).tolist()
        may_promise = self.budget not in ("memory", "defer") and self.windows != "count" and not self.optional
        if not isinstance(self.graph, str) and may_promise and rng.random() < 0.6:
            kinds = DOWNWARD if self.downward else UPWARD
            by_k = [any(f"{name}.k" in pair for pair in self.graph) for name in self.names]
            self.promises = [str(rng.choice(kinds)) if joined else "any" for joined in by_k]
        self.groups = int(rng.choice([4, 16]))
        self.flush: Any = str(rng.choice(["adaptive-global", "state-spill", "hash-merge"]))
        self.tuning = bd.Tuning(
            expiry=rng.choice(["active", "lazy"]), purge=rng.choice(["immediate", "batch"]),
            index=rng.choice(["auto", "scan"]) if self.windows != "count" else "auto",
        )  # fmt: skip
        self.skewed = rng.random() < 0.3  # one key has most of the rows
        self.next_id = 0
        self.base, self.used = 0, {name: set[int]() for name in self.names}
        self.lowest = dict.fromkeys(self.names, 0)  # keys of ordered streams go up

    def _with_optional_streams(self) -> None:
        """Make some streams optional; each must share a column with a required one."""
        rng = self.rng
        if self.windows != "time" and not (self.windows == "unbounded" and self.graph == ONE_KEY):
            return
        kinds = ["inner", *rng.choice(["inner", "left", "semi", "anti"], len(self.names) - 1).tolist()]
        if len(kinds) == 2 and self.graph == ONE_KEY and rng.random() < 0.4:
            kinds[1] = "full"
        as_of = [i > 0 and kind in ("inner", "left") and rng.random() < 0.25 for i, kind in enumerate(kinds)]
        try:
            streams = [
                bd.Stream(
                    n, "k" if self.graph == ONE_KEY else None, time="t", how=how,
                    window=bd.AsOf("1 us") if late else "1 us",
                )
                for n, how, late in zip(self.names, kinds, as_of, strict=True)
            ]  # fmt: skip
            on = None if isinstance(self.graph, str) else self.graph
            bd.JoinQuery(streams, on, where="s0.n < s1.n" if self.graph == NO_KEY else None)
        except bd.BraidedError:
            return
        self.kinds, self.as_of = kinds, as_of
        if self.optional and self.budget not in ("", "overload"):
            self.budget = ""

    @property
    def optional(self) -> bool:
        return any(kind != "inner" for kind in self.kinds) or any(self.as_of)

    def _streams(self) -> int:
        if self.graph == NO_KEY:
            return 2
        if self.graph == ONE_KEY:
            return int(self.rng.choice([2, 2, 3, 3, 3, 4, 4, 5, 6, 6]))
        return 1 + max(int(text[1]) for pair in self.graph for text in pair)

    def _budget(self) -> str:
        drawn = str(self.rng.choice([""] * 5 + ["memory"] * 2 + ["defer", "overload", "overload-input"]))
        if self.windows == "count":
            several = drawn in ("memory", "defer") and self.graph != ONE_KEY
            return "" if drawn == "overload-input" or several else drawn
        if self.graph == NO_KEY and drawn in ("memory", "defer"):
            return ""
        return drawn

    @property
    def promising(self) -> bool:
        return any(kind != "any" for kind in self.promises)

    def punctuates(self, name: str) -> bool:
        kind = self.promises[self.names.index(name)]
        return kind == "range" or kind.endswith("punctuated")

    @property
    def bounded(self) -> bool:
        """Whether the query may change in a way that needs an epoch."""
        return (self.windows == "time" or self.within) and "full" not in self.kinds

    # the query

    def query(self) -> bd.JoinQuery:
        rng = self.rng
        memory, overload = None, None
        if self.budget in ("memory", "defer"):
            defer = self.budget == "defer" and rng.random() < 0.9
            memory = bd.Memory(
                int(rng.choice([4096, 5000, 1 << 20])), defer=defer, groups=self.groups, disk_rate=3e5,
                interval="1 millisecond", flush=self.flush,
                owed_within="20 milliseconds" if defer and rng.random() < 0.4 else None,
            )  # fmt: skip
        plan = self.plan()
        if self.budget.startswith("overload"):
            overload = self.fixed or self.overload(plan)
            self.fixed = overload if self.short else None
        return bd.JoinQuery(
            [self.stream(i, name) for i, name in enumerate(self.names)],
            None if isinstance(self.graph, str) else self.graph,
            within=self.bounds(),
            where=str(rng.choice(list(WHERE))) if self.graph == NO_KEY or rng.random() < 0.2 else None,
            plan=plan,
            tuning=self.tuning,
            memory=memory,
            overload=overload,
        )

    def stream(self, number: int, name: str) -> bd.Stream:
        rng, kind = self.rng, self.promises[number]
        window: Any = f"{rng.choice([0, 3, 9, 20])} us"
        if self.windows == "unbounded" or (self.windows == "mixed" and number == 0):
            window = "unbounded"
        elif self.windows == "count" and number in (0, 2):
            window = bd.CountWindow(int(rng.integers(1, 5)))
        if self.as_of[number]:
            window = bd.AsOf(f"{rng.choice([0, 3, 9, 20])} us")
        punctuation: Any = bd.RangePunctuation("p", "upto") if kind == "range" else None
        arrival: Any = kind if kind in ("clustered", "ordered", "descending") else "any"
        return bd.Stream(
            name, "k" if self.graph == ONE_KEY or kind != "any" else None, time="t", window=window,
            lateness=f"{rng.choice([0, 5, 15])} us", unique=kind.startswith("unique"), arrival=arrival,
            punctuation="p" if kind.endswith("punctuated") else punctuation,
            idle_after=f"{rng.choice([2, 5])} seconds" if self.idles and rng.random() < 0.6 else None,
            freshness=self.fresh.get(name),
            how=self.kinds[number],
        )  # fmt: skip

    def _fresh(self, number: int) -> Any:
        """How old rows may be; by the wall clock they are too old from some second on, one by one."""
        rng = self.rng
        if self.windows == "count" and number in (0, 2):
            return int(rng.choice([4, 6, 9]))
        if self.ages == "event":
            return f"{rng.choice([20, 25, 40])} us"
        return f"{(1000 + int(rng.choice([0, 5, 20, 60]))) * 1_000_000 - int(rng.integers(0, 100))} us"

    def bounds(self) -> Any:
        rng = self.rng
        if self.within:
            return {("s0", name): f"{rng.choice([5, 12])} us" for name in self.names[1:]}
        if self.windows == "time" and not self.optional and rng.random() < 0.15:
            return {("s0", "s1"): ("-3 us", f"{rng.choice([0, 8])} us")}
        return None

    def plan(self) -> Any:
        if self.windows == "count" and self.budget in ("memory", "defer"):
            return "mjoin"
        if self.graph == ONE_KEY and not self.optional and self.rng.random() < 0.4:
            return random_plan(self.rng, len(self.names), width=int(self.rng.choice([2, 2, 3])))
        return str(self.rng.choice(["mjoin", "linear"]))

    def overload(self, plan: Any) -> bd.Overload:
        """Budgets; if they are ample they are never short."""
        rng, counts, size = self.rng, self.windows == "count", self._size
        budget: dict[str, Any] = {"probes": size(3, 9, 20)}
        if not counts and not self.optional and rng.random() < 0.4:
            budget |= {"state_rows": size(8, 40)} if rng.random() < 0.7 else {"state_bytes": size(4096, 9000)}
        clock: Any = self.ages or "event"
        moves: dict[str, Any] = {"epsilon": float(rng.choice([0.01, 0.08])), "p": 0.05}
        moves |= {
            "averaging": int(rng.choice([1, 8])),
            "window_split": str(rng.choice(SPLITS)),
            "clock": clock,
        }
        if self.budget == "overload-input":
            by_window = self.windows == "time" or len(budget) > 1
            known = [a for a in SHARES if by_window or not str(a).startswith("window")]
            return bd.Overload(shed="input", allocation=known[rng.integers(len(known))], **budget, **moves)
        if rng.random() < 0.5 and not self.short:
            budget |= {"intermediate_rows": self.intermediate_rows(plan)}
        weights = {n: float(rng.choice([1, 3])) for n in self.names if rng.random() < 0.5} or None
        return bd.Overload(
            allocation=PROBES[rng.integers(len(PROBES))],
            weights=weights if rng.random() < 0.5 else None,
            **budget,
            **moves,
        )

    def intermediate_rows(self, plan: Any) -> Any:
        """How many rows intermediates hold: one number, or by node; None if the plan has none."""
        nodes = intermediates(self.tree(plan))
        if not nodes or self.rng.random() < 0.6:
            return self._size(2, 8, 30) if nodes else None
        return {label(node): self._size(2, 8, 30) for node in nodes if self.rng.random() < 0.7} or None

    def tree(self, plan: Any) -> Plan:
        on = None if isinstance(self.graph, str) else self.graph
        key = "k" if self.graph == ONE_KEY else None
        kinds = zip(self.names, self.kinds, strict=True)
        streams = [
            bd.Stream(name, key, time="t", how=how, window=bd.AsOf("9 us") if as_of else None)
            for (name, how), as_of in zip(kinds, self.as_of, strict=True)
        ]
        return bd.JoinQuery(streams, on, plan=plan, where=next(iter(WHERE))).tree

    def _size(self, *few: int) -> int:
        return 10**6 if self.ample else int(self.rng.choice(few))

    def changed(self, query: bd.JoinQuery) -> bd.JoinQuery:
        """The query as it may be after a restart."""
        rng, other = self.rng, self.query()
        if self.budget in ("memory", "defer"):  # what is on disk pins it
            other = dataclasses.replace(other, plan=query.plan)
        if not self.bounded or rng.random() < 0.3:  # without an epoch
            pairs = zip(other.streams, query.streams, strict=True)
            streams = [dataclasses.replace(stream, window=old.window) for stream, old in pairs]
            return dataclasses.replace(other, streams=streams, within=query.within, where=query.where)
        if rng.random() < 0.6:
            overload = query.overload and (self.fixed or self.overload(query.plan))
            return dataclasses.replace(other, plan=query.plan, overload=overload)
        return query

    def layout(self, query: bd.JoinQuery, schemas: dict[str, pa.Schema]) -> Layout:
        rng = self.rng
        buckets = int(rng.choice([1, 1, 2, 2, 2, 2, 4, 4, 4, 8]))
        layout = choose(query, buckets, {n: float(rng.integers(1, 9)) for n in query.names})
        fat = [s.name for s in query.streams if not s.promises and s.count_window is None and not s.optional]
        fat = [] if "full" in self.kinds else fat
        if self.graph == ONE_KEY and buckets > 1 and fat and rng.random() < 0.5:
            plan = JoinPlan(query, tuple(schemas[n] for n in query.names), buckets, "flag")
            keys = key_format_of(dimensions_of(query)[0].key, plan.layouts)
            known = [self.key(self.base + i) for i in (1, 2)]
            hashes = keys.hashes([pa.array(known)], 2).tolist()
            hot = [HotKey(h, str(rng.choice(fat)), int(rng.integers(2, buckets + 1))) for h in hashes]
            layout = dataclasses.replace(layout, hot_keys=tuple(hot[: int(rng.integers(1, 3))]))
            self.skewed = True
        return layout

    # what comes in

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return {name: self.made(name, [], [], []).schema for name in self.names}

    def key(self, number: int) -> int:
        """Numbers go up; keys do so, or down."""
        return 1000 - number if self.downward else number

    def tables(self, now: int, silent: set[str]) -> dict[str, pa.Table]:
        """A batch; from time to time keys move on."""
        if self.promising or self.windows == "unbounded":
            self.base += int(self.rng.choice([0, 0, 1, 2]))
        return {
            name: self.table(name, now)
            for name in self.names
            if name not in silent and self.rng.random() < 0.9
        }

    def table(self, name: str, now: int) -> pa.Table:
        rng, kind = self.rng, self.promises[self.names.index(name)]
        open_keys = [k for k in range(self.base, self.base + 4) if self._may_come(name, k)]
        most = MOST_ROWS[len(self.names)] * (4 if self.early else 1)
        rows = int(rng.integers(most // 2 if self.short else 0, most)) if open_keys else 0
        unique = kind.startswith("unique")
        chosen: list[int] = []
        if rows:
            rows = min(rows, len(open_keys)) if unique else rows
            chosen = rng.choice(open_keys, rows, replace=not unique).tolist()
        if self.skewed and not unique and self.base + 1 in open_keys:
            chosen = [self.base + 1 if rng.random() < 0.6 else key for key in chosen]
        if unique:
            self.used[name] |= set(chosen)
        if kind in ("ordered", "descending", "clustered"):
            self.lowest[name] = max([self.lowest[name], *chosen])
        times = now + rng.integers(-25, 12, len(chosen))
        times -= 120 * (rng.random(len(chosen)) < 0.03)  # far too late
        return self.made(name, chosen, np.maximum(times, 0).tolist(), self._closed(name, kind), nulls=True)

    def _may_come(self, name: str, key: int) -> bool:
        return key >= self.lowest[name] and key not in self.used[name]

    def _closed(self, name: str, kind: str) -> list[int]:
        """Keys that a batch closes: the next ones keep to it."""
        rng = self.rng
        if kind == "range" and rng.random() < 0.5:
            upto = int(rng.integers(self.base - 2, self.base + 2))
            self.lowest[name] = max(self.lowest[name], upto + 1)
            return [upto]
        if not kind.endswith("punctuated"):
            return []
        closed = [k for k in range(max(0, self.base - 2), self.base + 4) if rng.random() < 0.2]
        self.used[name] |= set(closed)
        return closed

    def made(
        self, name: str, numbers: list[int], times: list[int], closed: list[int], *, nulls: bool = False
    ) -> pa.Table:
        """A table of rows with these keys, and punctuations."""
        rng, kind, rows = self.rng, self.promises[self.names.index(name)], len(numbers)
        ids = list(range(self.next_id, self.next_id + rows))
        self.next_id += rows
        table = pa.table(
            {
                "k": pa.array(
                    [self.key(n) for n in numbers], pa.int64(), mask=rng.random(rows) < 0.05 * nulls
                ),
                "m": pa.array(rng.integers(0, 3, rows), pa.int64(), mask=rng.random(rows) < 0.05 * nulls),
                "n": pa.array(rng.integers(0, 9, rows), pa.int64()),
                "id": pa.array(ids, pa.int64()),
                "t": pa.array(times, pa.int64(), mask=rng.random(rows) < 0.03 * nulls).cast(
                    pa.timestamp("us")
                ),
            }
        )
        if self.budget in ("memory", "defer"):  # some wide rows are more than memory holds
            table = table.append_column("v", pa.array(["v" * 150] * rows, pa.string()))
        if rows > 1 and nulls and not self.promising and not self.budget and rng.random() < 0.1:
            table = pa.concat_tables([table, table.slice(0, 1)])  # a row twice
        if not self.punctuates(name):
            return table
        keys = [self.key(n) for n in closed]
        flagged = {"k": keys, "p": [True] * len(keys)} | ({"upto": keys} if kind == "range" else {})
        table = table.append_column("p", pa.array([False] * table.num_rows, pa.bool_()))
        if kind == "range":
            table = table.append_column("upto", pa.nulls(table.num_rows, pa.int64()))
        ends = pa.table(
            {f.name: pa.array(flagged.get(f.name, [None] * len(keys)), f.type) for f in table.schema}
        )
        return pa.concat_tables([table, ends])

    def last(self, now: int) -> dict[str, pa.Table]:
        """A row of each stream, with a key that nobody had."""
        self.base += 10
        for name in self.names:
            self.lowest[name] = max(self.lowest[name], self.base)
            self.used[name].add(self.base)
        return {name: self.made(name, [self.base], [now], []) for name in self.names}

    def ends(self) -> dict[str, pa.Table]:
        """Punctuations of all keys, of the streams that have any."""
        keys = list(range(self.base + 20))
        return {n: self.made(n, [], [], keys) for n in self.names if self.punctuates(n)}
