"""Run-length coding as machine code: byte for byte the payloads of `_rle_formula`, for the rows of a batch.

The kernels work on 8 bytes at a time whatever the itemsize, since a run is the same bytes over and over: comparing
memory with itself one item further on finds where a run ends, and one 8-byte pattern fills it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._native import (
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

EACH_BYTE = np.uint64(0x0101010101010101)
LOW_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
HIGH_BITS = np.uint64(0x8080808080808080)
WIDE = 32  # copies and fills go this far past the wanted end, where that is still inside the row


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
def _pattern(address: Word, itemsize: Word) -> Any:
    """The item at `address`, repeated to fill 8 bytes."""
    if itemsize == 1:
        return load8(address) * EACH_BYTE
    if itemsize == 2:
        return load16(address) * np.uint64(0x0001000100010001)
    if itemsize == 4:
        return load32(address) * np.uint64(0x0000000100000001)
    return load64(address)


@helper
def _sum_of_bytes(lanes: Any) -> Any:
    """The sum of the 8 bytes of a uint64, if it stays below 256."""
    return np.int64((lanes * EACH_BYTE) >> np.uint64(56))


@helper
def _copy_literals(at: Word, end: Word, itemsize: Word, values: Word) -> Word:
    """Copy items to `values` up to the first that equals the one after it; return where that one is, or `end`.

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
    """The first item behind `at` that differs from the one before it, or `end`."""
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
    """Write the payload to `target` and return its size; or return `limit` as soon as it is sure to reach that.

    Tokens, extras and values are gathered in `scratch`, three times `nbytes + WIDE` bytes: where each begins in the
    payload is not known until all are found.
    """
    shift = 0  # division by a number that is not known when this is compiled would take most of the time
    while (1 << shift) < itemsize:
        shift += 1
    tail = nbytes & (itemsize - 1)
    end = source + nbytes - tail
    values = scratch
    tokens = first_token = scratch + nbytes + WIDE
    extras = first_extra = first_token + nbytes + WIDE
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
            at = _end_of_run(run, end, itemsize)
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


@jit("void(int64, int64, int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def encode_rows(
    records: Word,
    nbytes: Word,
    itemsize: Word,
    low: Word,
    high: Word,
    target: Word,
    limit: Word,
    offsets: Any,
    sizes: Any,
) -> None:
    """Encode rows of `nbytes` at `records`, one behind the other into `target + low * limit` and on.

    `sizes[i] == limit` says that the payload did not stay below it, and that nothing was kept of it.
    """
    scratch = np.empty(3 * (nbytes + WIDE), np.uint8)
    address = np.int64(scratch.ctypes.data)
    at = low * limit
    for i in range(low, high):
        offsets[i] = at
        sizes[i] = _encode_row(records + i * nbytes, nbytes, itemsize, target + at, limit, address)
        if sizes[i] < limit:
            at += sizes[i]


@helper
def _decoded_size(source: Word, size: Word, itemsize: Word) -> Any:
    """(bytes it decodes to, tokens, extras, tail bytes) of a payload; bytes are -1 if no encoder wrote it."""
    if size < HEADER:
        return -1, 0, 0, 0
    tokens = np.int64(load32(source))
    if tokens > size - HEADER:
        return -1, 0, 0, 0
    at = source + HEADER
    end = at + tokens
    literals = lengths = extras = np.int64(0)
    while at + 8 <= end:
        eight = load64(at)
        repeats = eight & LOW_HALVES
        literals += _sum_of_bytes((eight >> np.uint64(4)) & LOW_HALVES)
        lengths += _sum_of_bytes(repeats)
        extras += _sum_of_bytes(((repeats + EACH_BYTE) >> np.uint64(4)) & EACH_BYTE)  # 15 alone carries over
        at += 8
    while at < end:
        token = np.int64(load8(at))
        literals += token >> 4
        lengths += token & ESCAPE
        extras += (token & ESCAPE) == ESCAPE
        at += 1
    tail = size - HEADER - tokens - extras - (literals + tokens) * itemsize
    if tail < 0 or tail >= itemsize:
        return -1, 0, 0, 0
    for i in range(extras):
        lengths += np.int64(load8(end + i))
    return (literals + lengths + tokens) * itemsize + tail, tokens, extras, tail


@helper
def _decode_row(source: Word, size: Word, itemsize: Word, target: Word, nbytes: Word) -> Word:
    decoded, tokens, extras, tail = _decoded_size(source, size, itemsize)
    if decoded != nbytes:
        return False
    token_at = source + HEADER
    last_token = token_at + tokens
    extra_at = last_token
    value_at = extra_at + extras
    # The sizes are known to be right by now: what is left to watch is what reaches past a wanted end.
    read_end, write_end = source + size - WIDE, target + nbytes - WIDE
    while token_at < last_token:
        token = np.int64(load8(token_at))
        token_at += 1
        literals = (token >> 4) * itemsize
        run = (token & ESCAPE) + 1
        # No branch: whether a run is long cannot be foretold. A value follows, so the byte that is read is there.
        escaped = run >> 4
        run = (run + np.int64(load8(extra_at)) * escaped) * itemsize
        extra_at += escaped
        if value_at + literals <= read_end and target + literals + run <= write_end:
            store64(target, load64(value_at))
            store64(target + 8, load64(value_at + 8))
            copied = 16
            while copied < literals:
                store64(target + copied, load64(value_at + copied))
                store64(target + copied + 8, load64(value_at + copied + 8))
                copied += 16
            target += literals
            value_at += literals
            pattern = _pattern(value_at, itemsize)
            filled = 0
            while True:
                store64(target + filled, pattern)
                store64(target + filled + 8, pattern)
                store64(target + filled + 16, pattern)
                store64(target + filled + 24, pattern)
                filled += 32
                if filled >= run:
                    break
        else:
            for k in range(literals):
                store8(target + k, load8(value_at + k))
            target += literals
            value_at += literals
            for k in range(run):
                store8(target + k, load8(value_at + (k & (itemsize - 1))))
        target += run
        value_at += itemsize
    for k in range(tail):
        store8(target + k, load8(value_at + k))
    return True


@jit("int64(int64[::1], int64[::1], int64, int64, int64, int64, int64)")
def decode_rows(addresses: Any, sizes: Any, itemsize: Word, target: Word, nbytes: Word, low: Word, high: Word) -> Word:
    """Decode payload i to row i of `target`; return the first row whose payload is corrupt, or -1."""
    for i in range(low, high):
        if not _decode_row(addresses[i], sizes[i], itemsize, target + i * nbytes, nbytes):
            return i
    return -1


@jit("int64(int64, int64, int64)")
def decoded_size(source: Word, size: Word, itemsize: Word) -> Word:
    """How many bytes a payload decodes to, or -1 if it is corrupt."""
    return _decoded_size(source, size, itemsize)[0]
