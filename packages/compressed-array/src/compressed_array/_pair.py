"""Reading two arrays that stand on one store, as observations and next observations do."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._array import CompressedArray
from compressed_array._cells import Dense, flat
from compressed_array._functions import is_compressed
from compressed_array._lending import lend
from compressed_array._store import byte_rows


def read_pair(
    first: CompressedArray, second: CompressedArray, key: Any = ..., out: tuple[Dense, Dense] | None = None
) -> tuple[Dense, Dense]:
    """`(first.read(key), second.read(key))`, decoding what both need once if they stand on one store.

    `out` are two arrays to write the answers into.
    """
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


def fits(out: Dense, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether items of this shape and dtype can be decoded straight into `out`."""
    if is_compressed(out) or out.shape != shape or out.dtype != dtype:
        return False
    flags = out.flags
    return flags.c_contiguous and flags.writeable
