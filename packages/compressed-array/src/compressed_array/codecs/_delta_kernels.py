"""Kernels that encode the changes of single frames, for the codec by itself and for trials.

A store writes many frames in a call, by kernels of its own.
"""

from __future__ import annotations

from typing import Any

from compressed_array._runtime.numba_tools import Word, jit
from compressed_array.codecs._change_kernels import changes_fit, copy_short, encode_changes, take_token


@jit("int64(int64, int64, int64, int64, int64)")
def encode_at(frame: Word, base: Word, size: Word, out: Word, limit: Word) -> Word:
    """Does what `encode_changes` does, for callers in Python."""
    return encode_changes(frame, base, size, out, limit)


@jit("boolean(int64, int64, int64, int64)")
def apply_checked(changes: Word, changes_nbytes: Word, frame: Word, size: Word) -> Any:
    """Applies changes from outside, which need no `ROOM`, if they fit. Returns whether they did."""
    end = changes + changes_nbytes
    if not changes_fit(changes, end, size):
        return False
    while changes < end:
        skip, length, changes = take_token(changes)
        frame += skip
        copy_short(frame, changes, length)
        frame += length
        changes += length
    return True
