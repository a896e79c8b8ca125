"""Run-length coding as machine code: byte for byte the payloads of `_rle_formula`, for the rows of a batch.

The kernels work on 8 bytes at a time whatever the itemsize, since a run is the same bytes over and over: comparing
memory with itself one item further on finds where a run ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import (
    EACH_BYTE,
    Word,
    copy_bytes,
    helper,
    jit,
    load8,
    load16,
    load32,
    load64,
    store8,
    store64,
    trailing_zeros,
)
from compressed_array.codecs._rle_formula import ESCAPE, HEADER, LONGEST_RUN, MOST_LITERALS

HIGH_BITS = np.uint64(0x8080808080808080)
STORE_ROOM = 32  # what is gathered is stored 8 bytes at a time, past the wanted end


@helper
def _load(address: Word, itemsize: Word) -> Any:
    if itemsize == 1:
        return load8(address)
    if itemsize == 2:
        return load16(address)
    if itemsize == 4:
        return load32(address)
    return load64(address)


@helper
def _copy_literals(at: Word, end: Word, itemsize: Word, values: Word) -> Word:
    """Copies items to `values` up to the first that equals the one after it. Returns where that is, or `end`.

    Up to 7 bytes more than that are written.
    """
    last = end - itemsize
    while at + 8 <= last:
        these = load64(at)
        store64(values, these)
        difference = these ^ load64(at + itemsize)
        if itemsize == 1:
            equal = (difference - EACH_BYTE) & ~difference & HIGH_BITS
            if equal:
                return at + (trailing_zeros(equal) >> 3)
            at += 8
            values += 8
        else:
            if _low_item(difference, itemsize) == 0:
                return at
            at += itemsize
            values += itemsize
    while at < end:
        if at < last and _load(at, itemsize) == _load(at + itemsize, itemsize):
            return at
        for k in range(itemsize):
            store8(values + k, load8(at + k))
        at += itemsize
        values += itemsize
    return end


@helper
def _low_item(lanes: Any, itemsize: Word) -> Any:
    if itemsize == 2:
        return lanes & np.uint64(0xFFFF)
    if itemsize == 4:
        return lanes & np.uint64(0xFFFFFFFF)
    return lanes


@helper
def _end_of_run(at: Word, end: Word, itemsize: Word) -> Word:
    """Returns the first item behind `at` that differs from the one before it, or `end`."""
    last = end - itemsize
    while at + 8 <= last:
        difference = load64(at) ^ load64(at + itemsize)
        if difference:
            return at + ((trailing_zeros(difference) >> 3) & -itemsize) + itemsize
        at += 8
    while at < last and _load(at, itemsize) == _load(at + itemsize, itemsize):
        at += itemsize
    return at + itemsize


@helper
def _encode_row(source: Word, nbytes: Word, itemsize: Word, target: Word, limit: Word, scratch: Word) -> Word:
    """Writes the payload to `target`. Returns its size, or `limit` as soon as it is sure to reach that.

    Tokens, extras and values are gathered in `scratch`, three times `nbytes + STORE_ROOM` bytes: where each begins in
    the payload is not known until all are found.
    """
    shift = 0  # division by a number that is not known when this is compiled would take most of the time
    while (1 << shift) < itemsize:
        shift += 1
    tail = nbytes & (itemsize - 1)
    end = source + nbytes - tail
    values = scratch
    tokens = first_token = scratch + nbytes + STORE_ROOM
    extras = first_extra = first_token + nbytes + STORE_ROOM
    at, size = source, HEADER + tail
    while at < end and size < limit:
        run = _copy_literals(at, end, itemsize, values)
        literals = (run - at) >> shift
        values += run - at
        while literals > MOST_LITERALS:
            store8(tokens, MOST_LITERALS << 4)
            tokens += 1
            literals -= MOST_LITERALS + 1
        if run == end:
            if literals > 0:
                store8(tokens, (literals - 1) << 4)
                tokens += 1
            at = end
        else:
            # Two at least, which were equal: another thread may have changed one since.
            at = max(_end_of_run(run, end, itemsize), run + 2 * itemsize)
            count = (at - run) >> shift
            value = _load(run, itemsize)
            while count > 1:
                length = min(count, LONGEST_RUN)
                escaped = length > ESCAPE
                store8(tokens, literals << 4 | min(length - 1, ESCAPE))
                store8(extras, length - ESCAPE - 1)
                extras += escaped
                tokens += 1
                store64(values, value)
                values += itemsize
                literals = 0
                count -= length
            at -= count << shift  # what is left of a split run is one item: the next stretch's first literal
        size = HEADER + (tokens - first_token) + (extras - first_extra) + (values - scratch) + tail
    if size >= limit:
        return limit
    count = tokens - first_token
    for k in range(HEADER):
        store8(target + k, count >> (8 * k))
    target += HEADER
    copy_bytes(target, first_token, count)
    target += count
    copy_bytes(target, first_extra, extras - first_extra)
    target += extras - first_extra
    copy_bytes(target, scratch, values - scratch)
    copy_bytes(target + (values - scratch), end, tail)
    return size


def scratch_nbytes(nbytes: int) -> int:
    """Returns how much scratch memory `encode_rows` needs for rows of `nbytes`."""
    return 3 * (nbytes + STORE_ROOM)


@jit("void(int64, int64, int64, int64, int64, int64, int64, uint8[::1], int64[::1], int64[::1])")
def encode_rows(
    records: Word,
    nbytes: Word,
    itemsize: Word,
    low: Word,
    high: Word,
    target: Word,
    limit: Word,
    scratch: Any,
    offsets: Any,
    sizes: Any,
) -> None:
    """Encodes rows of `nbytes` at `records`, one behind the other into `target + low * limit` and on.

    `sizes[i] == limit` says that the payload did not stay below it, and that nothing was kept of it. `scratch` is the
    caller's: numba frees an array of the kernel's own after its last use by name, and this one is used by its address.
    """
    address = np.int64(scratch.ctypes.data)
    at = low * limit
    for i in range(low, high):
        offsets[i] = at
        sizes[i] = _encode_row(records + i * nbytes, nbytes, itemsize, target + at, limit, address)
        if sizes[i] < limit:
            at += sizes[i]
