"""Encoding, in memory: which frames of an item are new, how one is taken out of it, and its smallest record.

`groups` says what kinds of record there are, and `layouts` how frames are found in memory. `records.encode_frame` makes
the same records with numpy.
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
from compressed_array._stores.frames.kernels.residuals import is_by_book, put_code, subtract_prediction
from compressed_array._stores.frames.lanes import ROOM, SMALL_ENOUGH
from compressed_array._stores.frames.layouts import WIDEST_MASK
from compressed_array._stores.frames.residuals import NO_PREDICTION, NUMBER_AT
from compressed_array._stores.frames.settings import AS_CHANGES, AS_ZSTD
from compressed_array.codecs._change_kernels import copy_short, encode_changes, first_difference, put_varint


@helper
def is_shifted(item: Word, before: Word, frames: Word, geometry: Any) -> Word:
    """Whether an item is the one before without its first `frames` frames, and with as many new ones behind."""
    item_nbytes, places, shift = geometry.item_nbytes, geometry.places, frames * geometry.run
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
        while at + 128 + shift <= item_nbytes:
            if difference(item + at, before + at + shift) & load64(masks) != 0:
                return False
            at += 128
    while at + 8 + shift <= item_nbytes:
        if (load64(item + at) ^ load64(before + at + shift)) & load64(masks + 8 * k) != 0:
            return False
        at, k = at + 8, k + 1 if k + 1 < pitch else np.int64(0)
    while at + shift < item_nbytes:
        if at % pitch < pitch - shift and load8(item + at) != load8(before + at + shift):
            return False
        at += 1
    return True


@helper
def count_new(item: Word, before: Word, geometry: Any) -> Word:
    """Returns how many frames of an item are new since the item before it: none, some at its end, or all."""
    item_nbytes, depth = geometry.item_nbytes, geometry.depth
    if first_difference(item, before, np.int64(0), item_nbytes) >= item_nbytes:
        return np.int64(0)
    for frames in range(1, depth):
        if is_shifted(item, before, np.int64(frames), geometry):
            return np.int64(frames)
    return np.int64(depth)


@helper
def update_last_item(kept: Word, item: Word, new: Word, geometry: Any) -> None:
    """Updates the lane's remembered item in place, reading only the new frames.

    Another thread may change the item meanwhile. So every byte of it is read once, and frames are then taken from what
    the lane remembers.
    """
    item_nbytes, places, run = geometry.item_nbytes, geometry.places, geometry.run
    if new >= geometry.depth:
        copy_bytes(kept, item, item_nbytes)
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
        while at + 128 + shift <= item_nbytes:
            merge(kept + at, kept + at + shift, item + at, load64(masks))
            at += 128
    while at + 8 + shift <= item_nbytes:
        mask = load64(masks + 8 * k)
        store64(kept + at, (load64(kept + at + shift) & mask) | (load64(item + at) & ~mask))
        at, k = at + 8, k + 1 if k + 1 < pitch else np.int64(0)
    while at < item_nbytes:
        store8(kept + at, load8(kept + at + shift if at % pitch < pitch - shift else item + at))
        at += 1


@helper
def take_frame(item: Word, index: Word, geometry: Any, target: Word) -> None:
    """Copies a frame of an item to `target` in C order."""
    start, piece = item + index * geometry.run, geometry.piece
    columns, step = geometry.columns, geometry.column_stride
    for row in range(geometry.rows):
        source, out = start + row * geometry.row_stride, target + row * columns * piece
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
    frame: Word, last: Word, size: Word, mode: Word, scratch: Word, references: Any, encoding: Any, out: Word
) -> Word:
    """Writes the smallest record for a frame to `out`. Returns its size. `last` is 0 where the group has no frame yet.

    Records above `worth_zstd` bytes are also tried with the codebook that `prediction` names, and with zstd where it
    names none or the codebook does not help.
    """
    prediction, compress = encoding.prediction, encoding.compress
    kind, best, body, spare, head = np.int64(RAW_FRAME), size, frame, scratch, np.int64(0)
    slot = size + (size >> 8) + ROOM
    other = scratch + slot
    if mode == AS_CHANGES:
        if last != 0:
            found = encode_changes(frame, last, size, spare, best - 1)
            if found >= 0:
                kind, best, body, spare, other = np.int64(SINCE_LAST), found, spare, other, spare
        base = encoding.reference
        while best * SMALL_ENOUGH > size:
            found = encode_changes(frame, references[base], size, spare + 1, best - 2)
            if found >= 0:
                store8(spare, np.uint64(base))
                kind, best, body, spare, other = np.int64(FROM_REFERENCE), found + 1, spare, other, spare
            if base == 0:
                break
            base = np.int64(0)
    is_worth = best > 1 and (mode == AS_ZSTD or best > encoding.worth_zstd)
    if is_worth and is_by_book(prediction):
        head = put_code(out, prediction) - out  # which is written over
        book, limit = references[prediction >> NUMBER_AT], best - head - 1
        found = call_sizes(encoding.encode_words, frame, size, book, scratch + 3 * slot, spare, limit)
        if found >= 0:
            kind, best, body, is_worth = np.int64(ZSTD), found + head, spare, False
        else:
            prediction, head = np.int64(NO_PREDICTION), np.int64(0)
    if is_worth and compress != 0:
        # All the room that zstd may ask for: with less, it makes other bytes of what hardly shrinks.
        source = frame
        if prediction != NO_PREDICTION:
            source = scratch + 3 * slot
            subtract_prediction(frame, size, prediction, references, source)
            head = put_code(out, prediction) - out  # which is written over
        found = call_sizes(compress, encoding.context, spare, slot, source, size, encoding.level)
        if found > 0 and found + head < best:
            kind, best, body = np.int64(ZSTD), found + head, spare
    at = put_varint(out, best << KIND_BITS | kind)
    if kind == ZSTD and prediction != NO_PREDICTION:
        at = put_code(at, prediction)
        best -= head
    copy_bytes(at, body, best)
    return at + best - out
