"""A store of frames outside of its process: which groups are needed, how they are laid end to end, and how not to be
fooled by what comes back.

Groups are exported whole and as they are, packed or not, so that nothing is decoded or encoded on the way. What lanes
remember is left behind: the first items written after a journey are stored as if a stream had just begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import Payloads
from compressed_array._stores.exports import Snapshot
from compressed_array._stores.frames import bitpack, codebooks, residuals
from compressed_array._stores.frames.dictionaries import DICTIONARIES
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    FIRST_PACKED,
    FREE,
    FROM_REFERENCE,
    KIND_BITS,
    NARROW,
    PLAIN,
    RAW_FRAME,
    RECORDS,
    SINCE_LAST,
    SLOTS,
    TAG_BITS,
    ZSTD,
    split_numbers,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import DEEPEST_STACK, Layout
from compressed_array._stores.frames.records import needed_by, split_records
from compressed_array._stores.frames.stacks import given_layout
from compressed_array._stores.frames.tables import LARGEST_ITEM, MOST_REFERENCES, Frames
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs import _changes
from compressed_array.codecs.delta import DeltaZstd
from compressed_array.codecs.zstd import Zstd
from compressed_array.errors import CorruptPayloadError

Numbers = npt.NDArray[np.int64]
Books = Sequence[npt.NDArray[np.uint8] | None]
STREAMED_FROM = 8 * 1024 * 1024  # bytes that a packed group unpacks to
LITTLE = 16  # times as many bytes as references have: then it is not worth it to see who needs them
MOST_CODECS = 1 + len(DICTIONARIES)  # one from the beginning, and those with a dictionary


@dataclass(frozen=True)
class FrameExport:
    """Groups on their way out of the process, numbered from 0, and what is needed to read them."""

    kind: ClassVar[str] = "frames"

    choice: Any
    layouts: list[Layout]
    layout: int
    found: bool  # whether `layout` is known to be how items are stacked
    codecs: list[Any]
    references: list[npt.NDArray[np.uint8]]
    tag: npt.NDArray[np.uint8]
    size: npt.NDArray[np.uint32]
    before: npt.NDArray[np.uint32]
    count: npt.NDArray[np.uint8]
    layout_of: npt.NDArray[np.uint8]
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FrameSnapshot(Snapshot):
    """All groups of a store, counted from 0 in the order of `groups`; `version` tells if it has changed since."""

    groups: Numbers
    version: tuple[int, int, int]

    def renumbered(self, numbers: RecordNumbers) -> RecordNumbers:
        """Returns an array's numbers as they are in the snapshot."""
        return renumbered(self.groups, numbers)


def renumbered(groups: Numbers, numbers: RecordNumbers) -> RecordNumbers:
    """Returns numbers as they are when `groups`, which are in order, are counted from 0."""
    new = np.zeros(numbers.shape, np.uint32)
    written = numbers != 0
    of, slots = split_numbers(numbers[written])
    new[written] = np.searchsorted(groups, of) * SLOTS + slots + 1
    return new


def export_groups(frames: Frames, groups: Numbers, choice: Any, layout: int, found: bool) -> FrameExport:
    """Returns these groups, in this order."""
    table = frames.groups.table[groups]
    size = table["size"].astype(np.int64)
    data = np.empty(int(size.sum()), np.uint8)
    frames.heap.payloads(table["where"] & ADDRESS_MASK, size).copy_to(data, np.cumsum(size) - size)
    tag = (table["where"] >> TAG_BITS).astype(np.uint8)
    is_packed = (tag >= FIRST_PACKED) & (tag != NARROW)
    before = table["before"].astype(np.int64) - 1
    # A group that is there for the sake of others may have one before it that nobody needs.
    at = np.minimum(np.searchsorted(groups, before), max(len(groups) - 1, 0))
    there = (before >= 0) & (groups[at] == before) if len(groups) else before >= 0
    return FrameExport(
        choice,
        list(frames.layouts),
        layout,
        found,
        list(frames.codecs)
        if is_packed.any() or isinstance(choice, DeltaZstd)
        else [],  # zstd may be missing elsewhere
        _references(frames, tag, data, size, table["count"].astype(np.int64)),
        tag,
        table["size"].copy(),
        np.where(there, at + 1, 0).astype(np.uint32),
        table["count"].copy(),
        table["layout"].copy(),
        data,
    )


