"""The copying of `_gather` as machine code. Every position and row is checked before it is read from; nobody
may change positions meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from compressed_array._runtime.memory import CACHE_LINE
from compressed_array._runtime.numba_tools import (
    Word,
    copy_bytes,
    helper,
    inline_helper,
    intrinsic,
    jit,
    load8,
    load32,
    load64,
    prefetch,
    records_of,
    store8,
    store32,
    store64,
)
from compressed_array.sampling._gather import TABLE

LONG = 1024  # bytes from which a call to memcpy is worth it
WIDE = 32
AHEAD = 24


@intrinsic
def copy_wide(typingctx: Any, target: Any, source: Any) -> Any:
    """Copies 32 bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.VectorType(ir.IntType(64), WIDE // 8).as_pointer()
        loaded = builder.load(builder.inttoptr(args[1], pointer), align=1)
        builder.store(loaded, builder.inttoptr(args[0], pointer), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@helper
def copy_row(target: Word, source: Word, nbytes: Word) -> None:
    """Copies a short row in wide steps, of which the last one goes over some bytes again."""
    if nbytes >= LONG:
        copy_bytes(target, source, nbytes)
    elif nbytes >= WIDE:
        for k in range(0, nbytes - WIDE, WIDE):
            copy_wide(target + k, source + k)
        copy_wide(target + nbytes - WIDE, source + nbytes - WIDE)
    elif nbytes >= 8:
        for k in range(0, nbytes - 8, 8):
            store64(target + k, load64(source + k))
        store64(target + nbytes - 8, load64(source + nbytes - 8))
    else:
        for k in range(nbytes):
            store8(target + k, load8(source + k))


@helper
def row_at(positions: Word, i: Word, through: Word, width: Word) -> Word:
    """Returns the row that numbers of 4 or 8 bytes say for a position."""
    position = np.int64(load64(positions + 8 * i))
    return load32(through + 4 * position) if width == 4 else load64(through + 8 * position)


@helper
def copy_words(positions: Word, count: Word, address: Word, target: Word) -> None:
    """Copies rows of 4 bytes at positions, as most numbers are."""
    for i in range(count):
        store32(target + 4 * i, load32(address + 4 * np.int64(load64(positions + 8 * i))))


@helper
def copy_flags(positions: Word, count: Word, address: Word, target: Word) -> None:
    """Copies rows of one byte."""
    for i in range(count):
        store8(target + i, load8(address + np.int64(load64(positions + 8 * i))))


@helper
def last_of(positions: Word, count: Word) -> Word:
    """Returns the largest position, of which a negative one is larger than any that may be."""
    last = np.uint64(0)
    for i in range(count):
        last = max(last, load64(positions + 8 * i))
    return last


@inline_helper
def copy_rows(positions: Word, count: Word, address: Word, nbytes: Word, target: Word) -> None:
    """Copies rows at positions that are all there."""
    if nbytes == 1:
        copy_flags(positions, count, address, target)
    elif nbytes == 4:
        copy_words(positions, count, address, target)
    else:
        for i in range(count + AHEAD):
            if i < count:
                near = address + np.int64(load64(positions + 8 * i)) * nbytes
                for at in range(0, nbytes, CACHE_LINE):
                    prefetch(near + at)
            if i >= AHEAD:
                row = np.int64(load64(positions + 8 * (i - AHEAD)))
                copy_row(target + (i - AHEAD) * nbytes, address + row * nbytes, nbytes)


@jit(types.boolean(types.int64, types.int64, types.int64, records_of(TABLE), types.int64[::1]))
def gather(positions: Word, count: Word, size: Word, tables: Any, targets: Any) -> Word:
    """Copies rows, and returns whether all of them are there."""
    if tables.shape[0] != targets.shape[0]:
        return False
    last = last_of(positions, count)
    if count > 0 and last >= np.uint64(size):
        return False
    for k in range(tables.shape[0]):
        table, target = tables[k], targets[k]
        address, nbytes, rows = table.address, table.row_nbytes, np.uint64(table.rows)
        through, width = table.through, table.through_nbytes
        if width == 0:
            if last >= rows:
                return False
            copy_rows(positions, count, address, nbytes, target)
            continue
        for i in range(count):
            prefetch(through + width * np.int64(load64(positions + 8 * i)))
        for i in range(count + AHEAD):
            if i < count:
                near = address + np.int64(row_at(positions, i, through, width)) * nbytes
                for at in range(0, nbytes, CACHE_LINE):
                    prefetch(near + at)
            if i >= AHEAD:
                row = row_at(positions, i - AHEAD, through, width)
                if row >= rows:
                    return False
                copy_row(target + (i - AHEAD) * nbytes, address + np.int64(row) * nbytes, nbytes)
    return True


@jit("boolean(int64[::1], int64, int64[::1], int64[::1], int64[::1], uint8[::1], uint32[::1], uint32[::1])")
def gather_rows(
    positions: Any, size: Word, addresses: Any, nbytes: Any, begins: Any, block: Any, numbers: Any, others: Any
) -> Word:
    """Copies rows of tables one behind the other to a block, and of the last two, of numbers, to arrays of their own.

    Returns whether all of them are there, and fit.
    """
    count, tables = np.int64(positions.shape[0]), np.int64(nbytes.shape[0])
    where = np.int64(positions.ctypes.data)
    if last_of(where, count) >= np.uint64(size) or addresses.shape[0] != tables + 2 or begins.shape[0] != tables:
        return False
    if numbers.shape[0] != count or others.shape[0] != count:
        return False
    for k in range(tables):
        if (begins[k] + nbytes[k]) * count > block.shape[0]:
            return False
        copy_rows(where, count, addresses[k], nbytes[k], np.int64(block.ctypes.data) + begins[k] * count)
    copy_words(where, count, addresses[tables], np.int64(numbers.ctypes.data))
    copy_words(where, count, addresses[tables + 1], np.int64(others.ctypes.data))
    return True
