"""When purging is due: at once, or once enough is known to be worth the work."""

from __future__ import annotations

from braided.query.tuning import BatchPurge, Tuning


def every(tuning: Tuning) -> int:
    """After how many closures stored rows are purged; 1 is immediate purging.

    Rules 1 and 2 of metadata-join: for the most results in a time purge in batches, for the least memory at
    once.
    """
    if tuning.goal == "memory" or tuning.purge == "immediate":
        return 1
    return tuning.purge.every if isinstance(tuning.purge, BatchPurge) else BatchPurge().every


def due(tuning: Tuning, closures: int, *, idle: bool, parts: int = 1) -> bool:
    """Return whether to purge now, given the closed keys not yet used; idle inputs are a good moment.

    If the join is spread over several parts, each sees its part of the closures.
    """
    return closures > 0 and (idle or closures * parts >= every(tuning))


def worth_a_sweep(
    tuning: Tuning, closures: int, *, idle: bool, stored: int, kept: int, parts: int = 1
) -> bool:
    """Return whether to look through all stored rows, as promises about one of several keys need.

    `closures` counts rows that came, too. In batches it is worth it once that many, or rows that were made of
    them, are a quarter of what the last sweep left: so the work is in proportion to what comes.
    """
    grown = every(tuning) == 1 or 4 * max(closures, stored - kept) >= kept
    return due(tuning, closures, idle=idle, parts=parts) and (idle or grown)