def _references(
    frames: Frames, tag: npt.NDArray[np.uint8], data: npt.NDArray[np.uint8], size: Numbers, count: Numbers
) -> list[npt.NDArray[np.uint8]]:
    """Returns the references that groups may need; others are left empty where they would take much space."""
    references = list(frames.references[1:])
    if ((tag >= FIRST_PACKED) & (tag < NARROW)).any():  # of which nobody knows without unpacking them
        return references
    if LITTLE * sum(map(len, references)) <= data.nbytes:
        return references
    groups = np.flatnonzero(tag == RECORDS)
    payloads = Payloads.in_one_buffer(data, (np.cumsum(size) - size)[groups], size[groups])
    used, kernels = np.zeros(MOST_REFERENCES, np.int64), native("_stores.frames.kernels.adoption")
    if kernels is not None:
        kernels.mark_references(payloads.addresses(), count[groups], used)
    else:
        for i, records in enumerate(count[groups].tolist()):
            used[[needed_by(kind, body)[0] for kind, body in split_records(payloads[i], records)]] = 1
    return [reference if used[k] else reference[:0].copy() for k, reference in enumerate(references, 1)]


def restore_groups(frames: Frames, export: FrameExport) -> None:
    """Put exported groups into new `Frames`; nobody has a reference to any of them."""
    frames.layouts = []  # groups know theirs by its place among the exported ones
    for layout in export.layouts:
        frames.number_of(layout)
    frames.lanes.start_over(export.layouts[export.layout].frame_nbytes)
    frames.references += [np.ascontiguousarray(reference) for reference in export.references]
    frames.codecs = list(export.codecs) or frames.codecs
    size = export.size.astype(np.int64)
    address = frames.heap.append(Payloads.in_one_buffer(export.data, np.cumsum(size) - size, size))
    groups = frames.groups
    while groups.counts[FREE] < len(size):
        groups.grow()
    table = groups.table[: len(size)]
    table["where"] = address | export.tag.astype(np.int64) << TAG_BITS
    table["size"], table["before"] = export.size, export.before
    table["count"], table["layout"] = export.count, export.layout_of
    groups.free = np.append(np.arange(len(groups.table) - 1, len(size) - 1, -1), np.zeros(len(size), np.int64))
    groups.counts[FREE] = len(groups.table) - len(size)
    largest = max((layout.frame_nbytes for layout in frames.layouts), default=0)
    frames.expect_unpacked(SLOTS * (largest + ROOM))


def check(export: FrameExport, item_shape: tuple[int, ...], itemsize: int, numbers: RecordNumbers) -> None:
    """Raise for an export from outside that could make a reader look where it must not."""
    given_layout(item_shape, itemsize, export.choice)  # raises where such items cannot be divided so
    layouts = export.layouts
    sound = (
        prod(item_shape) * itemsize <= LARGEST_ITEM
        and 0 < len(layouts) <= 255
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
        and _numbers_fit(export, numbers)
    )
    if not sound:
        raise CorruptPayloadError("the groups contradict each other")
    end = np.cumsum(export.size.astype(np.int64))
    lengths = np.array([prod(item_shape) * itemsize, *map(len, export.references)], np.int64)
    books: list[npt.NDArray[np.uint8] | None] = [None] * len(lengths)  # which is all of them for items of bytes
    if itemsize in codebooks.WORD_SIZES:
        books[1:] = [codebooks.checked(reference) for reference in export.references]
    for group, (tag, size, count, of) in enumerate(
        zip(export.tag.tolist(), export.size.tolist(), export.count.tolist(), export.layout_of.tolist(), strict=True)
    ):
        data = export.data[end[group] - size : end[group]]
        frame_nbytes = layouts[of].frame_nbytes
        if FIRST_PACKED <= tag < NARROW:
            codec = export.codecs[tag - FIRST_PACKED]
            unpacked = codec.content_size(data)
            if not 0 <= unpacked <= count * (frame_nbytes + ROOM):
                raise CorruptPayloadError(f"group {group} says that it unpacks to more than its frames take")
            if unpacked > STREAMED_FROM:
                is_group = _stream_fits(codec, data, unpacked, count, frame_nbytes, lengths, books)
            else:
                records = np.frombuffer(codec.decode(data), np.uint8)
                is_group = _fits(records, False, count, frame_nbytes, lengths, books)
        elif tag == NARROW:
            is_group = bitpack.fits(data, count, frame_nbytes)
        else:
            is_group = _fits(data, tag == PLAIN, count, frame_nbytes, lengths, books)
        if not is_group:
            raise CorruptPayloadError(f"group {group} is not one of {count} frames of {frame_nbytes} bytes")


