"""The kernels of `residuals`: predictions subtracted from frames in memory, and added again."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import Word, bytes_at, helper, load8, load64, store8
from compressed_array._stores.frames.kernels.codebooks import are_valid_words
from compressed_array._stores.frames.residuals import (
    BOOK,
    FIRST_BYTE,
    NEIGHBOUR,
    NUMBER_AT,
    REFERENCE,
    SIZE_BITS,
    SIZE_MASK,
    ZSTD_BEGINS,
)
from compressed_array.codecs._change_kernels import put_varint, take_varint, varint_ends


@helper
def predictor(prediction: Word) -> Word:
    """Returns what predicts, according to the code of a prediction: `NEIGHBOUR`, `REFERENCE` or `BOOK`."""
    return (prediction & FIRST_BYTE) >> SIZE_BITS


@helper
def subtract_prediction(frame: Word, size: Word, prediction: Word, references: Any, target: Word) -> None:
    """Writes the residual of a frame to `target`."""
    number, width = prediction >> NUMBER_AT, np.int64(1) << (prediction & SIZE_MASK)
    start, base = np.int64(0), np.int64(0)
    if predictor(prediction) == NEIGHBOUR:
        start, base = number, frame
    else:
        base = references[number]
    elements = size // width
    pixels, known, left = bytes_at(frame, size), bytes_at(base, size - start), bytes_at(target, size)
    if width == 1:  # by itself, which makes it many times as fast
        for k in range(start):
            left[k] = pixels[k]
        for k in range(size - start):
            left[start + k] = pixels[start + k] - known[k]
        return
    for place in range(width):
        for i in range(elements):
            k = i * width + place
            left[place * elements + i] = pixels[k] - (known[k - start] if k >= start else np.uint8(0))


@helper
def add_prediction(left: Word, size: Word, prediction: Word, base: Word, frame: Word) -> None:
    """Writes the frame of the residual at `left`; `base` is where the reference is, if one predicts it."""
    start, step, width = np.int64(0), size, np.int64(1) << (prediction & SIZE_MASK)
    if predictor(prediction) == NEIGHBOUR:
        start, step, base = prediction >> NUMBER_AT, prediction >> NUMBER_AT, frame
    rest = bytes_at(left, size)
    if width > 1:
        elements, pixels = size // width, bytes_at(frame, size)
        for place in range(width):
            for i in range(elements):
                pixels[i * width + place] = rest[place * elements + i]
    else:
        first = bytes_at(frame, start)
        for k in range(start):
            first[k] = rest[k]
    # A row at a time, none of which overlaps the one it is added to: that is done many bytes at once.
    at = start
    while at < size:
        many = min(step, size - at)
        row, known = bytes_at(frame + at, many), bytes_at(base + at - start, many)
        source = row if width > 1 else bytes_at(left + at, many)
        for k in range(many):
            row[k] = source[k] + known[k]
        at += many


@helper
def put_code(at: Word, prediction: Word) -> Word:
    """Writes the code of a prediction, in front of a zstd frame. Returns where it ends."""
    store8(at, np.uint64(prediction & FIRST_BYTE))
    return put_varint(at + 1, prediction >> NUMBER_AT)


@helper
def split_record(body: Word) -> Word:
    """Returns the code of a zstd record's prediction, and where its zstd frame begins."""
    if load8(body) == ZSTD_BEGINS:
        return np.int64(0), body
    number, at = take_varint(body + 1)
    return number << NUMBER_AT | np.int64(load8(body)), at


@helper
def is_by_book(prediction: Word) -> Word:
    """Whether a frame was coded by a codebook."""
    return predictor(prediction) == BOOK


@helper
def book_of(prediction: Word, references: Word) -> Word:
    """Returns the address of the codebook that a frame was coded by."""
    return np.int64(load64(references + 8 * (prediction >> NUMBER_AT)))


@helper
def reference_of(prediction: Word, references: Word) -> Word:
    """Returns the address of the reference that predicts a frame, or 0 if none does."""
    if predictor(prediction) != REFERENCE:
        return np.int64(0)
    return np.int64(load64(references + 8 * (prediction >> NUMBER_AT)))


@helper
def is_sound(body: Word, end: Word, size: Word, references: Any, books: Any) -> Word:
    """Whether a record from outside, of zstd's or by a codebook, has a code that it can have.

    `references` are the lengths of the references, `books` the addresses of those that are sound codebooks, or 0.
    """
    if body >= end:
        return False
    if load8(body) == ZSTD_BEGINS:
        return True
    if varint_ends(body + 1, end) < 0:
        return False
    prediction, rest = split_record(body)
    if is_by_book(prediction):
        number = prediction >> NUMBER_AT
        return number < books.shape[0] and books[number] != 0 and are_valid_words(rest, end, size, books[number])
    number, predicts_by = prediction >> NUMBER_AT, predictor(prediction)
    if size % (np.int64(1) << (prediction & SIZE_MASK)) != 0:
        return False
    if predicts_by == NEIGHBOUR:
        return 0 < number <= size
    return predicts_by == REFERENCE and number < references.shape[0] and references[number] >= size
