"""Whole groups: narrowing full ones, and checking those from outside. Apart, since the first item needs none of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import Word, jit, load8
from compressed_array._stores.frames.groups import FROM_REFERENCE, KIND_BITS, RAW_FRAME, SINCE_LAST, ZSTD
from compressed_array._stores.frames.kernels.bitpack import narrow_rows, widen_row
from compressed_array._stores.frames.kernels.residuals import is_sound
from compressed_array.codecs._change_kernels import changes_fit, take_varint, varint_ends

KIND_MASK = (1 << KIND_BITS) - 1


@jit("void(int64[::1], int64[::1], int64, int64, uint8[:, ::1], int64[::1])")
def narrow_groups(rows: Any, counts: Any, nbytes: Word, word: Word, out: Any, sizes: Any) -> None:
    """Write `counts[i]` rows at the address `rows[i]` to `out[i]` as a group of `sizes[i]` bytes."""
    target = np.int64(out.ctypes.data)
    for i in range(rows.shape[0]):
        sizes[i] = narrow_rows(rows[i], counts[i], nbytes, word, target + i * out.shape[1])


@jit("void(int64, int64, int64, int64)")
def widen_at(group: Word, row: Word, nbytes: Word, target: Word) -> None:
    """`widen_row`, by itself."""
    widen_row(group, row, nbytes, target)


@jit("boolean(int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def group_fits(at: Word, size: Word, plain: Word, count: Word, frame_nbytes: Word, references: Any, books: Any) -> Any:
    """Whether bytes from outside are a group of `count` frames; what zstd makes of its records is left to zstd.

    `references` says how long each reference is, and `books` where those are that are sound codebooks, or 0.
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
