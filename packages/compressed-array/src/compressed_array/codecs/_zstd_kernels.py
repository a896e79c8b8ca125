"""zstd over the rows of a batch, by its own C functions: no Python and no copy between a payload and its row."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import Word, call_pair, call_sizes, jit, load32

TOO_LITTLE_ROOM = -70  # ZSTD_error_dstSize_tooSmall: zstd returns its errors as a size_t close to its maximum
ZSTD_MAGIC_NUMBER, SMALLEST_FRAME = 0xFD2FB528, 6


@jit("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def encode_rows(
    compress: Word,
    context: Word,
    setting: Word,
    records: Word,
    nbytes: Word,
    low: Word,
    high: Word,
    target: Word,
    offsets: Any,
    sizes: Any,
) -> Word:
    """Encodes rows of `nbytes` at `records`, one behind the other into `target + low * nbytes` and on.

    `sizes[i] == nbytes` says that the payload did not stay below it, and that nothing was kept of it. Returns what
    zstd returned for an error other than that, or 0.
    """
    at = low * nbytes
    for i in range(low, high):
        offsets[i] = at
        size = call_sizes(compress, context, target + at, nbytes, records + i * nbytes, nbytes, setting)
        if size < 0 and size != TOO_LITTLE_ROOM:
            return size
        if 0 < size < nbytes:
            sizes[i] = size
            at += size
        else:
            sizes[i] = nbytes
    return 0


@jit("int64(int64, int64, int64, int64, int64, int64[::1], int64[::1], int64, int64, int64, int64)")
def decode_rows(
    decompress: Word,
    frame_size: Word,
    content_size: Word,
    context: Word,
    dictionary: Word,
    addresses: Any,
    sizes: Any,
    target: Word,
    nbytes: Word,
    low: Word,
    high: Word,
) -> Word:
    """Decodes payload i to row i of `target`. Returns the first row whose payload is corrupt, or -1."""
    for i in range(low, high):
        if sizes[i] < SMALLEST_FRAME or np.int64(load32(addresses[i])) != ZSTD_MAGIC_NUMBER:
            return i
        if call_pair(frame_size, addresses[i], sizes[i]) != sizes[i]:
            return i
        if call_pair(content_size, addresses[i], sizes[i]) != nbytes:
            return i
        row = target + i * nbytes
        if call_sizes(decompress, context, row, nbytes, addresses[i], sizes[i], dictionary) != nbytes:
            return i
    return -1
