"""The small tables the probe kernels share: one row per side, and one block of rows per level."""

from __future__ import annotations

# columns of the side table, one row per stream
HASH, TIME, LINK, HEAD, SHIFT, FIRST, VISIBLE, SCANNED, ORDERED, FLOOR = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
SIDE_COLUMNS = 10

# what is kept of each level's block, one row per level; level 0 is the driver stream
WALKER, AT, KEY, LOW, HIGH = 0, 1, 2, 3, 4  # walkers: member of the block, position; members: key, times
UNTIL = WALKER  # of a member that sweeps: where its sweep ends
LOT = 5  # what a member drew, where probes are rationed
MEMBER = 6  # then the members' positions, and behind them their times, a row per level

# columns of a segment: rows start..stop of a driver stream, then what they see of each side
DRIVER, START, STOP, SEEN = 0, 1, 2, 3

EVERYONE = (1 << 63) - 1  # the largest lot: all who draw no more may probe

# columns of the tally, one row per driver stream and level
PROBES, SAME_KEY, MATCHES, LOOKED, OFFERED = 0, 1, 2, 3, 4
TALLY_COLUMNS = 5


def level_rows(streams: int) -> int:
    """Return how many rows of values a level keeps."""
    return MEMBER + 2 * streams
