"""Semi streams: of all combinations that differ in their rows alone, only the first one counts.

What an operator finds without its semi streams' rows comes once, in the batch in which the last of them gets
its first partner. So what is found goes on if

- none of the same batch with the same other rows has gone on, and
- one of the other rows is new, or one of the semi streams had no partner for them before the batch. That is
  told by looking for one among the rows that were stored then: those that a combination may have as a partner
  stay until it is final.

The law of `mjoin` says that some combination with these rows is found in that batch, and what is compared
does not depend on the order of rows. Hence each comes once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from braided.engine.operators import predicate
from braided.engine.operators.inputs import Input
from braided.engine.operators.layout import Layout
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.partners import Asking, Partners
from braided.engine.sides.keys import KeyFormat
from braided.engine.sides.side import SideState
from braided.policies.arrays import Bools
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import leaves


class Firsts:
    """Picks what goes on of what an operator with semi streams finds."""

    def __init__(
        self, query: JoinQuery, inputs: Sequence[Input], layouts: Sequence[Layout], keys: KeyFormat
    ) -> None:
        kinds = {s.name: s.how for s in query.streams}
        self._inputs, self._text = inputs, query.where or ""
        self._semis = [i for i, source in enumerate(inputs) if kinds.get(source.name) == "semi"]
        self._others = [i for i in range(len(inputs)) if i not in self._semis]
        self._core = next(i for i in self._others if set(query.kinds.core) <= set(leaves(inputs[i].node)))
        self._matches = {i: query.kinds.match(inputs[i].name) for i in self._semis}
        self._partners = {
            i: Partners(query, inputs[i].name, query.kinds.core, layouts, keys, self._matches[i])
            for i in self._semis
        }
        self._begin: list[int] = []
        self._gone_on: npt.NDArray[np.void] | None = None

    def start(self, begin: Sequence[int]) -> None:
        """A batch begins; its rows are those from these positions on, by input."""
        self._begin, self._gone_on = list(begin), None

    def pick(self, sides: Sequence[SideState], positions: Positions) -> Positions:
        """Return what goes on."""
        for keep in (self._matching, self._unlike):
            if positions.shape[1]:
                positions = np.ascontiguousarray(positions[:, keep(sides, positions)])
        if not positions.shape[1]:
            return positions
        return np.ascontiguousarray(positions[:, ~self._known(sides, positions)])

    def _matching(self, sides: Sequence[SideState], positions: Positions) -> Bools:
        """Tell for which `where` holds, as far as it is about semi streams."""
        keep = np.ones(positions.shape[1], np.bool_)
        for i, match in self._matches.items():
            if match is not None:
                wanted, columns = match.columns(), {}
                for j in (i, self._core):
                    asking = Asking(self._inputs[j], sides[j], positions[j].astype(np.int64))
                    columns.update(asking.gather(wanted))
                keep &= predicate.passes(match, columns, positions.shape[1], self._text)
        return keep

    def _unlike(self, sides: Sequence[SideState], positions: Positions) -> Bools:
        """Tell which are the first with their other rows in this batch."""
        rows = np.ascontiguousarray(positions[self._others].T)
        known = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        first = np.zeros(len(known), np.bool_)
        first[np.unique(known, return_index=True)[1]] = True
        if self._gone_on is not None:
            first &= ~np.isin(known, self._gone_on)
        self._gone_on = (
            known[first] if self._gone_on is None else np.concatenate([self._gone_on, known[first]])
        )
        return first

    def _known(self, sides: Sequence[SideState], positions: Positions) -> Bools:
        """Tell which had all their partners before the batch."""
        known = np.ones(positions.shape[1], np.bool_)
        for j in self._others:
            known &= positions[j] < self._begin[j]
        for i, partners in self._partners.items():
            at = np.flatnonzero(known)
            asking = Asking(
                self._inputs[self._core], sides[self._core], positions[self._core][at].astype(np.int64)
            )
            known[at] = partners.any(asking, sides[i], self._begin[i])
        return known


def firsts_of(
    query: JoinQuery, inputs: Sequence[Input], layouts: Sequence[Layout], keys: KeyFormat
) -> Firsts | None:
    """Return what picks where a semi stream is among the inputs; None: all goes on."""
    semis = {s.name for s in query.streams if s.how == "semi"}
    return Firsts(query, inputs, layouts, keys) if semis & {source.name for source in inputs} else None
