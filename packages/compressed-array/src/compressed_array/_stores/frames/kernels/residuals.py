"""`residuals`, to memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from compressed_array._runtime.numba_tools import Word, bytes_at, helper, load8, load64, store8
from compressed_array._stores.frames.kernels.codebooks import words_fit
from compressed_array._stores.frames.residuals import BEFORE, BOOK, NUMBER_AT, REFERENCE, SIZE_BITS, ZSTD_BEGINS
from compressed_array.codecs._change_kernels import put_varint, take_varint, varint_ends

SIZE_MASK, FIRST_BYTE = (1 << SIZE_BITS) - 1, (1 << NUMBER_AT) - 1


@helper
def take_foretold(frame: Word, size: Word, how: Word, references: Any, target: Word) -> None:
    """Put what is left of a frame at `target`."""
    number, width, start, base = how >> NUMBER_AT, np.int64(1) << (how & SIZE_MASK), np.int64(0), np.int64(0)
    if (how & FIRST_BYTE) >> SIZE_BITS == BEFORE:
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
def put_foretold(left: Word, size: Word, how: Word, base: Word, frame: Word) -> None:
    """Turn what is left into the frame; `base` is where the reference is, if one foretold it."""
    start, step, width = np.int64(0), size, np.int64(1) << (how & SIZE_MASK)
    if (how & FIRST_BYTE) >> SIZE_BITS == BEFORE:
        start, step, base = how >> NUMBER_AT, how >> NUMBER_AT, frame
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
def put_head(at: Word, how: Word) -> Word:
    """Write what stands before a zstd frame that was made so, and return where it ends."""
    store8(at, np.uint64(how & FIRST_BYTE))
    return put_varint(at + 1, how >> NUMBER_AT)


@helper
def split_record(body: Word) -> Word:
    """How a record of zstd's was made, and where its zstd frame begins."""
    if load8(body) == ZSTD_BEGINS:
        return np.int64(0), body
    number, at = take_varint(body + 1)
    return number << NUMBER_AT | np.int64(load8(body)), at


@helper
def is_by_book(how: Word) -> Word:
    """Whether a codebook foretells a frame."""
    return (how & FIRST_BYTE) >> SIZE_BITS == BOOK


@helper
def book_of(how: Word, references: Word) -> Word:
    """Where the codebook is that foretells a frame."""
    return np.int64(load64(references + 8 * (how >> NUMBER_AT)))


@helper
def reference_of(how: Word, references: Word) -> Word:
    """Where the reference is that foretold a frame, or 0 if none did."""
    if (how & FIRST_BYTE) >> SIZE_BITS != REFERENCE:
        return np.int64(0)
    return np.int64(load64(references + 8 * (how >> NUMBER_AT)))


@helper
def is_sound(body: Word, end: Word, size: Word, references: Any, books: Any) -> Word:
    """Whether a record of zstd's, or by a codebook, from outside, is made in a way that there is.

    `references` says how long each is, and `books` where those are that are sound codebooks, or 0.
    """
    if body >= end:
        return False
    if load8(body) == ZSTD_BEGINS:
        return True
    if varint_ends(body + 1, end) < 0:
        return False
    how, rest = split_record(body)
    if is_by_book(how):
        number = how >> NUMBER_AT
        return number < books.shape[0] and books[number] != 0 and words_fit(rest, end, size, books[number])
    number, foretells = how >> NUMBER_AT, (how & FIRST_BYTE) >> SIZE_BITS
    if size % (np.int64(1) << (how & SIZE_MASK)) != 0:
        return False
    if foretells == BEFORE:
        return 0 < number <= size
    return foretells == REFERENCE and number < references.shape[0] and references[number] >= size
