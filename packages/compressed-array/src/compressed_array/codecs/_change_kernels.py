"""The kernels of `_changes`: runs of changed bytes, encoded and applied in memory, with the same bytes."""

from __future__ import annotations

import numpy as np

from compressed_array._runtime.numba_tools import (
    Word,
    copy_bytes,
    difference,
    helper,
    load8,
    load64,
    store8,
    store64,
    trailing_zeros,
)
from compressed_array.codecs._changes import FULL_NIBBLE, GAP

SHORT, WORD_NBYTES = 16, 8


@helper
def put_varint(at: Word, value: Word) -> Word:
    """Writes a number. Returns where it ends."""
    while value >= 128:
        store8(at, np.uint64(value & 127 | 128))
        at += 1
        value >>= 7
    store8(at, np.uint64(value))
    return at + 1


@helper
def take_varint(at: Word) -> Word:
    """Returns a number, and where it ends."""
    value, shift = np.int64(0), np.int64(0)
    while True:
        byte = np.int64(load8(at))
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


@helper
def copy_short(target: Word, source: Word, size: Word) -> None:
    """Copies bytes, without a call of memcpy for sizes that are not worth it."""
    if size >= SHORT:
        copy_bytes(target, source, size)
    else:
        for k in range(size):
            store8(target + k, load8(source + k))


@helper
def first_difference(a: Word, b: Word, at: Word, size: Word) -> Word:
    """Returns the first place from `at` on where two pieces of memory differ, or `size`."""
    while at + 128 <= size and difference(a + at, b + at) == 0:
        at += 128
    while at + 8 <= size:
        different = load64(a + at) ^ load64(b + at)
        if different != 0:
            return at + (trailing_zeros(different) >> 3)
        at += 8
    while at < size and load8(a + at) == load8(b + at):
        at += 1
    return at


@helper
def encode_changes(frame: Word, base: Word, size: Word, out: Word, limit: Word) -> Word:
    """Writes the changes to `out`. Returns how many bytes they take, or -1 if that is more than `limit`."""
    o, last, i = out, np.int64(0), np.int64(0)
    while True:
        i = first_difference(frame, base, i, size)
        if i >= size:
            return o - out
        end, j = i + 1, i + 1
        while j < size and j - end <= GAP:
            if load8(frame + j) != load8(base + j):
                end = j + 1
            j += 1
        skip, more = i - last, end - i - 1
        store8(o, np.uint64(min(skip, FULL_NIBBLE) << 4 | min(more, FULL_NIBBLE)))
        o += 1
        if skip >= FULL_NIBBLE:
            o = put_varint(o, skip - FULL_NIBBLE)
        if more >= FULL_NIBBLE:
            o = put_varint(o, more - FULL_NIBBLE)
        if o - out + end - i > limit:
            return np.int64(-1)
        copy_short(o, frame + i, end - i)
        o += end - i
        last = i = end


@helper
def take_token(changes: Word) -> Word:
    """Returns how many bytes stay, how many change, and where what they change to begins."""
    token = np.int64(load8(changes))
    changes += 1
    skip, length = token >> 4, (token & FULL_NIBBLE) + 1
    if skip == FULL_NIBBLE:
        value, changes = take_varint(changes)
        skip += value
    if length > FULL_NIBBLE:
        value, changes = take_varint(changes)
        length += value
    return skip, length, changes


@helper
def apply_changes(changes: Word, end: Word, frame: Word) -> None:
    """Applies the changes between two addresses to a frame. Both have `ROOM` behind them.

    How long a run is cannot be predicted, so short ones are all written alike: a word, and then what it covered.
    """
    at = frame
    while changes < end:
        skip, length, changes = take_token(changes)
        at += skip
        if length <= WORD_NBYTES:
            after = load64(at + length)
            store64(at, load64(changes))
            store64(at + length, after)
        else:
            copy_bytes(at, changes, length)
        at += length
        changes += length


@helper
def varint_ends(at: Word, end: Word) -> Word:
    """Returns where a number ends, if that is before `end` and it is no longer than a number may be; else -1."""
    for k in range(5):
        if at + k >= end:
            return np.int64(-1)
        if load8(at + k) < 128:
            return at + k + 1
    return np.int64(-1)


@helper
def changes_fit(changes: Word, end: Word, size: Word) -> Word:
    """Whether what lies between two addresses are changes to a frame of `size` bytes."""
    at = np.int64(0)
    while changes < end:
        token = np.int64(load8(changes))
        changes += 1
        skip, length = token >> 4, (token & FULL_NIBBLE) + 1
        if skip == FULL_NIBBLE:
            if varint_ends(changes, end) < 0:
                return False
            value, changes = take_varint(changes)
            skip += value
        if length > FULL_NIBBLE:
            if varint_ends(changes, end) < 0:
                return False
            value, changes = take_varint(changes)
            length += value
        at += skip + length
        changes += length
        if at > size:
            return False
    return changes == end
