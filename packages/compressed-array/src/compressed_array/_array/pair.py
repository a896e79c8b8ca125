"""Reading and writing two arrays that share a store, as observations and next observations do."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._array.array import CompressedArray
from compressed_array._array.grid import ItemGrid, flat, memory_of
from compressed_array._array.keys import SplitKey, field_names
from compressed_array._array.transfer import transferred
from compressed_array._runtime.output_pool import lend
from compressed_array._runtime.types import Dense, is_compressed
from compressed_array._stores.protocol import byte_rows


def read_pair(
    first: CompressedArray,
    second: CompressedArray,
    key: Any = ...,
    out: tuple[Any, Any] | None = None,
    other_key: Any = None,
) -> tuple[Any, Any]:
    """Returns `(first.read(key), second.read(key))`. What both need is decoded once if they share a store.

    Args:
        first: An array.
        second: Another one, mostly with the same grid and made with `store=first.store`.
        key: A key as for `first[key]`.
        out: Two arrays, or tensors of torch in the host's memory, to write the answers into. They are returned.
        other_key: The key for `second`, if it is another. It picks as many items as `key`, or one for each of so many
            equal parts of those, such as the step after each window.

    >>> import numpy as np, compressed_array as ca
    >>> obs = ca.zeros((100, 84, 84), np.uint8)
    >>> next_obs = ca.zeros(obs.shape, np.uint8, store=obs.store)
    >>> obs[5], next_obs[5] = 1, 2
    >>> batch, next_batch = ca.read_pair(obs, next_obs, np.array([0, 5]))
    >>> batch[:, 0, 0].tolist(), next_batch[:, 0, 0].tolist()
    ([0, 1], [0, 2])
    """
    if out is not None and not (isinstance(out[0], np.ndarray) and isinstance(out[1], np.ndarray)):
        arrays = tuple(part if isinstance(part, np.ndarray) else memory_of(part) for part in out)
        read_pair(first, second, key, (arrays[0], arrays[1]), other_key)
        return out
    a, b = first.cells, second.cells
    keys = key, key if other_key is None else other_key
    plan = a.split(key)
    other_plan = plan if other_key is None else b.split(other_key)
    alike = a.numbers.shape == b.numbers.shape and a.item_shape == b.item_shape
    if a.store is b.store and alike and plan is not None and other_plan is not None:
        answers = _read_in_one(a, plan, b, other_plan, out)
        if answers is not None:
            return answers
    outs = (None, None) if out is None else out
    return first.read(keys[0], outs[0]), second.read(keys[1], outs[1])


def _read_in_one(
    a: ItemGrid, plan: SplitKey, b: ItemGrid, other_plan: SplitKey, out: tuple[Dense, Dense] | None
) -> tuple[Dense, Dense] | None:
    """Returns both answers, made by one read of the store; None if one read does not give what was asked for."""
    if not plan.whole_items or not other_plan.whole_items:
        return None
    with a.store.epochs.reading():
        numbers, others = a.pick(plan), b.pick(other_plan)
        if numbers.size % max(others.size, 1) or (others.size and not numbers.size):
            return None
        shape, other_shape = numbers.shape + a.item_shape, others.shape + a.item_shape
        if out is None:
            answers = lend(shape, a.dtype), lend(other_shape, b.dtype)
        elif fits(out[0], shape, a.dtype) and fits(out[1], other_shape, a.dtype):
            answers = out
        else:
            shapes = f"shape {shape}" if shape == other_shape else f"shapes {shape} and {other_shape}"
            raise ValueError(f"out has to be two writable C-contiguous arrays of {a.dtype} and {shapes}")
        if a.item_nbytes and numbers.size:
            rows, other_rows = byte_rows(answers[0], numbers.size), byte_rows(answers[1], others.size)
            a.store.read_pair(flat(numbers), rows, flat(others), other_rows)
    return answers


def write_pair(first: CompressedArray, second: CompressedArray, row: Any, items: Any, others: Any) -> None:
    """Does `first[row] = items` and `second[row] = others`, in one go if the two arrays share a store.

    Args:
        first: An array.
        second: Another one, mostly made with `store=first.store`.
        row: The row of a step; or any key, which takes two writes.
        items: What is written to `first`.
        others: What is written to `second`. If `items` and `others` are compressed arrays on one store, and `row` is a
            slice, they are mostly not decoded, and what they have in common is still kept once.

    >>> import numpy as np, compressed_array as ca
    >>> obs = ca.zeros((100, 2, 84, 84), np.uint8, item_ndim=2)
    >>> next_obs = ca.zeros(obs.shape, np.uint8, item_ndim=2, store=obs.store)
    >>> ca.write_pair(obs, next_obs, 0, np.full((2, 84, 84), 1, np.uint8), np.full((2, 84, 84), 2, np.uint8))
    >>> int(obs[0].max()), int(next_obs[0].max())
    (1, 2)
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
        and rows.fits(row, items)
        and other_rows.fits(row, others)
        and first.is_writeable
        and second.is_writeable
    ):
        epochs = a.store.epochs
        with epochs.writing, epochs.guard:
            rows.put(row, items)
            other_rows.put(row, others)
        return
    if isinstance(row, slice) and a.store is b.store and not a.store.is_stream:
        part, other_part = first[row], second[row]
        comes_from_here = any(getattr(value, "store", None) is a.store for value in (items, others))
        if (np.shape(items), np.shape(others)) == (part.shape, other_part.shape) and not comes_from_here:
            # By turns, or what a row has in common with the one before would not be found.
            for i in range(len(part)):
                part[i], other_part[i] = items[i], others[i]
            return
    first[row] = items
    second[row] = others


def fits(out: Dense, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether items of this shape and dtype can be decoded straight into `out`."""
    if is_compressed(out) or out.shape != shape or out.dtype != dtype:
        return False
    flags = out.flags
    return flags.c_contiguous and flags.writeable
