"""Run-length payloads back to the rows of a batch, as machine code.

A run is written 8 bytes at a time whatever the itemsize, since its item repeated makes one pattern of 8 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import (
    EACH_BYTE,
    Word,
    helper,
    jit,
    load8,
    load16,
    load32,
    load64,
    store8,
    store64,
)
from compressed_array.codecs._rle_formula import ESCAPE, HEADER

LOW_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
WIDE = 32  # copies and fills go this far past the wanted end, where that is still inside the row


@helper
def _pattern(address: Word, itemsize: Word) -> Any:
    """Returns the item at `address`, repeated to fill 8 bytes."""
    if itemsize == 1:
        return load8(address) * EACH_BYTE
    if itemsize == 2:
        return load16(address) * np.uint64(0x0001000100010001)
    if itemsize == 4:
        return load32(address) * np.uint64(0x0000000100000001)
    return load64(address)


@helper
def _sum_of_bytes(lanes: Any) -> Any:
    """Returns the sum of the 8 bytes of a uint64, if it stays below 256."""
    return np.int64((lanes * EACH_BYTE) >> np.uint64(56))


@helper
def _decoded_size(source: Word, size: Word, itemsize: Word) -> Any:
    """Returns (bytes it decodes to, tokens, extras, tail bytes) of a payload; bytes are -1 if no encoder wrote it."""
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
        # No branch: whether a run is long cannot be predicted. A value follows, so the byte that is read is there.
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
    """Decodes payload i to row i of `target`. Returns the first row whose payload is corrupt, or -1."""
    for i in range(low, high):
        if not _decode_row(addresses[i], sizes[i], itemsize, target + i * nbytes, nbytes):
            return i
    return -1


@jit("int64(int64, int64, int64)")
def decoded_size(source: Word, size: Word, itemsize: Word) -> Word:
    """Returns how many bytes a payload decodes to, or -1 if it is corrupt."""
    return _decoded_size(source, size, itemsize)[0]
