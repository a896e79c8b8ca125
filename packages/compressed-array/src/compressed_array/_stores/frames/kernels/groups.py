"""Kernels for whole groups: packing full ones by bits, and checking those from outside.

They are a module by themselves because the first item, which waits for a module to load, needs none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import Word, jit, load8
from compressed_array._stores.frames.groups import FROM_REFERENCE, KIND_BITS, KIND_MASK, RAW_FRAME, SINCE_LAST, ZSTD
from compressed_array._stores.frames.kernels.bitpack import bitpack_rows
from compressed_array._stores.frames.kernels.residuals import is_sound
from compressed_array.codecs._change_kernels import changes_fit, take_varint, varint_ends


@jit("void(int64[::1], int64[::1], int64, int64, uint8[:, ::1], int64[::1])")
def bitpack_groups(rows: Any, counts: Any, nbytes: Word, word: Word, out: Any, sizes: Any) -> None:
    """Writes `counts[i]` rows at the address `rows[i]` to `out[i]` as a group of `sizes[i]` bytes."""
    target = np.int64(out.ctypes.data)
    for i in range(rows.shape[0]):
        sizes[i] = bitpack_rows(rows[i], counts[i], nbytes, word, target + i * out.shape[1])


@jit("boolean(int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def is_valid_group(
    at: Word, size: Word, plain: Word, count: Word, frame_nbytes: Word, references: Any, books: Any
) -> Any:
    """Whether bytes from outside are a group of `count` frames. What zstd frames contain, zstd checks when it decodes.

    `references` are the lengths of the references, `books` the addresses of those that are sound codebooks, or 0.
    """
    end = at + size
    if plain:
        return size == count * frame_nbytes
    for k in range(count):
        after = varint_ends(at, end)
        if after < 0:
            return False
        head, body = take_varint(at)
        kind, at = head & KIND_MASK, body + (head >> KIND_BITS)
        if at > end or (k == 0 and kind == SINCE_LAST):
            return False
        if kind == RAW_FRAME and at - body != frame_nbytes:
            return False
        if kind == SINCE_LAST and not changes_fit(body, at, frame_nbytes):
            return False
        if kind == ZSTD and not is_sound(body, at, frame_nbytes, references, books):
            return False
        if kind == FROM_REFERENCE:
            base = np.int64(load8(body)) if body < at else np.int64(references.shape[0])
            if base >= references.shape[0] or references[base] < frame_nbytes:
                return False
            if not changes_fit(body + 1, at, frame_nbytes):
                return False
    return at == end
