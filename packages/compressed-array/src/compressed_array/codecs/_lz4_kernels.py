"""LZ4 blocks over the rows of a batch, by the library's C functions; and a decoder of our own for where it hides them.

A block is sequences of (token, literals, match): the token's halves count literals and the bytes to repeat from
`offset` back, each lengthened by bytes of 255 and a last one below; the last sequence has literals alone.
Every count is checked against what is left of the payload and of the row before a byte is moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import (
    Word,
    call_block,
    call_ints,
    call_pair,
    helper,
    jit,
    load8,
    load16,
    load32,
    load64,
    store8,
    store64,
)

HEADER = 4  # the decoded size, as lz4.block stores it
STATE_SIZE = 2**15  # LZ4_initStream takes half of it, and refuses it if a build should need more
WIDE = 32  # copies go this far past the wanted end, where that is still inside the row


@helper
def _length(at: Word, end: Word, length: Word) -> Any:
    """(length, where the next byte is) after the bytes that lengthen a count of 15; length is -1 if they run out."""
    while at < end:
        more = np.int64(load8(at))
        at += 1
        length += more
        if more < 255:
            return length, at
    return -1, at


@helper
def _copy_exactly(target: Word, source: Word, size: Word) -> None:
    for k in range(size):  # byte by byte and upwards: a match may reach into what it is writing
        store8(target + k, load8(source + k))


@helper
def _fill(target: Word, pattern: Any, size: Word) -> None:
    filled = 0
    while filled < size:
        store64(target + filled, pattern)
        store64(target + filled + 8, pattern)
        store64(target + filled + 16, pattern)
        store64(target + filled + 24, pattern)
        filled += 32


@helper
def _copy_match(target: Word, offset: Word, size: Word) -> None:
    """Repeat `size` bytes from `offset` back; up to WIDE bytes more are written."""
    source = target - offset
    copied = 0
    if offset >= 16:
        while True:
            first, second = load64(source + copied), load64(source + copied + 8)
            store64(target + copied, first)
            store64(target + copied + 8, second)
            copied += 16
            if copied >= size:
                break
    elif offset == 1:
        _fill(target, load8(source) * np.uint64(0x0101010101010101), size)
    elif offset == 2:
        _fill(target, load16(source) * np.uint64(0x0001000100010001), size)
    elif offset == 4:
        _fill(target, load32(source) * np.uint64(0x0000000100000001), size)
    else:
        if offset < 8:
            _copy_exactly(target, source, 8)
            copied, back = 8, offset
            while back < 8:
                back += offset
            source = target - back
        while copied < size:
            store64(target + copied, load64(source + copied))
            copied += 8


@helper
def _decode_block(at: Word, end: Word, target: Word, target_end: Word) -> Word:
    first = target
    while at < end:
        token = np.int64(load8(at))
        at += 1
        literals = token >> 4
        if literals == 15:
            literals, at = _length(at, end, literals)
        if literals < 0 or literals > end - at or literals > target_end - target:
            return False
        if at + literals + WIDE <= end and target + literals + WIDE <= target_end:
            copied = 0
            while True:  # once even for no literals: a loop whose end cannot be foretold costs more
                store64(target + copied, load64(at + copied))
                store64(target + copied + 8, load64(at + copied + 8))
                copied += 16
                if copied >= literals:
                    break
        else:
            _copy_exactly(target, at, literals)
        at += literals
        target += literals
        if at == end:
            return target == target_end
        if at + 2 > end:
            return False
        offset = np.int64(load16(at))
        at += 2
        length = (token & 15) + 4
        if length == 19:
            length, at = _length(at, end, length)
        if length < 0 or offset == 0 or offset > target - first or length > target_end - target:
            return False
        if target + length + WIDE <= target_end:
            _copy_match(target, offset, length)
        else:
            _copy_exactly(target, target - offset, length)
        target += length
    return False


@helper
def _header_fits(at: Word, size: Word, nbytes: Word) -> Word:
    """Whether a payload says that it decodes to `nbytes`, and is no longer than that can make it."""
    return HEADER <= size <= HEADER + nbytes + nbytes // 255 + 16 and np.int64(load32(at)) == nbytes


@jit("int64(int64, int64[::1], int64[::1], int64, int64, int64, int64)")
def decode_rows_by(
    decompress: Word, addresses: Any, sizes: Any, target: Word, nbytes: Word, low: Word, high: Word
) -> Word:
    """`decode_rows` by the library's LZ4_decompress_safe, which is faster than ours where it can be reached."""
    for i in range(low, high):
        at = addresses[i]
        if not _header_fits(at, sizes[i], nbytes):
            return i
        if call_block(decompress, at + HEADER, target + i * nbytes, sizes[i] - HEADER, nbytes) != nbytes:
            return i
    return -1


@jit("int64(int64[::1], int64[::1], int64, int64, int64, int64)")
def decode_rows(addresses: Any, sizes: Any, target: Word, nbytes: Word, low: Word, high: Word) -> Word:
    """Decode payload i to row i of `target`; return the first row whose payload is corrupt, or -1."""
    for i in range(low, high):
        at, row = addresses[i], target + i * nbytes
        if not _header_fits(at, sizes[i], nbytes):
            return i
        if not _decode_block(at + HEADER, at + sizes[i], row, row + nbytes):
            return i
    return -1


@jit("void(int64, int64, int64, int64, int64, int64, int64, int64, uint64[::1], int64[::1], int64[::1])")
def encode_rows(
    start: Word,
    compress: Word,
    acceleration: Word,
    records: Word,
    nbytes: Word,
    low: Word,
    high: Word,
    target: Word,
    state: Any,
    offsets: Any,
    sizes: Any,
) -> None:
    """Encode rows of `nbytes` at `records`, one behind the other into `target + low * nbytes` and on.

    `start` and `compress` are LZ4_initStream and LZ4_compress_fast_continue: the library's Python interface makes
    every block as the first of a stream, too. `sizes[i] == nbytes` says that the payload did not stay below it, and
    that nothing was kept of it. `state`, of `STATE_SIZE` bytes, is the caller's: numba frees an array of the kernel's
    own after its last use by name, and this one is used by its address.
    """
    stream = np.int64(state.ctypes.data)
    at = low * nbytes
    room = nbytes - HEADER - 1
    for i in range(low, high):
        offsets[i] = at
        sizes[i] = nbytes
        if room > 0 and call_pair(start, stream, STATE_SIZE) != 0:
            source, block = records + i * nbytes, target + at + HEADER
            size = call_ints(compress, stream, source, block, nbytes, room, acceleration)
            if size > 0:
                for k in range(HEADER):
                    store8(target + at + k, nbytes >> (8 * k))
                sizes[i] = HEADER + size
                at += sizes[i]
