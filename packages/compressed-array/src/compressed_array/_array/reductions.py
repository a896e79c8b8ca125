"""Reductions over a compressed array, a block of bounded size at a time.

Each block of the grid is decoded, reduced by numpy, and folded into the answer. Sums of floats are added up in another
order than numpy's, as they are whenever an array's memory layout changes; everything else is numpy's answer exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from compressed_array._array.grid import ItemGrid
from compressed_array._runtime.chunks import boxes, ranges
from compressed_array._runtime.types import Dense

# What a block is folded into the answer with; for each, the order of folding does not matter.
FOLDED_BY_BLOCKS = {
    np.add, np.multiply, np.minimum, np.maximum, np.fmin, np.fmax,
    np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
}  # fmt: skip
Axis = int | tuple[int, ...] | None


def reduce(cells: ItemGrid, ufunc: np.ufunc, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Does what `ufunc.reduce` does, for a ufunc that is `FOLDED_BY_BLOCKS` and an array that is not empty."""
    axes = _axes(cells, _or_none(cells, axis))
    folded = _fold(cells, axes, ufunc, lambda block: ufunc.reduce(block, axis=axes, dtype=dtype, keepdims=True))
    return _shaped(folded, axes, keepdims)


def count_nonzero(cells: ItemGrid, axis: Axis = None, keepdims: bool = False) -> Any:
    """Does what `np.count_nonzero` does."""
    axes = _axes(cells, _or_none(cells, axis))
    folded = _fold(cells, axes, np.add, lambda block: np.count_nonzero(block, axis=axes, keepdims=True))
    counted = _shaped(folded, axes, keepdims)
    # A plain int up to numpy 2.2, a numpy one since.
    return counted if axis is not None or keepdims else type(np.count_nonzero(()))(counted)


def mean(cells: ItemGrid, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Does what `np.mean` does, with its choice of types: integers in float64, float16 summed in float32."""
    axes = _axes(cells, axis)
    narrow = dtype is None and cells.dtype.kind == "f" and cells.dtype.itemsize == 2
    summed_in = np.float32 if narrow else np.float64 if dtype is None and cells.dtype.kind in "iub" else dtype
    total = reduce(cells, np.add, axes, summed_in, keepdims)
    answer = np.true_divide(total, _count(cells, axes))
    return answer.astype(np.float16) if narrow else answer.astype(np.asarray(total).dtype)


def var(cells: ItemGrid, axis: Axis = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """Does what `np.var` does: the mean first, then the mean square of the differences from it."""
    axes = _axes(cells, axis)
    narrow = dtype is None and cells.dtype.kind == "f" and cells.dtype.itemsize == 2
    center = np.asarray(mean(cells, axes, np.float32 if narrow else dtype, keepdims=True))
    grid = cells.numbers.ndim

    def squares(block: Dense, box: tuple[slice, ...]) -> Dense:
        here = tuple(slice(None) if a in axes else box[a] for a in range(grid))
        away = block - center[here]
        square = (away * away.conj()).real if away.dtype.kind == "c" else away * away
        return np.asarray(np.add.reduce(square, axis=axes, dtype=dtype, keepdims=True))

    total = _shaped(_fold_boxes(cells, axes, np.add, squares), axes, keepdims)
    answer = np.true_divide(total, max(_count(cells, axes) - ddof, 0))
    return answer.astype(np.float16 if narrow else np.asarray(total).dtype)


def std(cells: ItemGrid, axis: Axis = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    """Does what `np.std` does."""
    narrow = dtype is None and cells.dtype.kind == "f" and cells.dtype.itemsize == 2
    answer = np.sqrt(var(cells, axis, np.float32 if narrow else dtype, ddof, keepdims))
    return answer.astype(np.float16) if narrow else answer


def arg(cells: ItemGrid, which: Callable[..., Any]) -> Any:
    """Does what `np.argmin` or `np.argmax` does to the flattened array: the first of equals, and any NaN before all."""
    values, places = [], []
    item_size = prod(cells.item_shape)
    for low, high in ranges(cells.numbers.size, cells.item_nbytes):
        block = cells.rows(low, high).reshape(-1)
        place = which(block)
        values.append(block[place])
        places.append(low * item_size + place)
    return np.intp(places[which(np.array(values, cells.dtype))])


def equal(cells: ItemGrid, other: Callable[[tuple[slice, ...]], Dense], equal_nan: bool = False) -> bool:
    """Does what `np.array_equal` does, with an array of the same shape of which `other` returns a block."""
    for box in boxes(cells.numbers.shape, cells.item_nbytes):
        if not np.array_equal(cells.read(box, cells.split(box)), other(box), equal_nan=equal_nan):
            return False
    return True


def _fold(cells: ItemGrid, axes: tuple[int, ...], ufunc: np.ufunc, block: Callable[[Dense], Any]) -> Dense:
    return _fold_boxes(cells, axes, ufunc, lambda items, box: np.asarray(block(items)))


def _fold_boxes(
    cells: ItemGrid, axes: tuple[int, ...], ufunc: np.ufunc, block: Callable[[Dense, tuple[slice, ...]], Dense]
) -> Dense:
    answer: Dense | None = None
    grid = cells.numbers.ndim
    for box in boxes(cells.numbers.shape, cells.item_nbytes):
        part = block(cells.read((*box, ...), cells.split((*box, ...))), box)
        if answer is None:
            shape = tuple(1 if axis in axes else n for axis, n in enumerate(cells.shape))
            answer = np.empty(shape, part.dtype)
        where: Any = (*(slice(None) if axis in axes else box[axis] for axis in range(grid)), ...)
        here = answer[where]
        if any(box[axis].start for axis in axes if axis < grid):
            ufunc(here, part, out=here)
        else:
            here[...] = part
    assert answer is not None, "callers see to it that there is something to reduce"
    return answer


def _or_none(cells: ItemGrid, axis: Axis) -> Axis:
    """Returns the axis, or None where it is the one that ufuncs accept for an array without axes."""
    return None if not cells.shape and axis in (0, -1) else axis


def _axes(cells: ItemGrid, axis: Axis) -> tuple[int, ...]:
    return tuple(range(len(cells.shape))) if axis is None else normalize_axis_tuple(axis, len(cells.shape))


def _count(cells: ItemGrid, axes: tuple[int, ...]) -> int:
    return prod(cells.shape[axis] for axis in axes)


def _shaped(folded: Dense, axes: tuple[int, ...], keepdims: bool) -> Any:
    return folded if keepdims and folded.ndim else folded.squeeze(axis=axes)[()]
