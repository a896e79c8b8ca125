"""`concatenate`: arrays one behind the other, without decoding what is compressed already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from compressed_array._array.array import CompressedArray
from compressed_array._array.functions import decoded
from compressed_array._array.table import CellTable
from compressed_array._array.transfer import transferred
from compressed_array._runtime.chunks import boxes
from compressed_array._stores.protocol import Store
from compressed_array._stores.selection import new_store


def concatenate(arrays: Sequence[Any], axis: int = 0) -> CompressedArray:
    """Returns the arrays joined along an axis of the grid, as a compressed array on the store of the first that is one.

    Items that lie in that store are not decoded, and kept once for the result and for the array they come from. Those
    of other streams are mostly not decoded either. Plain arrays, and all other items, are written to it a few megabytes
    at a time. An array that grows is `array = concatenate([array, items])`, which copies four bytes for each item that
    was there; if it began with a few dozen items under "auto", these are written again once, as it becomes a stream.

    Args:
        arrays: Arrays with items of one shape, of which at least one is compressed.
        axis: The axis to join along, one of those that count items.

    >>> import numpy as np, compressed_array as ca
    >>> old, new = ca.compress(np.zeros((3, 84, 84), np.uint8)), np.ones((2, 84, 84), np.uint8)
    >>> ca.concatenate([old, new])[:, 0, 0].tolist()
    [0, 0, 0, 1, 1]
    """
    parts: list[Any] = [part if isinstance(part, CompressedArray) else np.asarray(decoded(part)) for part in arrays]
    first = next((part for part in parts if isinstance(part, CompressedArray)), None)
    if first is None:
        raise TypeError("there is no compressed array among them; use compress(np.concatenate(arrays))")
    axis = normalize_axis_index(axis, first.ndim)
    if axis >= len(first.grid_shape):
        raise ValueError(f"axis {axis} is one of an item of shape {first.item_shape}; join what array.read() gives")
    for part in parts:
        if _without(axis, part.shape) != _without(axis, first.shape):
            raise ValueError(f"shapes {first.shape} and {part.shape} differ in more than axis {axis}")
    ends = np.cumsum([part.shape[axis] for part in parts]).tolist()
    places = [
        (slice(None),) * axis + (slice(end - part.shape[axis], end),) for end, part in zip(ends, parts, strict=True)
    ]
    grid = list(first.grid_shape)
    grid[axis] = ends[-1]
    store = _store_for(first, tuple(grid))
    numbers = np.zeros(grid, np.uint32)
    is_there = [isinstance(part, CompressedArray) and _are_alike(part, first, store) for part in parts]
    with store.epochs.writing, store.epochs.guard:  # no number may lose its record between being copied and being held
        for place, part, there in zip(places, parts, is_there, strict=True):
            if there:
                numbers[place] = part.cells.numbers
        table = CellTable.sharing(store, numbers, is_part=True)
    joined = CompressedArray.on_table(table, first.item_shape, first.dtype)
    for place, part, there in zip(places, parts, is_there, strict=True):
        if not there and not (isinstance(part, CompressedArray) and _took_over(joined[place], part)):
            for box in boxes(joined[place].grid_shape, joined.cells.item_nbytes):
                joined[place][box] = part[box]
    return joined


def _store_for(first: CompressedArray, grid: tuple[int, ...]) -> Store:
    """Returns the first array's store, or a new one where "auto" chose that for few items and there are many now."""
    choice = first.store.codec_choice
    if isinstance(choice, str) and not first.store.is_stream:
        made = new_store(grid, first.item_shape, first.dtype, choice)
        return made if made.is_stream else first.store
    return first.store


def _took_over(target: CompressedArray, part: CompressedArray) -> bool:
    """Puts items into an array undecoded, all of them at once since they lie in groups. Returns whether it could."""
    return transferred([target.cells], ..., [part.cells])


def _without(axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (len(shape), *shape[:axis], *shape[axis + 1 :])


def _are_alike(part: CompressedArray, first: CompressedArray, store: Store) -> bool:
    return part.store is store and part.item_shape == first.item_shape and part.dtype == first.dtype
