"""Reading and writing two arrays that stand on one store, as observations and next observations do."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._array.array import CompressedArray
from compressed_array._array.grid import flat, memory_of
from compressed_array._array.keys import field_names
from compressed_array._array.transfer import transferred
from compressed_array._runtime.output_pool import lend
from compressed_array._runtime.types import Dense, is_compressed
from compressed_array._stores.protocol import byte_rows


def read_pair(
    first: CompressedArray, second: CompressedArray, key: Any = ..., out: tuple[Any, Any] | None = None
) -> tuple[Any, Any]:
    """`(first.read(key), second.read(key))`, decoding what both need once if they stand on one store.

    `out` are two arrays, or tensors of torch in the host's memory, to write the answers into.
    """
    if out is not None and not (isinstance(out[0], np.ndarray) and isinstance(out[1], np.ndarray)):
        arrays = tuple(part if isinstance(part, np.ndarray) else memory_of(part) for part in out)
        read_pair(first, second, key, (arrays[0], arrays[1]))
        return out
    a, b = first.cells, second.cells
    plan = a.split(key)
    alike = a.numbers.shape == b.numbers.shape and a.item_shape == b.item_shape
    one_walk = a.store is b.store and alike and plan is not None and plan.whole_items
    if not one_walk or plan is None:
        outs = (None, None) if out is None else out
        return first.read(key, outs[0]), second.read(key, outs[1])
    with a.store.epochs.reading():
        numbers, others = a.pick(plan), b.pick(plan)
        shape = numbers.shape + a.item_shape
        if out is None:
            answers = lend(shape, a.dtype), lend(shape, b.dtype)
        elif fits(out[0], shape, a.dtype) and fits(out[1], shape, a.dtype):
            answers = out
        else:
            raise ValueError(f"out has to be two writable C-contiguous arrays of {a.dtype} and shape {shape}")
        if a.item_nbytes and numbers.size:
            rows, other_rows = byte_rows(answers[0], numbers.size), byte_rows(answers[1], numbers.size)
            a.store.read_pair(flat(numbers), rows, flat(others), other_rows)
    return answers


def write_pair(first: CompressedArray, second: CompressedArray, row: Any, items: Any, others: Any) -> None:
    """`first[row] = items` and `second[row] = others`: a step of a buffer, in one go if they stand on one store.

    Compressed arrays that stand on one store as well go to many rows, a slice, so that what they have in common is
    still in memory once, and mostly without being decoded.
    """
    a, b = first.cells, second.cells
    if isinstance(items, CompressedArray) and isinstance(others, CompressedArray):
        writable = first.is_writeable and second.is_writeable and not field_names(row)
        if writable and transferred([a, b], row, [items.cells, others.cells]):
            return
    rows, other_rows = a.row_writer, b.row_writer
    if (
        rows is not None
        and other_rows is not None
        and a.store is b.store
        and type(row) is int
        and type(items) is type(others) is np.ndarray
        and rows.fits(row, items)
        and other_rows.fits(row, others)
        and first.is_writeable
        and second.is_writeable
    ):
        epochs = a.store.epochs
        with epochs.writing, epochs.guard:
            if rows.put(row, items):
                if not other_rows.put(row, others):
                    b.write(row, others)
                return
    first[row] = items
    second[row] = others


def fits(out: Dense, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether items of this shape and dtype can be decoded straight into `out`."""
    if is_compressed(out) or out.shape != shape or out.dtype != dtype:
        return False
    flags = out.flags
    return flags.c_contiguous and flags.writeable
