"""Checks groups of frames that come from a file or a pickle, so that they cannot lead a reader out of its memory.

Kernels decode without checking bounds, so all that they rely on is checked here, once, by a kernel where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.types import Words
from compressed_array._stores.frames import bitpack, codebooks, residuals
from compressed_array._stores.frames.dictionaries import DICTIONARIES
from compressed_array._stores.frames.export import FrameExport
from compressed_array._stores.frames.groups import (
    BITPACKED,
    FIRST_PACKED,
    FROM_REFERENCE,
    KIND_BITS,
    KIND_MASK,
    PLAIN_ROWS,
    RAW_FRAME,
    RECORDS,
    SINCE_LAST,
    SLOTS,
    ZSTD,
    split_numbers,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import MOST_LAYOUTS, is_layout
from compressed_array._stores.frames.records import split_records
from compressed_array._stores.frames.stacks import given_layout
from compressed_array._stores.frames.tables import LARGEST_ITEM, MOST_REFERENCES
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs import _changes
from compressed_array.codecs.delta import DeltaZstd
from compressed_array.codecs.zstd import Zstd
from compressed_array.errors import CorruptPayloadError

Books = Sequence[npt.NDArray[np.uint8] | None]
STREAMED_FROM = 8 * 1024 * 1024  # bytes that a packed group unpacks to
MOST_CODECS = 1 + len(DICTIONARIES)  # one from the beginning, and those with a dictionary


def check(export: FrameExport, item_shape: tuple[int, ...], itemsize: int, numbers: RecordNumbers) -> None:
    """Raises for an export from outside that could make a reader look where it must not."""
    given_layout(item_shape, itemsize, export.choice)  # raises where such items cannot be divided so
    layouts = export.layouts
    sound = (
        prod(item_shape) * itemsize <= LARGEST_ITEM
        and 0 < len(layouts) <= MOST_LAYOUTS
        and 0 <= export.layout < len(layouts)
        and len(set(layouts)) == len(layouts)
        and all(is_layout(layout, item_shape, itemsize) for layout in layouts)
        and all(isinstance(codec, Zstd) for codec in export.codecs)
        and len(export.codecs) <= MOST_CODECS
        and bool((export.size > 0).all())
        and (len(export.codecs) > 0 or not isinstance(export.choice, DeltaZstd))
        and len(export.references) < MOST_REFERENCES
        and all(r.dtype == np.uint8 and r.ndim == 1 for r in export.references)
        and len({len(part) for part in (export.tag, export.size, export.before, export.count, export.layout_of)}) == 1
        and int(export.size.sum(dtype=np.uint64)) == len(export.data)
        and bool(_known_tags(export.tag, len(export.codecs)).all())
        and bool((export.layout_of < len(layouts)).all())
        and bool((export.before <= len(export.size)).all())
        and bool((export.count <= SLOTS).all())
        and _numbers_are_valid(export, numbers)
    )
    if not sound:
        raise CorruptPayloadError("the groups contradict each other")
    end = np.cumsum(export.size.astype(np.int64))
    lengths = np.array([prod(item_shape) * itemsize, *map(len, export.references)], np.int64)
    books: list[npt.NDArray[np.uint8] | None] = [None] * len(lengths)  # items of single bytes never have codebooks
    if itemsize in codebooks.CODED_SIZES:
        books[1:] = [codebooks.checked(reference) for reference in export.references]
    for group, (tag, size, count, of) in enumerate(
        zip(export.tag.tolist(), export.size.tolist(), export.count.tolist(), export.layout_of.tolist(), strict=True)
    ):
        data = export.data[end[group] - size : end[group]]
        frame_nbytes = layouts[of].frame_nbytes
        if FIRST_PACKED <= tag < BITPACKED:
            codec = export.codecs[tag - FIRST_PACKED]
            unpacked = codec.content_size(data)
            if not 0 <= unpacked <= count * (frame_nbytes + ROOM):
                raise CorruptPayloadError(f"group {group} says that it unpacks to more than its frames take")
            if unpacked > STREAMED_FROM:
                is_group = _is_valid_packed_group(codec, data, unpacked, count, frame_nbytes, lengths, books)
            else:
                records = np.frombuffer(codec.decode(data), np.uint8)
                is_group = is_valid_group(records, False, count, frame_nbytes, lengths, books)
        elif tag == BITPACKED:
            is_group = bitpack.is_valid_group(data, count, frame_nbytes)
        else:
            is_group = is_valid_group(data, tag == PLAIN_ROWS, count, frame_nbytes, lengths, books)
        if not is_group:
            raise CorruptPayloadError(f"group {group} is not one of {count} frames of {frame_nbytes} bytes")


def _known_tags(tag: npt.NDArray[np.uint8], codecs: int) -> npt.NDArray[np.bool_]:
    """Returns which tags are those of a group, where there are so many codecs."""
    return np.asarray((tag >= RECORDS) & (tag < FIRST_PACKED + codecs) | (tag == BITPACKED))


def _numbers_are_valid(export: FrameExport, numbers: RecordNumbers) -> bool:
    """Whether every item's frames are in its group and the one before."""
    groups, slots = split_numbers(numbers[numbers != 0])
    if not len(groups):
        return True
    if groups.max() >= len(export.size):
        return False
    depth = np.array([layout.depth for layout in export.layouts])[export.layout_of[groups]]
    missing = np.maximum(depth - 1 - slots, 0)
    before = export.before[groups].astype(np.int64) - 1
    alike = (before >= 0) & (export.layout_of[before] == export.layout_of[groups])
    return bool(((slots < export.count[groups]) & ((missing == 0) | (alike & (export.count[before] >= missing)))).all())


