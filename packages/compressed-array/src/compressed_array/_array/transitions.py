"""`TransitionReader`: batches of two arrays that share a store, and of plain arrays, in as few steps as can be.

A network's update between two batches drives this code and its objects out of the processor's caches, so most of the
cost of a small batch is how much code runs and how many objects are touched. Therefore all that is the same for every
batch is found out before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.array import CompressedArray
from compressed_array._array.pair import read_pair
from compressed_array._runtime.loading import native
from compressed_array._runtime.output_pool import lend
from compressed_array._runtime.types import Dense

Positions = npt.NDArray[np.int64]
Allocator = Callable[[tuple[int, ...], np.dtype[Any]], Dense]


class TransitionReader:
    """Reads two compressed arrays and some plain ones at the same cells, again and again.

    >>> import numpy as np, compressed_array as ca
    >>> obs = ca.zeros((100, 2, 84, 84), np.uint8, item_ndim=2)
    >>> after = ca.zeros(obs.shape, np.uint8, item_ndim=2, store=obs.store)
    >>> rewards = np.arange(200.0).reshape(100, 2)
    >>> reader = ca.TransitionReader(obs, after, [rewards])
    >>> reader.read(np.array([3, 199]))[2]
    [array([  3., 199.])]

    Args:
        first: An array.
        second: Another one of the same shape on the same store.
        columns: Plain arrays with a row for each cell, in C order.
        memory: What makes the arrays that items are decoded into, of a shape and a dtype.
    """

    def __init__(
        self, first: CompressedArray, second: CompressedArray, columns: Sequence[Dense], memory: Allocator = lend
    ) -> None:
        a, b = first.cells, second.cells
        grid = a.numbers.shape
        if a.store is not b.store or a.shape != b.shape or a.dtype != b.dtype or not grid:
            raise ValueError("the two arrays have to be alike, with a grid, and on one store")
        for column in columns:
            if (
                type(column) is not np.ndarray
                or column.shape[: len(grid)] != grid
                or not column.flags.c_contiguous
                or column.dtype.hasobject
            ):
                raise ValueError(f"a column has to be plain, of C order, and a row for each cell of {grid}")
        self._arrays, self._given, self._store, self._memory = (first, second), list(columns), a.store, memory
        self._item_shape, self._dtype, self._item_nbytes = a.item_shape, a.dtype, a.item_nbytes
        self._grid, self._size = grid, prod(grid)
        self._columns = [column.reshape(self._size, *column.shape[len(grid) :]) for column in columns]
        nbytes = [prod(column.shape[1:]) * column.itemsize for column in self._columns]
        self._begins, self._row_nbytes = [0] * len(columns), 0
        # Those with the largest elements first, so that each begins where such elements may.
        for i in sorted(range(len(columns)), key=lambda i: -columns[i].dtype.alignment):
            self._begins[i] = self._row_nbytes
            self._row_nbytes += nbytes[i]
        numbers = [cells.numbers for cells in (a, b)]
        self._tables = (
            np.array([table.__array_interface__["data"][0] for table in (*self._columns, *numbers)], np.int64),
            np.array(nbytes, np.int64),
            np.array(self._begins, np.int64),
        )
        self._is_dense = self._size > 0 and a.item_nbytes > 0 and all(table.flags.c_contiguous for table in numbers)

    def read(self, positions: Positions) -> tuple[Dense, Dense, list[Dense]]:
        """Returns the items of the first array, those of the second, and the rows of each column.

        Args:
            positions: Which cells, as `ravel()` would number them, from 0 on.
        """
        kernels = native("sampling._gather_kernels") if self._is_dense else None
        if kernels is None or positions.dtype != np.int64 or not positions.flags.c_contiguous or not positions.size:
            return self._read_by_numpy(positions)
        count = len(positions)
        numbers, others = np.empty(count, np.uint32), np.empty(count, np.uint32)
        block = np.empty(count * self._row_nbytes, np.uint8)
        shape, rows = (count, *self._item_shape), (count, self._item_nbytes // self._dtype.itemsize)
        with self._store.epochs.reading():
            if not kernels.gather_rows(positions, self._size, *self._tables, block, numbers, others):
                raise self._out_of_range()
            items, after = self._memory(shape, self._dtype), self._memory(shape, self._dtype)
            out, other_out = items.reshape(rows).view(np.uint8), after.reshape(rows).view(np.uint8)
            self._store.read_pair(numbers, out, others, other_out)
        return (
            items,
            after,
            [
                np.ndarray((count, *column.shape[1:]), column.dtype, block, begin * count)
                for column, begin in zip(self._columns, self._begins, strict=True)
            ],
        )

    def _read_by_numpy(self, positions: Positions) -> tuple[Dense, Dense, list[Dense]]:
        if positions.size and not 0 <= positions.min() <= positions.max() < self._size:
            raise self._out_of_range()
        shape = (len(positions), *self._item_shape)
        out = self._memory(shape, self._dtype), self._memory(shape, self._dtype)
        items, after = read_pair(*self._arrays, np.unravel_index(positions, self._grid), out)
        return items, after, [column[positions] for column in self._columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return TransitionReader, (*self._arrays, self._given, self._memory)  # a copy's arrays are elsewhere in memory

    def _out_of_range(self) -> IndexError:
        return IndexError(f"positions are from 0 to {self._size - 1}, and not all of these are")
