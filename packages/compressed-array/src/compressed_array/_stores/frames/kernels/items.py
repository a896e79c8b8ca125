"""Frames of items, in memory: what of an item is new, how a frame is taken out of it, and its smallest record.

What kinds of record there are is said in `groups`, and how frames are found in memory in `layouts`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import (
    Word,
    bytes_at,
    call_sizes,
    copy_bytes,
    difference,
    helper,
    load8,
    load64,
    merge,
    store8,
    store64,
)
from compressed_array._stores.frames.groups import FROM_REFERENCE, KIND_BITS, RAW_FRAME, SINCE_LAST, ZSTD
from compressed_array._stores.frames.kernels.residuals import is_by_book, put_head, take_foretold
from compressed_array._stores.frames.lanes import DELTA, ENOUGH, INTRA, ROOM
from compressed_array._stores.frames.layouts import WIDEST_MASK
from compressed_array._stores.frames.residuals import AS_IT_IS, NUMBER_AT
from compressed_array.codecs._change_kernels import copy_short, encode_changes, first_difference, put_varint


@helper
def is_shifted(item: Word, before: Word, frames: Word, geometry: Any) -> Word:
    """Whether an item is the one before without its first frames, and with as many new ones behind."""
    record, places, shift = geometry.record, geometry.places, frames * geometry.run
    pitch = geometry.depth * geometry.run
    if pitch > WIDEST_MASK:
        same = pitch - shift
        for p in range(places):
            if first_difference(item + p * pitch, before + p * pitch + shift, np.int64(0), same) < same:
                return False
        return True
    # Short runs side by side, as in channel-last memory: many at a time, but for the bytes that may be new.
    masks = geometry.masks + 8 * (frames - 1) * pitch
    at, k = np.int64(0), np.int64(0)
    if 8 % pitch == 0:
        while at + 128 + shift <= record:
            if difference(item + at, before + at + shift) & load64(masks) != 0:
                return False
            at += 128
    while at + 8 + shift <= record:
        if (load64(item + at) ^ load64(before + at + shift)) & load64(masks + 8 * k) != 0:
            return False
        at, k = at + 8, k + 1 if k + 1 < pitch else np.int64(0)
    while at + shift < record:
        if at % pitch < pitch - shift and load8(item + at) != load8(before + at + shift):
            return False
        at += 1
    return True


@helper
def count_new(item: Word, before: Word, geometry: Any) -> Word:
    """How many frames of an item are new to one that comes after another: none, some at its end, or all."""
    record, depth = geometry.record, geometry.depth
    if first_difference(item, before, np.int64(0), record) >= record:
        return np.int64(0)
    for frames in range(1, depth):
        if is_shifted(item, before, np.int64(frames), geometry):
            return np.int64(frames)
    return np.int64(depth)


@helper
def move_on(kept: Word, item: Word, new: Word, geometry: Any) -> None:
    """Have what is kept of the item before followed by an item with so many new frames, which alone are read of it.

    Another thread may change the item meanwhile. So every byte of it is read once, and what is kept is what there is.
    """
    record, places, run = geometry.record, geometry.places, geometry.run
    if new >= geometry.depth:
        copy_bytes(kept, item, record)
        return
    shift, pitch = new * run, geometry.depth * run
    if pitch > WIDEST_MASK:
        for p in range(places):
            at = p * pitch
            for _ in range(geometry.depth - new):
                copy_short(kept + at, kept + at + shift, run)
                at += run
            copy_short(kept + at, item + at, shift)
        return
    masks, at, k = geometry.masks + 8 * (new - 1) * pitch, np.int64(0), np.int64(0)
    if 8 % pitch == 0:
        while at + 128 + shift <= record:
            merge(kept + at, kept + at + shift, item + at, load64(masks))
            at += 128
    while at + 8 + shift <= record:
        mask = load64(masks + 8 * k)
        store64(kept + at, (load64(kept + at + shift) & mask) | (load64(item + at) & ~mask))
        at, k = at + 8, k + 1 if k + 1 < pitch else np.int64(0)
    while at < record:
        store8(kept + at, load8(kept + at + shift if at % pitch < pitch - shift else item + at))
        at += 1


@helper
def take_frame(item: Word, index: Word, geometry: Any, target: Word) -> None:
    """Lay a frame of an item out in C order."""
    start, piece = item + index * geometry.run, geometry.piece
    columns, step = geometry.columns, geometry.column_step
    for row in range(geometry.rows):
        source, out = start + row * geometry.row_step, target + row * columns * piece
        if piece > 1:
            for column in range(columns):
                copy_short(out + column * piece, source + column * step, piece)
        elif step == 4:  # a stack of four, the usual one: a constant step makes it eight times as fast
            pixels, frame = bytes_at(source, 4 * columns - 3), bytes_at(out, columns)
            for column in range(columns):
                frame[column] = pixels[4 * column]
        else:
            pixels, frame = bytes_at(source, step * (columns - 1) + 1), bytes_at(out, columns)
            for column in range(columns):
                frame[column] = pixels[step * column]


@helper
def encode_frame(
    frame: Word,
    last: Word,
    size: Word,
    mode: Word,
    scratch: Word,
    references: Any,
    reference: Word,
    worth: Word,
    compress: Word,
    context: Word,
    level: Word,
    how: Word,
    encode_words: Word,
    out: Word,
) -> Word:
    """Write the smallest record for a frame to `out` and return its size; `last` is 0 where no frame came before.

    Of more than `worth` bytes, zstd may make fewer: of the frame, or of what is left of it, as `how` says. Or a
    codebook may, by the function at `encode_words`, and zstd is given the frames of which that does not.
    """
    kind, best, body, spare, head = np.int64(RAW_FRAME), size, frame, scratch, np.int64(0)
    slot = size + (size >> 8) + ROOM
    other = scratch + slot
    if mode == DELTA:
        if last != 0:
            found = encode_changes(frame, last, size, spare, best - 1)
            if found >= 0:
                kind, best, body, spare, other = np.int64(SINCE_LAST), found, spare, other, spare
        base = reference
        while best * ENOUGH > size:
            found = encode_changes(frame, references[base], size, spare + 1, best - 2)
            if found >= 0:
                store8(spare, np.uint64(base))
                kind, best, body, spare, other = np.int64(FROM_REFERENCE), found + 1, spare, other, spare
            if base == 0:
                break
            base = np.int64(0)
    is_worth = best > 1 and (mode == INTRA or best > worth)
    if is_worth and is_by_book(how):
        head = put_head(out, how) - out  # which is written over
        book, limit = references[how >> NUMBER_AT], best - head - 1
        found = call_sizes(encode_words, frame, size, book, scratch + 3 * slot, spare, limit)
        if found >= 0:
            kind, best, body, is_worth = np.int64(ZSTD), found + head, spare, False
        else:
            how, head = np.int64(AS_IT_IS), np.int64(0)
    if is_worth and compress != 0:
        # All the room that zstd may ask for: with less, it makes other bytes of what hardly shrinks.
        source = frame
        if how != AS_IT_IS:
            source = scratch + 3 * slot
            take_foretold(frame, size, how, references, source)
            head = put_head(out, how) - out  # which is written over
        found = call_sizes(compress, context, spare, slot, source, size, level)
        if found > 0 and found + head < best:
            kind, best, body = np.int64(ZSTD), found + head, spare
    at = put_varint(out, best << KIND_BITS | kind)
    if kind == ZSTD and how != AS_IT_IS:
        at = put_head(at, how)
        best -= head
    copy_bytes(at, body, best)
    return at + best - out