def _known_tags(tag: npt.NDArray[np.uint8], codecs: int) -> npt.NDArray[np.bool_]:
    """Returns which tags are those of a group, where there are so many codecs."""
    return np.asarray((tag >= RECORDS) & (tag < FIRST_PACKED + codecs) | (tag == NARROW))


def is_layout(layout: Layout, item_shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether items of this shape can be divided so."""
    if layout == Layout.unstacked(prod(item_shape) * itemsize):
        return True
    axis, width = layout.axis, layout.width
    if not (0 <= axis < len(item_shape) and 0 < width <= item_shape[axis] and item_shape[axis] % width == 0):
        return False
    return item_shape[axis] <= width * DEEPEST_STACK and layout == Layout.of(item_shape, itemsize, axis, width)


def _numbers_fit(export: FrameExport, numbers: RecordNumbers) -> bool:
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


def _stream_fits(
    codec: Zstd,
    data: npt.NDArray[np.uint8],
    unpacked: int,
    count: int,
    frame_nbytes: int,
    references: Numbers,
    books: Books,
) -> bool:
    """Whether bytes unpack to a group, seen record by record: together they may take much more memory than an item."""
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
            kind, size = head & (1 << KIND_BITS) - 1, head >> KIND_BITS
            body = stream.read(size) if size <= frame_nbytes + ROOM else b""
            if len(body) != size or (k == 0 and kind == SINCE_LAST):
                return False
            taken += size
            if kind == SINCE_LAST:
                kind, body = FROM_REFERENCE, b"\0" + body  # which are the same bounds
            record = np.frombuffer(_changes.varint(len(body) << KIND_BITS | kind) + body, np.uint8)
            if not _fits(record, False, 1, frame_nbytes, references, books):
                return False
        return taken == unpacked and not stream.read(1)


def _fits(
    data: npt.NDArray[np.uint8], plain: bool, count: int, frame_nbytes: int, references: Numbers, books: Books = ()
) -> bool:
    """Whether bytes are a group of `count` frames; by its kernel where there is one.

    `references` says how long each is, and `books` are those of them that are sound codebooks.
    """
    kernels = native("_stores.frames.kernels.groups")
    if kernels is not None:
        places = np.array([0 if book is None else book.ctypes.data for book in books], np.int64)
        return bool(kernels.group_fits(data.ctypes.data, data.size, plain, count, frame_nbytes, references, places))
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
            elif kind == ZSTD and not _is_sound(body, frame_nbytes, references, books):
                return False
            if (k == 0 and kind == SINCE_LAST) or (kind == RAW_FRAME and len(body) != frame_nbytes):
                return False
    except CorruptPayloadError:
        return False
    return sum(len(_changes.varint(len(body) << KIND_BITS)) + len(body) for _, body in records) == data.size


def _is_sound(body: npt.NDArray[np.uint8], frame_nbytes: int, references: Numbers, books: Books) -> bool:
    """Whether a record of zstd's, or by a codebook, is one that can be decoded here."""
    how, rest = residuals.split(body)
    if residuals.foretells(how) != residuals.BOOK:
        return residuals.is_sound(how, frame_nbytes, references.tolist())
    number = how >> residuals.NUMBER_AT
    book = books[number] if number < len(books) else None
    return book is not None and codebooks.fits(rest, book, frame_nbytes)
