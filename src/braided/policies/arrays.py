"""The array types that decisions and the engine share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Bools: TypeAlias = npt.NDArray[np.bool_]
