"""Reading a sample for JAX: no array is copied on its way, and decoded arrays are aligned as JAX needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from compressed_array_sb3._reads import ObservationArray, Pairs, SampleScope
from compressed_array_sbx._joined_keys import ColumnArray, column_tensor
from compressed_array_sbx._memory import lend

Array = npt.NDArray[Any]


class JaxSampleScope(SampleScope):
    """A `SampleScope` whose tensors show the arrays that SB3 gathered, instead of copies of them.

    Args:
        kept: The attributes of the buffer; parts of its own arrays are copied all the same.
    """

    def __init__(self, pairs: Pairs, device: torch.device | str, kept: Iterable[Any]) -> None:
        super().__init__(pairs, device)
        self._owners = owners(kept)
        self._shown: set[int] = set()

    def memory_for(self, array: ObservationArray, parts: tuple[Array, ...]) -> Array | None:
        if self._device.type != "cpu":
            return super().memory_for(array, parts)
        shape = parts[0].shape
        if any(part.shape != shape for part in parts):
            shape = np.broadcast_shapes(*(part.shape for part in parts))
        return lend(shape + array.item_shape, array.dtype)

    def take_over(self, array: Array) -> torch.Tensor | None:
        if self._device.type != "cpu":
            return super().take_over(array)
        base = array.base
        if id(array if base is None else base) in self._owners:
            return None
        if type(array) is ColumnArray and array.joined is not None:
            return column_tensor(array)
        tensor = torch.from_numpy(array)
        place = tensor.data_ptr()
        if place in self._shown:  # SB3 may give one array twice, as obs and next obs; users may change a tensor
            return tensor.clone()
        self._shown.add(place)
        return tensor


def owners(values: Iterable[Any]) -> set[int]:
    """Returns the ids of the objects that own the memory of the plain arrays among values, and in dicts among these."""
    found: set[int] = set()
    for value in values:
        if type(value) is np.ndarray:
            found.add(id(value if value.base is None else value.base))
        elif isinstance(value, dict):
            found |= owners(dict.values(value))
    return found
