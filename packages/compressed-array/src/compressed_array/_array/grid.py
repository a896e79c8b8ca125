"""`ItemGrid`: reading and writing by key, for a grid of record numbers and the store they belong to.

A write is made in three steps, so that a failure in any of them changes nothing: every item is encoded and stored
under a new record number; the numbers are put into the table, one aligned store per cell, which is what readers see;
the records that were there are released.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.keys import SplitKey, scatter, split
from compressed_array._array.table import CellTable
from compressed_array._runtime.casting import as_value, cast_exactly, fit_shape, refuse_to_stretch
from compressed_array._runtime.chunks import ranges
from compressed_array._runtime.output_pool import lend
from compressed_array._runtime.types import Dense
from compressed_array._stores.protocol import UNWRITTEN, RecordNumbers, byte_rows, exchange

Positions = npt.NDArray[np.int64]


class ItemGrid:
    """A grid of items: `numbers` says which record each cell holds, in the table's own memory."""

    def __init__(
        self, table: CellTable, numbers: RecordNumbers, item_shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.table, self.store, self.numbers = table, table.store, numbers
        self.item_shape, self.dtype = item_shape, dtype
        self.shape = numbers.shape + item_shape
        self.item_nbytes = prod(item_shape) * dtype.itemsize
        whole = numbers.ndim == 2 and numbers.shape == table.cells.shape and numbers.strides == table.cells.strides
        self.row_writer = None
        if whole:
            rows = table.numbers.reshape(numbers.shape)
            self.row_writer = self.store.row_writer(rows, table.row_lanes, item_shape, dtype)

    def split(self, key: Any) -> SplitKey | None:
        """Returns the key taken apart for this grid."""
        return split(key, self.numbers.ndim, len(self.shape))

    def read(self, key: Any, plan: SplitKey | None, out: Dense | None = None) -> Any:
        """Returns what numpy would give for the key, decoded straight into `out` where that is possible."""
        if plan is None:
            return self._read_scattered(key)
        with self.store.epochs.reading():
            numbers = self.pick(plan)
            if plan.whole_items:
                answer = self.items(numbers, out)
            elif plan.basic and numbers.ndim:
                answer = self._read_parts(numbers, plan)
            else:
                answer = self.items(numbers)[(*plan.item_key(numbers.ndim), ...)]
        return answer[()] if plan.scalar and answer.ndim == 0 else answer

    def items(self, numbers: RecordNumbers, out: Dense | None = None) -> Dense:
        """Returns records decoded, as an array of shape (*numbers.shape, *item_shape). Inside `epochs.reading()`."""
        shape = numbers.shape + self.item_shape
        direct = out is not None and out.shape == shape and out.dtype == self.dtype and out.flags.c_contiguous
        items = out if out is not None and direct else lend(shape, self.dtype)
        if items.nbytes:
            self.store.read(flat(numbers), byte_rows(items, numbers.size))
        return items

    def pick(self, plan: SplitKey) -> RecordNumbers:
        """Returns the numbers of the cells that a key names."""
        if plan.advanced_grid and len(plan.grid) == self.numbers.ndim:
            return np.asarray(self.numbers[plan.grid])
        return np.asarray(self.numbers[(*plan.grid, ...)])

    def write(self, key: Any, value: Any) -> None:
        """Assigns as numpy would, but refuses a value that the dtype cannot hold. Inside `epochs.writing`."""
        plan = self.split(key)
        if plan is None or plan.array_in_item:
            self._write_scattered(key, value)
        elif plan.whole_items:
            positions = self.positions(plan)
            self._publish(plan, positions, self._store_items(positions, value))
        else:
            self._write_parts(plan, value)

    def rows(self, low: int, high: int) -> Dense:
        """Returns the items of the cells from `low` to `high`, in C order."""
        with self.store.epochs.reading():
            return self.items(self.numbers.reshape(-1)[low:high])

    def _read_parts(self, numbers: RecordNumbers, plan: SplitKey) -> Dense:
        flat = numbers.reshape(-1)
        part = part_shape(self.item_shape, plan.item)
        answer = np.empty((len(flat), *part), self.dtype)
        for low, high in ranges(len(flat), self.item_nbytes):
            answer[low:high] = self.items(flat[low:high])[plan.item_key(1)]
        return answer.reshape(numbers.shape + part)

    def _read_scattered(self, key: Any) -> Dense:
        cells, inside = scatter(key, self.numbers.shape, self.item_shape)
        needed, which = np.unique(cells, return_inverse=True)
        with self.store.epochs.reading():
            items = self.items(self.numbers.reshape(-1)[needed])
        answer: Dense = items.reshape(len(needed), prod(self.item_shape))[which.reshape(cells.shape), inside]
        return answer

    def positions(self, plan: SplitKey) -> Positions:
        """Returns where in the table the cells of a key are, in C order."""
        target = self.numbers[(*plan.grid, ...)]
        if not plan.advanced_grid:
            start = self._offset(target)
            if target.flags.c_contiguous:
                return np.arange(start, start + target.size).reshape(target.shape)
            steps = [step // target.itemsize for step in target.strides]
            return np.asarray(start + flat_offsets(target.shape, steps))
        steps = [step // self.numbers.itemsize for step in self.numbers.strides]
        return np.asarray(self._offset(self.numbers) + flat_offsets_of_key(plan.grid, self.numbers.shape, steps))

    def _offset(self, numbers: RecordNumbers) -> int:
        start, table = (a.__array_interface__["data"][0] for a in (numbers, self.table.numbers))
        return int(start - table) // numbers.itemsize if numbers.size else 0

    def _store_items(self, positions: Positions, value: Any) -> RecordNumbers:
        target = positions.shape
        source = IncomingValue(value, target, self.item_shape, self.dtype)
        count = prod(target)
        if source.is_one_item and count > 1:
            return np.full(target, self._store_shared(source, positions, count))
        return self._store_each(positions, source.rows).reshape(target)

    def _store_shared(self, source: IncomingValue, positions: Positions, count: int) -> Any:
        """Returns the number of one record for all of the cells; 0 for an item of zeros, as unwritten cells have."""
        item = source.rows(0, 1)
        if not item.nbytes or not byte_rows(item, 1).any():
            return np.uint32(UNWRITTEN)
        (number,) = self.store.write(item.reshape(1, *self.item_shape), self.table.lanes(positions.reshape(-1)[:1]))
        self.store.retain(np.full(count - 1, number))
        return number

    def _store_each(self, positions: Positions, items: Callable[[int, int], Dense]) -> RecordNumbers:
        """Returns the number of a record for each item, which may be the same for several, each with a reference."""
        numbers = np.zeros(positions.size, np.uint32)
        if not self.item_nbytes:
            return numbers
        lanes = self.table.lanes(positions.reshape(-1))
        try:
            for low, high in ranges(positions.size, self.item_nbytes):
                numbers[low:high] = self.store.write(items(low, high), lanes[low:high])
        except BaseException:
            self.store.release(numbers)
            raise
        return numbers

    def _write_parts(self, plan: SplitKey, value: Any) -> None:
        """Reads, changes and writes back the items that a key reaches into."""
        numbers = self.numbers[(*plan.grid, ...)]
        flat, positions = numbers.reshape(-1), self.positions(plan)
        source = IncomingValue(value, numbers.shape, part_shape(self.item_shape, plan.item), self.dtype)

        def changed(low: int, high: int) -> Dense:
            items = self.items(flat[low:high])
            items[plan.item_key(1)] = source.rows(low, high)
            return items

        self._publish(plan, positions, self._store_each(positions, changed).reshape(numbers.shape))

    def _write_scattered(self, key: Any, value: Any) -> None:
        cells, inside = scatter(key, self.numbers.shape, self.item_shape)
        needed, which = np.unique(cells, return_inverse=True)
        changed = self.items(self.numbers.reshape(-1)[needed]).reshape(len(needed), prod(self.item_shape))
        cast = cast_exactly(dense(value), self.dtype)
        refuse_to_stretch(cast.shape, cells.shape, lambda axis: bool((cells != cells.take([0], axis)).any()))
        changed[which.reshape(cells.shape), inside] = cast
        items = changed.reshape(len(needed), *self.item_shape)
        if len(needed):
            steps = [step // self.numbers.itemsize for step in self.numbers.strides]
            where = np.unravel_index(needed, self.numbers.shape) if self.numbers.ndim else ()
            positions = self._offset(self.numbers) + sum((w * s for w, s in zip(where, steps, strict=True)), needed * 0)
            numbers = self._store_each(positions, lambda low, high: items[low:high])
            exchange(self.store, (self.table.numbers, positions, numbers))

    def _publish(self, plan: SplitKey, positions: Positions, new: RecordNumbers) -> None:
        flat, new = positions.reshape(-1), new.reshape(-1)
        stays = last_of_each(flat) if plan.advanced_grid else None
        if stays is not None:
            self.store.release(np.delete(new, stays))
            flat, new = flat[stays], new[stays]
        exchange(self.store, (self.table.numbers, flat, new))


class IncomingValue:
    """A value on its way into cells: broadcast as numpy would, cast and laid out a few items at a time."""

    def __init__(self, value: Any, target: tuple[int, ...], item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._dtype, self._count = dtype, prod(target)
        self._cells = value if isinstance(value, ItemGrid) and value.shape == target + item_shape else None
        if self._cells is not None and self._cells.numbers.shape == target:
            self.is_one_item = False
            return
        self._cells = None
        array = as_value(dense(value), dtype)
        shape = target + item_shape
        array = array.reshape(fit_shape(array.shape, shape, len(target)))
        self._array = np.broadcast_to(array, shape)
        self.is_one_item = array.ndim <= len(item_shape)
        self._target, self._rest = target, item_shape
        self._in_order = array.shape == shape and array.flags.c_contiguous

    def rows(self, low: int, high: int) -> Dense:
        """Returns rows `low` to `high` of the value, in C order of the cells they go to."""
        if self._cells is not None:
            rows = self._cells.rows(low, high)
        elif self._in_order:
            rows = self._array.reshape(self._count, *self._rest)[low:high]
        elif not self._target or (low == 0 and high == self._count):
            rows = self._array.reshape(high - low, *self._rest)
        else:
            rows = self._array[np.unravel_index(np.arange(low, high), self._target)]
        return cast_exactly(rows, self._dtype)


def flat(numbers: RecordNumbers) -> RecordNumbers:
    """Returns numbers along one axis: the same object if that is what they are, as it may own its memory."""
    return numbers if numbers.ndim == 1 else numbers.reshape(-1)


def dense(value: Any) -> Any:
    """Returns a value with its compressed items decoded."""
    return value.read(..., value.split(...)) if isinstance(value, ItemGrid) else value


def last_of_each(cells: Positions) -> Positions | None:
    """Returns which items stay where some are for the same cell: the last ones, as in numpy. None if none are."""
    stays = len(cells) - 1 - np.unique(cells[::-1], return_index=True)[1]
    return stays if len(stays) < len(cells) else None


def memory_of(out: Any) -> Dense:
    """Returns an array that shares the memory of a tensor; raises `ValueError` if there is no such array."""
    try:
        memory = out.numpy()
    except (AttributeError, TypeError, RuntimeError) as error:  # of another type, on a device, or part of a graph
        raise ValueError(f"out must be a plain, writable array or a tensor in the host's memory: {error}") from error
    if not isinstance(memory, np.ndarray):
        raise ValueError(
            f"out must be a plain, writable array or a tensor in the host's memory, not {type(out).__name__}"
        )
    return memory


def part_shape(item_shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[int, ...]:
    """Returns the shape of what a key takes out of an item."""
    return np.broadcast_to(np.empty((), np.uint8), item_shape)[(*key, ...)].shape


def flat_offsets(shape: tuple[int, ...], steps: list[int]) -> Positions:
    """Returns where each element of an array of this shape lies, if `steps` lead from one to the next of each axis."""
    total = np.zeros(shape, np.int64)
    for axis, (length, step) in enumerate(zip(shape, steps, strict=True)):
        total += (np.arange(length) * step).reshape(-1, *[1] * (len(shape) - axis - 1))
    return total


def flat_offsets_of_key(key: tuple[Any, ...], shape: tuple[int, ...], steps: list[int]) -> Positions:
    """Returns `flat_offsets(shape, steps)[key]`, without making all of the offsets where the key names few."""
    if len(key) == len(shape) and all(isinstance(k, int) or (k is not None and is_integers(k)) for k in key):
        parts = [
            np.where(np.asarray(k) < 0, np.asarray(k, np.int64) + n, k) * s
            for k, n, s in zip(key, shape, steps, strict=True)
        ]
        return np.asarray(sum(parts), np.int64)
    total: Positions = np.zeros((), np.int64)
    for axis, (length, step) in enumerate(zip(shape, steps, strict=True)):
        along = (np.arange(length) * step).reshape(-1, *[1] * (len(shape) - axis - 1))
        total = total + np.broadcast_to(along, shape)[(*key, ...)]
    return total


def is_integers(part: Any) -> bool:
    """Whether a part of a key is an array of integers."""
    return isinstance(part, np.ndarray) and part.dtype.kind in "iu"
