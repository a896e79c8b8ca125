"""Checks that all buffers with priorities make, in this adapter and in that of SBX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.sampling import Ring
from compressed_array_sb3.errors import BufferOptionError


def check_exponents(alpha: float, epsilon: float) -> None:
    """Refuses an `alpha` or `epsilon` that makes no priorities of errors."""
    if not (0 <= alpha < np.inf and 0 <= epsilon < np.inf):
        raise BufferOptionError(f"alpha and epsilon are not negative, and these are {alpha} and {epsilon}")


def still_held(ring: Ring, numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns which transitions a ring still holds, by numbers that batches have had; raises for any other number."""
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < ring.steps * ring.lanes):
        raise IndexError("no batch of this buffer has had these indices: give those of one")
    is_held: npt.NDArray[np.bool_] = ring.is_held(numbers)
    return is_held
