"""Random plans, seeded."""

from __future__ import annotations

import numpy as np

from braided.query.plan_tree import Plan


def random_plan(rng: np.random.Generator, streams: int, *, width: int = 2) -> Plan:
    """A tree over s0, s1, ...; inputs are joined in random groups of at most `width`."""
    nodes: list[Plan] = [f"s{i}" for i in range(streams)]
    while len(nodes) > 1:
        size = min(len(nodes), int(rng.integers(2, width + 1)))
        chosen = sorted(rng.choice(len(nodes), size, replace=False), reverse=True)
        nodes.append(tuple(nodes.pop(i) for i in chosen))
    return nodes[0]
