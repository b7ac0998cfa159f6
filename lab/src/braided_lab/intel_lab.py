"""Real sensor readings as five streams: the weatherboards experiment of the jaqpot paper (section 5.2).

The paper joins readings of five groups of neighbouring sensors, (((A B) (C D)) E), each state a window of
1,000 rows, and does not say on which attribute. Ours was fixed before any policy was run: *temperature*, as
recorded. It is what a weatherboard is for, an equi-join on it asks "where is it as warm as here", and a row
finds about 3 of the 1,000 rows of another group's window, which is the only thing about the data that was
looked at. Two others are shown beside it: *humidity* (about 5 matches) and *epoch*, the round in which a
reading was taken (about 3, all recent: what GrubJoin calls correlated in time). Voltage has 46 different
values (over 100 matches a probe, so 10 to the power of 8 results a row over four hops) and light 129 (15 to
30 matches): no join to run.

The file is a slice of five days (the paper had 36): 461,263 rows of which none is incomplete. It is not part
of the package; without it the experiment is left out, and the report says so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from braided.query.plan_tree import Plan

FOLDER = Path("../shared/data")
PLAN: Plan = ((("A", "B"), ("C", "D")), "E")
ATTRIBUTE = "temperature"
OTHERS = ("humidity", "epoch")
WINDOW_ROWS = 1000
MISSING = "the Intel lab data is not there ({path}): the experiment on real data is left out"


def missing(folder: Path = FOLDER) -> str:
    """Why there is no real data; nothing if there is."""
    lacking = [path for path in (_readings(folder), _groups(folder)) if not path.exists()]
    return MISSING.format(path=lacking[0]) if lacking else ""


def streams(attribute: str = ATTRIBUTE, folder: Path = FOLDER) -> dict[str, pa.Table]:
    """Readings of each group in order of time: `key`, equal where the attribute is, and `t`."""
    readings = pq.read_table(_readings(folder), columns=["ts", "moteid", attribute]).sort_by("ts")
    _, keys = np.unique(readings[attribute].to_numpy(), return_inverse=True)
    times = readings["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.timestamp("us"))
    table = pa.table({"key": keys.astype(np.int64), "t": times})
    motes = readings["moteid"].cast(pa.int64())
    return {
        name: table.filter(pc.is_in(motes, value_set=pa.array(members, pa.int64())))
        for name, members in groups(folder).items()
    }


def groups(folder: Path = FOLDER) -> dict[str, list[int]]:
    """Which sensors each group has."""
    table = pyarrow.csv.read_csv(_groups(folder))
    found: dict[str, list[int]] = {}
    for name, mote in zip(table["group"].to_pylist(), table["moteid"].to_pylist(), strict=True):
        found.setdefault(name, []).append(mote)
    return found


def _readings(folder: Path) -> Path:
    return folder / "intel_lab.parquet"


def _groups(folder: Path) -> Path:
    return folder / "intel_lab_groups.csv"
