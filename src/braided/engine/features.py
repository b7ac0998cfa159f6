"""Features: parts of an engine that a query may do without, all behind one protocol.

A feature is one folder with a `feature.py`: count windows, the memory budget (spill), promises (about one
key, or one of several), overload. The engine knows none of them by name. It calls the hooks below, per batch
and operator, never per row, in the order in which `_HOMES` lists the features; a hook that a feature does not
override is never called, so a query without features pays nothing for them.

A batch goes through the hooks like this, and what a feature changes from `enter` on it takes back in `undo`:

    admit    which of the arriving rows are let in; a broken promise raises here
    expire   forget what only this feature knows to be past
    begin    tidy up before rows are stored; nothing that a result can show
    enter    what is really stored now, and who may probe
    arrived, allow, found, owed    while operators run
    settling what comes out although it has not arisen now
    commit   or undo
    purge    forget what no row to come can meet
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar

import pyarrow as pa

from braided.engine.intake import Arrival
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.tree import Arriving, Found, Hooks
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import Rows, SideState
from braided.engine.site import Share, Site
from braided.engine.state import EngineState
from braided.engine.watermark import Watermark
from braided.policies.arrays import Bools, Int64s
from braided.policies.decisions import Rations, Turn
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan

if TYPE_CHECKING:
    from braided.engine.core import Core

Arrivals: TypeAlias = Sequence[Arrival | None]
Undo: TypeAlias = Callable[[], None]
Host: TypeAlias = "Core"  # the engine, as far as a feature may use it
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Step:
    """One step of an engine: a batch, or work between batches; whole or not at all."""

    arrivals: Arrivals
    later: Watermark  # once it is done
    batch: bool = True  # it brings rows, or might have
    work: Any = None  # what a feature wants done in a step of its own
    handed: Mapping[Plan, Rows] = field(default_factory=dict)  # made by other engines in this batch
    arriving: Arriving = field(default_factory=dict)  # what is stored, by input
    results: int = 0  # rows
    probes: int = 0
    complete: list[pa.Array] | None = None  # keys that the output is told of: nothing more comes of them

    @property
    def idle(self) -> bool:
        """Whether neither rows nor punctuations came."""
        return not any(a and (len(a.rows) or a.punctuations) for a in self.arrivals)


@dataclass
class ClosedHidden:
    """What was closed of keys whose rows may be hidden, until the feature that hides them has counted it."""

    hashes: list[Int64s] = field(default_factory=list)
    ranges: int = 0

    def clear(self) -> None:
        """It is counted."""
        self.hashes, self.ranges = [], 0


@dataclass
class Numbers:
    """What is counted for `statistics`: of the join, of each stream, of each intermediate.

    And the latest decisions in words, for `explain`.
    """

    join: dict[str, Any]
    streams: list[dict[str, Any]]
    intermediates: dict[str, dict[str, Any]]
    reasons: list[str] = field(default_factory=list)


class Feature:
    """The protocol, with nothing to do."""

    name: ClassVar[str]

    def __init__(self, host: Host) -> None:
        self.host = host

    def learn(self) -> Undo | None:
        """More is known of the streams' schemas; return what goes back."""

    def admit(self, arrivals: Arrivals, share: Share, cores: int) -> Arrivals:
        """Return what is let in of a batch; `share` is this engine's, one of `cores` that run at a time."""
        return arrivals

    def floors(self, clock_us: int) -> list[int]:
        """Return, by stream, the time below which rows are not found in a batch with this clock."""
        return self.host.floors_us

    def retains(self) -> Collection[Plan]:
        """Return the inputs whose rows the engine must not expire."""
        return ()

    def hidden(self, hashes: Int64s) -> Bools | None:
        """Return, by key, whether this feature may hold rows that sides do not see; None: for no key."""

    def needed(self, rows: Mapping[Plan, Rows], covers: Callable[[Int64s], Bools]) -> Mapping[Plan, Bools]:
        """Return which hidden rows may still join, by input where not all may.

        They owe nothing, and are all that there are of the keys that `covers` tells by their hashes.
        """
        return {}

    def closed(self, stream: int, keys: Keys) -> Bools | None:
        """Return for which keys no row of a stream comes after the step that runs; None: for no key."""

    def closing(self, stream: int) -> list[Keys] | None:
        """Return the keys that the step closes a stream for; None: a range of them, too."""
        return []

    def unsettled(self, keys: Keys) -> Bools | None:
        """Return of which keys results wait that need no further row; None: of no key."""

    def expire(self) -> None:
        """Forget what only this feature knows to be past."""

    def nbytes(self) -> int:
        """Return how many bytes of rows it holds in memory, besides those in sides."""
        return 0

    def make_room(self, incoming: int) -> None:
        """Make room in memory for rows of this many bytes."""

    def begin(self, step: Step) -> None:
        """A step begins; what changes here no result can show."""

    def enter(self, step: Step) -> None:
        """Rows are about to be stored: change `step.arriving`, plan who may probe."""

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Rows arrive at an input of an operator."""

    def allow(self, operator: tuple[Plan, ...], turn: Turn) -> Rations | None:
        """Return who may probe in an operator; None: all."""

    def found(self, operator: int, sides: Sequence[SideState], positions: Positions) -> None:
        """An operator has found combinations that hold."""

    def owed(self, operator: int) -> Iterator[Found]:
        """Find combinations with rows that are not in memory."""
        return iter(())

    def settling(self, step: Step) -> Iterator[pa.Table]:
        """Yield further results of the step, now that its rows are stored and its combinations found."""
        return iter(())

    def commit(self, step: Step) -> None:
        """The step has found all it was to find; the watermark has moved."""

    def undo(self) -> None:
        """The step has failed: take back all since `enter`, and what `begin` planned."""

    def purge(self, step: Step | None) -> None:
        """Forget the rows that no row to come can meet; without a step, at once, because memory is full."""

    def work(self, *, idle: bool, ended: bool) -> Iterator[Any]:
        """Yield what is due before the next batch, or is left when all streams have `ended`.

        There is one step with results of its own for each.
        """
        return iter(())

    def measured(self, seconds: float, paced: float, probes: int, ahead: float) -> None:
        """The latest batch took this long, and what budgets explain of it; `ahead` of that others took."""

    def save(self, state: EngineState) -> None:
        """Add what is to be saved."""

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on from what was saved, perhaps with another plan or without this feature."""

    @classmethod
    def outlasts(cls, state: EngineState) -> bool:
        """Tell whether a saved state still needs this feature, though the query does without; may raise."""
        return False

    def describe(self, numbers: Numbers) -> None:
        """Add what is known to the statistics, and why it was decided."""


