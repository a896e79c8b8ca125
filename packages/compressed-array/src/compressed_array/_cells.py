"""`Cells`: reading and writing by key, for a grid of record numbers and the store they belong to.

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

from compressed_array._cast import as_value, cast_exactly
from compressed_array._chunks import ranges
from compressed_array._keys import SplitKey, scatter, split
from compressed_array._store import UNWRITTEN, RecordNumbers, Records, Store

Dense = npt.NDArray[Any]


class Cells:
    """A grid of items: `numbers` says which record each cell holds."""

    def __init__(self, store: Store, numbers: RecordNumbers, item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.store, self.numbers, self.item_shape, self.dtype = store, numbers, item_shape, dtype
        self.shape = numbers.shape + item_shape
        self.item_nbytes = prod(item_shape) * dtype.itemsize

    def split(self, key: Any) -> SplitKey | None:
        """The key taken apart for this grid."""
        return split(key, self.numbers.ndim, len(self.shape))

    def read(self, key: Any, plan: SplitKey | None, out: Dense | None = None) -> Any:
        """What numpy would give for the key; decoded straight into `out` where that is possible."""
        if plan is None:
            return self._read_scattered(key)
        with self.store.epochs.reading():
            numbers = self.numbers[(*plan.grid, ...)]
            if plan.whole_items:
                answer = self.items(numbers, out)
            elif plan.basic and numbers.ndim:
                answer = self._read_parts(numbers, plan)
            else:
                answer = self.items(numbers)[(*plan.item_key(numbers.ndim), ...)]
        return answer[()] if plan.scalar and answer.ndim == 0 else answer

    def items(self, numbers: RecordNumbers, out: Dense | None = None) -> Dense:
        """Decode records to an array of shape (*numbers.shape, *item_shape). Inside `epochs.reading()`."""
        shape = numbers.shape + self.item_shape
        direct = out is not None and out.shape == shape and out.dtype == self.dtype and out.flags.c_contiguous
        items = out if out is not None and direct else np.empty(shape, self.dtype)
        if items.nbytes:
            self.store.read(numbers.reshape(-1), byte_rows(items, numbers.size))
        return items

    def write(self, key: Any, value: Any) -> None:
        """Assign as numpy would, but refuse a value that the dtype cannot hold. Inside `epochs.writing`."""
        plan = self.split(key)
        if plan is None or plan.array_in_item:
            self._write_scattered(key, value)
        elif plan.whole_items:
            self._publish(plan.grid, self._store_items(plan, value), plan.advanced_grid)
        else:
            self._write_parts(plan, value)

    def rows(self, low: int, high: int) -> Dense:
        """The items of the cells from `low` to `high`, in C order."""
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

    def _store_items(self, plan: SplitKey, value: Any) -> RecordNumbers:
        target = self.numbers[(*plan.grid, ...)].shape
        source = Source(value, target, self.item_shape, self.dtype)
        count = prod(target)
        if source.is_one_item and count > 1 and not plan.advanced_grid:
            return np.full(target, self._store_shared(source, count))

        def records(low: int, high: int) -> Records:
            return byte_rows(source.rows(low, high), high - low)

        return self._store_each(count, records, distinct=plan.advanced_grid).reshape(target)

    def _store_shared(self, source: Source, count: int) -> Any:
        """One record for all of the cells; none at all for zeros, which unwritten cells read as."""
        item = source.rows(0, 1)
        if not item.nbytes or not nonzero_rows(byte_rows(item, 1)).any():
            return np.uint32(UNWRITTEN)
        (number,) = self.store.write(byte_rows(item, 1))
        self.store.retain(np.full(count - 1, number))
        return number

    def _store_each(
        self, count: int, records: Callable[[int, int], Records], *, distinct: bool = False
    ) -> RecordNumbers:
        """A record for each item, except that zeros need none; with `distinct`, no two items share a number."""
        numbers = np.zeros(count, np.uint32)
        if not self.item_nbytes:
            return numbers
        try:
            for low, high in ranges(count, self.item_nbytes):
                rows = records(low, high)
                written = np.ones(high - low, bool) if distinct else nonzero_rows(rows)
                numbers[low:high][written] = self.store.write(rows if written.all() else rows[written])
        except BaseException:
            self.store.release(numbers)
            raise
        return numbers

    def _write_parts(self, plan: SplitKey, value: Any) -> None:
        """Read, change and write back the items that a key reaches into."""
        numbers = self.numbers[(*plan.grid, ...)]
        flat = numbers.reshape(-1)
        source = Source(value, numbers.shape, part_shape(self.item_shape, plan.item), self.dtype)

        def records(low: int, high: int) -> Records:
            items = self.items(flat[low:high])
            items[plan.item_key(1)] = source.rows(low, high)
            return byte_rows(items, high - low)

        new = self._store_each(len(flat), records, distinct=plan.advanced_grid)
        self._publish(plan.grid, new.reshape(numbers.shape), plan.advanced_grid)

    def _write_scattered(self, key: Any, value: Any) -> None:
        cells, inside = scatter(key, self.numbers.shape, self.item_shape)
        needed, which = np.unique(cells, return_inverse=True)
        changed = self.items(self.numbers.reshape(-1)[needed]).reshape(len(needed), prod(self.item_shape))
        cast = cast_exactly(dense(value), self.dtype)
        refuse_to_stretch(cast.shape, cells.shape, lambda axis: bool((cells != cells.take([0], axis)).any()))
        changed[which.reshape(cells.shape), inside] = cast
        new = self._store_each(len(needed), lambda low, high: byte_rows(changed, len(needed))[low:high])
        where = np.unravel_index(needed, self.numbers.shape) if self.numbers.ndim else (np.newaxis,)
        if len(needed):
            self._publish(where, new, advanced=False)

    def _publish(self, key: tuple[Any, ...], new: RecordNumbers, advanced: bool) -> None:
        key = (*key, ...)
        old = self.numbers[key].copy()
        self.numbers[key] = new
        if advanced:
            # A key may name a cell twice: the last value stays, as in numpy, and the others go. Which one stayed can
            # be told because no two have the same number.
            won = self.numbers[key] == new
            self.store.release(new[~won])
            old = old[won]
        self.store.release(old.reshape(-1))


class Source:
    """A value on its way into cells: broadcast as numpy would, cast and laid out a few items at a time."""

    def __init__(self, value: Any, target: tuple[int, ...], item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._dtype, self._count = dtype, prod(target)
        self._cells = value if isinstance(value, Cells) and value.shape == target + item_shape else None
        if self._cells is not None and self._cells.numbers.shape == target:
            self.is_one_item = False
            return
        self._cells = None
        array = as_value(dense(value), dtype)
        shape = target + item_shape
        while array.ndim > len(shape) and array.shape[0] == 1:
            array = array[0]
        refuse_to_stretch(array.shape, shape, lambda axis: axis < len(target))
        try:
            self._array = np.broadcast_to(array, shape)
        except ValueError as error:
            raise ValueError(f"could not broadcast input array from shape {array.shape} into shape {shape}") from error
        self.is_one_item = array.ndim <= len(item_shape)
        self._target, self._rest = target, item_shape
        self._in_order = array.shape == shape and array.flags.c_contiguous

    def rows(self, low: int, high: int) -> Dense:
        """Rows `low` to `high` of the value, in C order of the cells they go to."""
        if self._cells is not None:
            rows = self._cells.rows(low, high)
        elif self._in_order:
            rows = self._array.reshape(self._count, *self._rest)[low:high]
        elif not self._target or (low == 0 and high == self._count):
            rows = self._array.reshape(high - low, *self._rest)
        else:
            rows = self._array[np.unravel_index(np.arange(low, high), self._target)]
        return cast_exactly(rows, self._dtype)


def refuse_to_stretch(given: tuple[int, ...], shape: tuple[int, ...], is_grid: Callable[[int], bool]) -> None:
    """Refuse one item where several belong. numpy would repeat it; here that is a batch of the wrong size."""
    for axis, length in enumerate(given, len(shape) - len(given)):
        if axis >= 0 and length == 1 < shape[axis] and is_grid(axis):
            raise ValueError(
                f"one item for axis {axis}, where {shape[axis]} belong (shape {given} into {shape}); to write it to "
                "all of them, give it without that axis"
            )


def dense(value: Any) -> Any:
    """A value with its compressed items decoded."""
    return value.read(..., value.split(...)) if isinstance(value, Cells) else value


def byte_rows(items: Dense, count: int) -> Records:
    """C-ordered memory of `count` items as bytes, without a copy if it is in C order already."""
    return np.ascontiguousarray(items).reshape(-1).view(np.uint8).reshape(count, items.nbytes // count if count else 0)


def nonzero_rows(rows: Records) -> npt.NDArray[np.bool_]:
    """Which rows are not all zeros; a zero item is not written, since that is how an unwritten one reads."""
    nonzero = np.asarray(rows[:, ::509].any(axis=1))  # almost every other row shows it in a few bytes
    for i in np.flatnonzero(~nonzero):
        nonzero[i] = rows[i].any()
    return nonzero


def part_shape(item_shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of what a key takes out of an item."""
    return np.broadcast_to(np.empty((), np.uint8), item_shape)[(*key, ...)].shape