def _is_valid_packed_group(
    codec: Zstd,
    data: npt.NDArray[np.uint8],
    unpacked: int,
    count: int,
    frame_nbytes: int,
    references: Words,
    books: Books,
) -> bool:
    """Whether a packed group from outside unpacks to one of `count` frames.

    It is unpacked and checked one record at a time: the whole could take far more memory than an item.
    """
    taken = 0
    with codec.stream(data) as stream:
        for k in range(count):
            head = shift = 0
            more = True
            while more:
                byte = stream.read(1)
                if not byte or shift > 63:
                    return False
                head, more, shift, taken = head | (byte[0] & 127) << shift, byte[0] > 127, shift + 7, taken + 1
            kind, size = head & KIND_MASK, head >> KIND_BITS
            body = stream.read(size) if size <= frame_nbytes + ROOM else b""
            if len(body) != size or (k == 0 and kind == SINCE_LAST):
                return False
            taken += size
            if kind == SINCE_LAST:
                kind, body = FROM_REFERENCE, b"\0" + body  # which are the same bounds
            record = np.frombuffer(_changes.varint(len(body) << KIND_BITS | kind) + body, np.uint8)
            if not is_valid_group(record, False, 1, frame_nbytes, references, books):
                return False
        return taken == unpacked and not stream.read(1)


def is_valid_group(
    data: npt.NDArray[np.uint8], plain: bool, count: int, frame_nbytes: int, references: Words, books: Books = ()
) -> bool:
    """Whether bytes are a group of `count` frames; by a kernel where there is one.

    `references` are the lengths of the references, and `books` those of them that are sound codebooks.
    """
    kernels = native("_stores.frames.kernels.groups")
    if kernels is not None:
        places = np.array([0 if book is None else book.ctypes.data for book in books], np.int64)
        return bool(kernels.is_valid_group(data.ctypes.data, data.size, plain, count, frame_nbytes, references, places))
    if plain:
        return bool(data.size == count * frame_nbytes)
    frame = np.zeros(frame_nbytes, np.uint8)
    try:
        records = split_records(data, count)
        for k, (kind, body) in enumerate(records):
            if kind == SINCE_LAST:
                _changes.apply(body, frame)
            elif kind == FROM_REFERENCE:
                if not len(body) or body[0] >= len(references) or references[body[0]] < frame_nbytes:
                    return False
                _changes.apply(body[1:], frame)
            elif kind == ZSTD and not _is_valid_zstd_record(body, frame_nbytes, references, books):
                return False
            if (k == 0 and kind == SINCE_LAST) or (kind == RAW_FRAME and len(body) != frame_nbytes):
                return False
    except CorruptPayloadError:
        return False
    return sum(len(_changes.varint(len(body) << KIND_BITS)) + len(body) for _, body in records) == data.size


def _is_valid_zstd_record(body: npt.NDArray[np.uint8], frame_nbytes: int, references: Words, books: Books) -> bool:
    """Whether a record of zstd's, or by a codebook, can be decoded here."""
    prediction, rest = residuals.split(body)
    if residuals.predictor(prediction) != residuals.BOOK:
        return residuals.is_sound(prediction, frame_nbytes, references.tolist())
    number = prediction >> residuals.NUMBER_AT
    book = books[number] if number < len(books) else None
    return book is not None and codebooks.is_valid(rest, book, frame_nbytes)
