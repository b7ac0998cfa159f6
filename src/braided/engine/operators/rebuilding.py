"""Making the rows of intermediates again from the rows stored below them; nothing is emitted or learned.

Needed where a state comes back with another plan, and where rationed probes have left rows out. Each
combination of stored rows arises once, as in a batch that brings all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from braided.engine.operators.mjoin import Buffer
from braided.engine.operators.operator import Operator
from braided.engine.operators.tree import PIECE_ROWS, Hooks, Tree
from braided.engine.sides.side import Reason
from braided.query.plan_tree import Plan


def rebuild(tree: Tree, floors_us: Sequence[int], nodes: Collection[Plan] | None = None) -> None:
    """Make the rows of all intermediates again, or of some."""
    for operator in tree.operators[:-1]:
        if operator.combining is not None and (nodes is None or operator.node in nodes):
            _rebuild(tree, operator, floors_us)


def rebuild_probes(tree: Tree, node: Plan) -> int:
    """About how many probes it takes to make an intermediate's rows again."""
    operator = next(o for o in tree.operators if o.node == node)
    held = {child: side.seen(side.count) for child, side in tree.sides.items()}
    return sum(held.get(c, 0) for c in operator.node) + held.get(node, 0) * (len(operator.node) - 2)


def _rebuild(tree: Tree, operator: Operator, floors_us: Sequence[int]) -> None:
    tree.rebuilt.add(operator.node)
    before, side = operator.join.learned.copy(), tree.sides[operator.node]
    side.forget(range(side.first, side.count), Reason.REMAKE)
    sides = tree.of_inputs(operator)
    for source in sides:
        source.leave_out_gone()
    buffers = [Buffer(s.first, s.count) for s in sides]
    pieces = operator.join.combinations(sides, buffers, PIECE_ROWS)
    rows = tree.made(operator, ((sides, piece) for piece in pieces), floors_us, Hooks())
    if rows is not None:
        side.append(rows)
    operator.join.learned = before
