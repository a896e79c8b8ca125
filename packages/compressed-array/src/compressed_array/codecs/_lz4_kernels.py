"""LZ4 blocks over the rows of a batch, by the C functions inside the lz4 library."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import Word, call_block, call_ints, call_pair, helper, jit, load32, store8

HEADER = 4  # the decoded size, as lz4.block stores it
STATE_SIZE = 2**15  # LZ4_initStream takes half of it, and refuses it if a build should need more


@helper
def _header_fits(at: Word, size: Word, nbytes: Word) -> Word:
    """Whether a payload says that it decodes to `nbytes`, and is no longer than that can make it."""
    return HEADER <= size <= HEADER + nbytes + nbytes // 255 + 16 and np.int64(load32(at)) == nbytes


@jit("int64(int64, int64[::1], int64[::1], int64, int64, int64, int64)")
def decode_rows(
    decompress: Word, addresses: Any, sizes: Any, target: Word, nbytes: Word, low: Word, high: Word
) -> Word:
    """Decodes payload i to row i of `target`. Returns the first row whose payload is corrupt, or -1.

    `decompress` is the address of LZ4_decompress_safe, which reads and writes within the sizes it is given.
    """
    for i in range(low, high):
        at = addresses[i]
        if not _header_fits(at, sizes[i], nbytes):
            return i
        if call_block(decompress, at + HEADER, target + i * nbytes, sizes[i] - HEADER, nbytes) != nbytes:
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
    """Encodes rows of `nbytes` at `records`, one behind the other into `target + low * nbytes` and on.

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
