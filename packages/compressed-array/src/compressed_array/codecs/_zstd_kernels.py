"""zstd over the rows of a batch, by its own C functions: no Python and no copy between a payload and its row."""

from __future__ import annotations

from typing import Any

from compressed_array._native import Word, call_pair, call_sizes, jit


@jit("void(int64, int64, int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def encode_rows(
    compress: Word,
    context: Word,
    records: Word,
    nbytes: Word,
    low: Word,
    high: Word,
    target: Word,
    offsets: Any,
    sizes: Any,
) -> None:
    """Encode rows of `nbytes` at `records`, one behind the other into `target + low * nbytes` and on.

    `sizes[i] == nbytes` says that the payload did not stay below it, and that nothing was kept of it.
    """
    at = low * nbytes
    for i in range(low, high):
        offsets[i] = at
        # An error, such as too little room, is a size_t close to its maximum, and so negative here.
        size = call_sizes(compress, context, target + at, nbytes, records + i * nbytes, nbytes)
        if 0 < size < nbytes:
            sizes[i] = size
            at += size
        else:
            sizes[i] = nbytes


@jit("int64(int64, int64, int64, int64[::1], int64[::1], int64, int64, int64, int64)")
def decode_rows(
    decompress: Word,
    frame_size: Word,
    context: Word,
    addresses: Any,
    sizes: Any,
    target: Word,
    nbytes: Word,
    low: Word,
    high: Word,
) -> Word:
    """Decode payload i to row i of `target`; return the first row whose payload is corrupt, or -1."""
    for i in range(low, high):
        if call_pair(frame_size, addresses[i], sizes[i]) != sizes[i]:
            return i
        if call_sizes(decompress, context, target + i * nbytes, nbytes, addresses[i], sizes[i]) != nbytes:
            return i
    return -1
