"""Observation spaces: what SB3 allocates for one, and whether an observation belongs to one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from compressed_array import CompressedArray
from compressed_array.dtypes import cast_exactly
from compressed_array_sb3.errors import ObservationError

Array = npt.NDArray[Any]


def without_elements(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns a space with the same keys whose observations have no elements: SB3 allocates nothing for them."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: without_elements(part) for key, part in space.spaces.items()})
    return spaces.Box(0, 1, (0,), np.float32)


def checked(obs: Any, space: spaces.Space[Any], shape: Any, n_envs: int) -> Any:
    """Returns observations of `n_envs` environments in the space's dtype; raises if they are something else.

    SB3 leaves this to numpy, which repeats one environment's observation for all of them and wraps 300 around to 44.
    """
    if isinstance(space, spaces.Dict):
        missing = [key for key in space.spaces if key not in obs]
        if missing:
            raise ObservationError(f"the observation has no key {missing[0]!r}; the space has {list(space.spaces)}")
        return {key: checked(obs[key], part, shape[key], n_envs) for key, part in space.spaces.items()}
    if type(obs) is np.ndarray and obs.dtype == space.dtype and obs.shape == (n_envs, *shape):
        return obs
    array = np.asarray(obs.read() if isinstance(obs, CompressedArray) else obs)
    if array.shape != (n_envs, *shape):
        # SB3 itself puts the numbers of a Discrete space into columns.
        of_one = n_envs == 1 and array.shape == shape
        if not of_one and not (isinstance(space, spaces.Discrete) and array.size == n_envs):
            raise ObservationError(
                f"observations of shape {array.shape} where {n_envs} environment(s) have {(n_envs, *shape)}"
            )
    if array.dtype != space.dtype:
        array = cast(array, np.dtype(space.dtype))
    return array


def avoid_copy(obs: Any, space: spaces.Space[Any]) -> Any:
    """Returns checked observations in a form that SB3 does not copy before it assigns them."""
    if isinstance(space, spaces.Dict):
        return {key: avoid_copy(part, space.spaces[key]) for key, part in obs.items()}
    return obs if isinstance(space, spaces.Discrete) else NoCopyArray(obs)


class NoCopyArray:
    """An array that `np.array` does not copy.

    SB3 copies an observation and then assigns it to a part of an array, which is a copy as well, compressed or not.
    """

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self._array  # numpy 2.1 and later take it for the copy that they asked for; 2.0 makes one

    def __getattr__(self, name: str) -> Any:  # for a buffer in between that looks at what it is given
        if name.startswith("__array_"):  # through these numpy would reach the memory, and copy it
            raise AttributeError(name)
        return getattr(self._array, name)

    def __getitem__(self, key: Any) -> Any:
        return self._array[key]

    def __len__(self) -> int:
        return len(self._array)


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Returns an array in another dtype, by the rule of compressed arrays for values of another dtype.

    Besides, whole numbers may be rounded to floats, as in SB3.
    """
    if array.dtype.kind in "iu" and dtype.kind == "f":
        with np.errstate(all="ignore"):
            rounded = array.astype(dtype)
        if np.isfinite(rounded).all():
            return rounded
    return cast_exactly(array, dtype)
