"""`Grid`: what the keys of an array on a device mean: which cells, of which lanes, and what part of an item."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from compressed_array._stores.protocol import MOST_LANES
from compressed_array.errors import UnsupportedOperationError
from compressed_array.torch._sync import Array, Ints, on_device

Key = tuple[Any, ...]


class Grid:
    """The axes of an array along which items lie, which are of `item_shape`."""

    def __init__(self, shape: tuple[int, ...], item_shape: tuple[int, ...], device: torch.device) -> None:
        self.shape, self._ndim, self._device = shape, len(shape) + len(item_shape), device
        # The last axis is that of streams that are written side by side; where there is but one axis, it is one stream.
        self.row_lanes = row_lanes(shape[-1] if len(shape) > 1 else 1)
        self._step_shape = (shape[1], *item_shape) if len(shape) == 2 and 0 not in (shape[1], *item_shape) else None

    def is_step(self, row: Any, items: torch.Tensor | Array) -> bool:
        """Whether this is a step of a buffer: a row that is there, and items of just its shape."""
        return type(row) is int and items.shape == self._step_shape and -self.shape[0] <= row < self.shape[0]

    def split(self, key: Any) -> tuple[Key, Key]:
        """Returns the part of a key that picks items, and the part that reaches into them: () for whole items."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(part is Ellipsis for part in parts):
            at = next(i for i, part in enumerate(parts) if part is Ellipsis)
            parts = (*parts[:at], *[slice(None)] * (self._ndim - len(parts) + 1), *parts[at + 1 :])
        if len(parts) > self._ndim:
            raise IndexError(f"{len(parts)} indices for an array of {self._ndim} axes")
        axes = len(self.shape)
        grid, inside = tuple(map(self._part, parts[:axes], self.shape)), parts[axes:]
        if all(isinstance(part, slice) and part == slice(None) for part in inside):
            return grid, ()
        if any(not isinstance(part, (int, slice)) for part in inside):
            raise UnsupportedOperationError("arrays pick whole items; index what you get")
        return grid, (*inside, *[slice(None)] * (self._ndim - len(parts)))

    def _part(self, part: Any, length: int) -> Any:
        """Returns a part of a key as an integer, a slice, an array of integers, or a tensor of them on another device.

        Raises `IndexError` if one is out of range, as far as the host can see that.
        """
        if isinstance(part, slice):
            return part
        found = part if isinstance(part, torch.Tensor) and part.device.type != "cpu" else np.asarray(part)
        if isinstance(found, np.ndarray) and not found.size:
            found = found.astype(np.int64)  # of an empty list it would be floats
        kind = found.dtype
        if (kind.kind not in "iu") if isinstance(kind, np.dtype) else (kind == torch.bool or kind.is_floating_point):
            raise UnsupportedOperationError("the grid takes integers, slices, and arrays of integers")
        if isinstance(found, torch.Tensor):
            return found
        if found.size and not (-length <= found.min() and found.max() < length):  # a GPU would not survive it
            raise IndexError(f"an index is out of range for an axis of {length}")
        return found if found.ndim else int(found)

    def on_device(self, grid: Key) -> Key:
        """Returns the part of a key that picks items, with arrays as tensors on the device."""
        return tuple(
            on_device(part.astype(np.int64), self._device) if isinstance(part, np.ndarray) else part for part in grid
        )

    def lanes(self, grid: Key, count: int) -> Ints:
        """Returns the lanes that the `count` cells of a key belong to: their places along the last axis of the grid.

        Where only the device knows the cells, it is as if they were in turn of all lanes.
        """
        if len(self.shape) < 2 or any(isinstance(part, torch.Tensor) for part in grid):
            # To ask the device would take longer than a batch that mixes its lanes up costs in space.
            return np.resize(self.row_lanes, count)
        return self.row_lanes[self._along(len(self.shape) - 1, grid)]

    def last_of_each(self, grid: Key) -> tuple[Ints, Ints] | None:
        """Returns each cell of a key once, and which of the items for it stays there, which in numpy is the last.

        Returns None if no cell is named twice, or only the device knows.
        """
        if not any(isinstance(part, np.ndarray) for part in grid) or any(isinstance(p, torch.Tensor) for p in grid):
            return None
        flat = np.zeros((), np.int64)
        for axis, length in enumerate(self.shape):
            flat = flat * length + self._along(axis, grid)
        each, newest = np.unique(flat[::-1], return_index=True)
        return None if len(each) == len(flat) else (each, len(flat) - 1 - newest)

    def _along(self, axis: int, grid: Key) -> Ints:
        """Returns the index along one axis of each cell of a key, in torch's order, which at times is not numpy's."""
        along = torch.arange(self.shape[axis]).reshape(-1, *[1] * (len(self.shape) - axis - 1)).expand(self.shape)
        key = tuple(torch.from_numpy(part.astype(np.int64)) if isinstance(part, np.ndarray) else part for part in grid)
        return along[key].reshape(-1).numpy()


@cache
def row_lanes(count: int) -> Ints:
    """Returns the lanes of one row of a grid. For all arrays it is the same object, by which a store knows them."""
    return np.arange(count) % MOST_LANES