Make: TypeAlias = Callable[[Host], Feature]


def _of_one_of_several_keys(query: JoinQuery, site: Site) -> bool:
    """Whether there are promises about one of several keys, and all operators are here."""
    whole = site.subplan is None or (site.subplan.node == query.tree and not site.subplan.handed)
    return query.promises and not query.one_key and whole


# outer before promises: rows settle by what a batch closes before others are forgotten for it
# promises before spill: keys are closed before rows on disk are looked through for them
_HOMES: tuple[tuple[str, str, str, Callable[[JoinQuery, Site], bool]], ...] = (
    ("count_windows", "feature", "CountWindows", lambda query, _: query.counts),
    ("outer", "feature", "Settling", lambda query, _: query.kinds.settles),
    ("promises", "feature", "Promises", lambda query, _: query.promises and query.one_key),
    ("promises", "several_keys", "SeveralKeys", _of_one_of_several_keys),
    ("spill", "feature", "Spilling", lambda query, _: query.memory is not None),
    ("overload", "feature", "Overloading", lambda query, site: bool(query.overload or site.state_windows)),
)


class Features:
    """The features of one engine; each hook as the functions that override it."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._all = {feature.name: feature for feature in features}
        self._overriding = {
            name: tuple(getattr(f, name) for f in self if getattr(type(f), name) is not hook)
            for name, hook in vars(Feature).items()
            if callable(hook) and not name.startswith("_")
        }
        allow = next(iter(self.of(Feature.allow)), None)
        self.hooks = Hooks(self.of(Feature.arrived), self.of(Feature.found), self.of(Feature.owed), allow)

    def of(self, hook: Callable[Concatenate[Any, P], R]) -> tuple[Callable[P, R], ...]:
        """Return the functions that override a hook, such as `Feature.admit`, in the features' order."""
        return self._overriding[hook.__name__]

    def get(self, name: str) -> Any:
        """A feature by name; None if the query does without."""
        return self._all.get(name)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._all.values())


def features_of(host: Host, given: Mapping[str, Make]) -> Features:
    """The features that a query has; `given` makes some of them in another way."""
    return Features(
        (given[name] if name in given else _class(name, module, kind))(host)
        for name, module, kind, wanted in _HOMES
        if name in given or wanted(host.query, host.site)
    )


def outlasting(host: Host, features: Features, state: EngineState) -> Features:
    """The same, with those that a saved state still needs."""
    needed: list[Feature] = []
    for name, module, kind, _ in _HOMES:
        if (feature := features.get(name)) is not None:
            needed.append(feature)
        elif state.feature(name) and (made := _class(name, module, kind)).outlasts(state):
            needed.append(made(host))
    return Features(needed)


def _class(name: str, module: str, kind: str) -> type[Feature]:
    made: type[Feature] = getattr(importlib.import_module(f"braided.engine.{name}.{module}"), kind)
    return made
