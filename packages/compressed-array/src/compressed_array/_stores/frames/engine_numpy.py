"""The engine of a store of frames without numba: what the kernels do, with numpy, and the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._heap import OFFSET_BITS, OFFSET_MASK
from compressed_array._runtime.types import Bytes, Words
from compressed_array._stores.frames import codebooks, residuals
from compressed_array._stores.frames.bitpack import widened
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    DEAD,
    FIRST_CODEC,
    FOLLOWING,
    FREE,
    FROM_REFERENCE,
    FULL,
    ITEMS,
    KIND_BITS,
    LISTED,
    NARROW,
    NEW,
    PLAIN,
    RAW,
    RECORDS,
    SINCE_LAST,
    SLOTS,
    TAG_BITS,
    ZSTD,
)
from compressed_array._stores.frames.lanes import (
    CAPACITY,
    COUNT,
    DELTA,
    ENOUGH,
    GROUP_OF,
    INTRA,
    LAST,
    MODE,
    ROOM,
    ROWS,
    SEGMENT,
    SIZE,
    USED,
)
from compressed_array._stores.frames.layouts import Geometry, Layout
from compressed_array._stores.frames.tables import Frames
from compressed_array._stores.protocol import RecordNumbers, Records, byte_rows
from compressed_array.codecs import _changes
from compressed_array.errors import CodecUnavailableError, CorruptPayloadError


class NumpyEngine:
    """`NativeEngine`, in numpy."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def write(
        self, items: npt.NDArray[Any], geometry: Geometry, lane_of: Words, first: int, numbers: RecordNumbers
    ) -> int:
        """Write items from number `first` on, up to one whose lane needs a new group; returns how many are done."""
        frames = self._frames
        for i in range(first, len(items)):
            lane = int(lane_of[i])
            words, remembered = frames.lanes.words[lane], frames.lanes.item(lane)
            item = byte_rows(items[i : i + 1].copy(), 1)  # which another thread may change meanwhile
            stack = divided(item, frames.layout)
            new = frames.layout.depth
            follows = bool(words[LAST])
            if follows:
                new = shift(stack, divided(byte_rows(remembered, 1), frames.layout))
            if new:
                if words[COUNT] + new > words[CAPACITY] and words[COUNT] + new < frames.layout.depth:
                    new = frames.layout.depth  # a failed write may leave a group that is too short to reach back into
                if not self._has_room(words, new):
                    return i
                fresh = stack[frames.layout.depth - new :]
                self._append(lane, fresh, self._encode(words, fresh, frames.lanes.frames[lane]))
                remembered[...] = item.view(remembered.dtype).reshape(remembered.shape)
                words[LAST] = (words[GROUP_OF] - 1) * SLOTS + words[COUNT]
            frames.groups.counts[[ITEMS, FOLLOWING, NEW]] += (1, follows, follows * new)
            self.retain(words[LAST : LAST + 1].astype(np.uint32))
            numbers[i] = words[LAST]
        return len(items)

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers | None = None,
        other_out: Records | None = None,
        layouts: Words | None = None,
    ) -> None:
        """Fill row i of `out` with item `numbers[i]`, and of `other_out`, if there is one, with item `others[i]`.

        There are as many others, or as many as `numbers` has equal parts.
        """
        words = self._frames.layout_words if layouts is None else layouts
        for number, row in zip(numbers.tolist(), out, strict=True):
            self._read(number, row, words)
        if others is not None and other_out is not None:
            self.read(others, other_out)

    def retain(self, numbers: RecordNumbers) -> None:
        """Take one more reference for each number."""
        np.add.at(self._frames.groups.table["references"], self._frames.needed(numbers), np.uint32(1))

    def release(self, numbers: RecordNumbers, first: int) -> int:
        """Give up a reference for each number from `first` on, until the list of the dead is full; says how many."""
        groups = self._frames.groups
        some = numbers[first : first + (LISTED - int(groups.counts[DEAD])) // 2]
        needed = self._frames.needed(some)
        references = groups.table["references"]
        np.subtract.at(references, needed, np.uint32(1))
        # In the order in which the kernel finds them dead: by the last number that needed them, the group before last.
        written = some[some != 0]
        last = np.append(np.arange(len(written)), np.flatnonzero(self._frames.reaches_back(written)))
        needed = needed[np.lexsort((np.arange(len(needed)) >= len(written), last))][::-1]
        touched = needed[np.sort(np.unique(needed, return_index=True)[1])[::-1]]
        self._list(touched[references[touched] == 0], groups.dead, DEAD)
        return first + len(some)

    def _list(self, groups: Words, listed: Words, which: int) -> None:
        counts = self._frames.groups.counts
        listed[counts[which] : counts[which] + len(groups)] = groups
        counts[which] += len(groups)

    def _has_room(self, words: Words, new: int) -> bool:
        """Whether the lane's group takes so many frames more; opens a new one for them if it does not."""
        if words[GROUP_OF] and words[COUNT] + new <= words[CAPACITY]:
            return True
        frames, groups = self._frames, self._frames.groups
        most = frames.capacity * (frames.layout.frame_nbytes + ROOM)
        if not groups.counts[FREE] or max(groups.counts[DEAD], groups.counts[FULL]) >= LISTED:
            return False
        if words[SIZE] - words[USED] < most:
            return False
        self._open(words)
        return True

    def _open(self, words: Words) -> None:
        frames, groups = self._frames, self._frames.groups
        groups.counts[FREE] -= 1
        group, last = int(groups.free[groups.counts[FREE]]), int(words[GROUP_OF])
        if last:
            before = int(groups.table["before"][last - 1]) - 1
            if before >= 0:
                groups.table["references"][before] -= 1
                if not groups.table["references"][before]:
                    self._list(np.array([before]), groups.dead, DEAD)
            self._list(np.array([last - 1]), groups.full, FULL)
        tag = PLAIN if frames.mode == ROWS else RECORDS
        where = tag << TAG_BITS | int(words[SEGMENT]) << OFFSET_BITS | int(words[USED])
        groups.table[group] = (where, 0, last, 1, 0, frames.layout_number)
        words[GROUP_OF], words[COUNT], words[CAPACITY], words[MODE] = group + 1, 0, frames.capacity, frames.mode

    def _encode(self, words: Words, stack: npt.NDArray[np.uint8], last: Bytes) -> list[bytes]:
        """The records of frames that come next in a lane's group."""
        if words[MODE] == ROWS:
            return [frame.tobytes() for frame in stack]
        before: list[Bytes | None] = [last if words[COUNT] else None, *stack[:-1]]
        return [encode_frame(self._frames, f, b, int(words[MODE])) for f, b in zip(stack, before, strict=True)]

    def _append(self, lane: int, stack: npt.NDArray[np.uint8], records: list[bytes]) -> None:
        """Add frames to a lane's group. All that may fail for want of memory comes first."""
        words, table = self._frames.lanes.words[lane], self._frames.groups.table
        data = np.frombuffer(b"".join(records), np.uint8)
        used, segment, group = int(words[USED]), int(words[SEGMENT]), int(words[GROUP_OF]) - 1
        self._frames.heap.segment(segment)[used : used + data.size] = data
        if words[MODE] != ROWS:
            self._frames.lanes.frames[lane] = stack[-1]
        words[USED] += data.size
        words[COUNT] += len(records)
        table["size"][group] += data.size
        table["count"][group] = words[COUNT]
        for counted in self._frames.heap.tables()[1:]:
            counted[segment] += data.size

    def _read(self, number: int, row: Bytes, layouts: Words) -> None:
        if not number:
            row[...] = 0
            return
        group, slot = (number - 1) // SLOTS, (number - 1) % SLOTS
        entry = self._frames.groups.table[group]
        depth, outer, inner = layouts[entry["layout"]].tolist()
        low = slot - depth + 1
        stack = row.reshape(outer, depth, inner).swapaxes(0, 1)
        if low < 0:
            before = int(entry["before"]) - 1
            count = int(self._frames.groups.table["count"][before])
            self._walk(before, count + low, stack[:-low])
        self._walk(group, max(low, 0), stack[max(-low, 0) :])

    def _walk(self, group: int, first: int, out: npt.NDArray[np.uint8]) -> None:
        """Decode a group's frames from `first` on to the frames of `out`."""
        frames, entry = self._frames, self._frames.groups.table[group]
        where, nbytes = int(entry["where"]), out[0].size
        data = group_bytes(frames, where)
        if where >> TAG_BITS == PLAIN:
            rows = data[first * nbytes : (first + len(out)) * nbytes]
            out[...] = rows.reshape(out.shape)
            return
        if where >> TAG_BITS == NARROW:
            out[...] = widened(data, first, len(out), nbytes).reshape(out.shape)
            return
        records = split_records(data, first + len(out))
        start = max(k for k in range(first + 1) if records[k][0] != SINCE_LAST)
        frame = np.empty(nbytes, np.uint8)
        for k in range(start, first + len(out)):
            decode_frame(frames, *records[k], frame)
            if k >= first:
                out[k - first] = frame.reshape(out.shape[1:])


def divided(item: npt.NDArray[Any], layout: Layout) -> npt.NDArray[np.uint8]:
    """The frames of an item in C order, one a row."""
    data = item.reshape(-1).view(np.uint8).reshape(layout.outer, layout.depth, layout.inner)
    return data.swapaxes(0, 1).reshape(layout.depth, layout.frame_nbytes)


def shift(stack: npt.NDArray[np.uint8], before: npt.NDArray[np.uint8]) -> int:
    """How many frames of a stack are new to one that comes after another."""
    depth = len(stack)
    return next((new for new in range(depth) if np.array_equal(stack[: depth - new], before[new:])), depth)


def encode_frame(
    frames: Frames,
    frame: Bytes,
    last: Bytes | None,
    mode: int,
    changes: Callable[[Bytes, Bytes], bytes] = _changes.encode,
) -> bytes:
    """The smallest record for a frame; `last` is the frame before it, if the group has one."""
    kind, best = RAW, frame.tobytes()
    if mode == DELTA:
        if last is not None:
            found = changes(frame, last)
            if len(found) < len(best):
                kind, best = SINCE_LAST, found
        for base in dict.fromkeys((frames.reference, 0)):
            if len(best) * ENOUGH <= frame.size:
                break
            found = bytes([base]) + changes(frame, frames.references[base][: frame.size])
            if len(found) < len(best):
                kind, best = FROM_REFERENCE, found
    if len(best) > 1 and (mode == INTRA or len(best) > frames.worth_zstd):
        how = frames.foretold
        if residuals.foretells(how) == residuals.BOOK:
            coded = codebooks.encode(frame, frames.references[how >> residuals.NUMBER_AT])
            if coded is not None and len(residuals.head(how)) + len(coded) < len(best):
                record = residuals.head(how) + coded
                return _changes.varint(len(record) << KIND_BITS | ZSTD) + record
            how = residuals.PLAIN
        if frames.intra is not None:
            left = frame if how == residuals.PLAIN else residuals.taken(frame, how, frames.references)
            found = residuals.head(how) + bytes(frames.intra.encode(left))
            if len(found) < len(best):
                kind, best = ZSTD, found
    return _changes.varint(len(best) << KIND_BITS | kind) + best


def group_bytes(frames: Frames, where: int) -> Bytes:
    """The records of a group, unpacked if a codec had packed them; if not, whatever is behind them as well."""
    start, tag = where & ADDRESS_MASK & OFFSET_MASK, where >> TAG_BITS
    data = frames.heap.segment((where & ADDRESS_MASK) >> OFFSET_BITS)[start:]
    return frames.codecs[tag - FIRST_CODEC].decode_part(data) if FIRST_CODEC <= tag < NARROW else data


def split_records(data: Bytes, count: int) -> list[tuple[int, Bytes]]:
    """Kind and body of the first `count` records."""
    records, at = [], 0
    for _ in range(count):
        head, at = _head(data, at)
        length = head >> KIND_BITS
        if at + length > data.size:
            raise CorruptPayloadError("a record does not end where its group does")
        records.append((head & ((1 << KIND_BITS) - 1), data[at : at + length]))
        at += length
    return records


def _head(data: Bytes, at: int) -> tuple[int, int]:
    head, size = _changes.read_varint(data[at : at + 5].tobytes(), 0)
    return head, at + size


def decode_frame(frames: Frames, kind: int, body: Bytes, frame: Bytes) -> None:
    """Turn the frame before into the one that a record holds."""
    if kind == SINCE_LAST:
        _changes.apply(body, frame)
    elif kind == FROM_REFERENCE:
        frame[...] = frames.references[int(body[0])][: frame.size]
        _changes.apply(body[1:], frame)
    elif kind == RAW:
        frame[...] = body
    else:
        how, payload = residuals.split(body)
        if residuals.foretells(how) == residuals.BOOK:
            codebooks.decode(payload, frames.references[how >> residuals.NUMBER_AT], frame)
            return
        if frames.decoder is None:
            raise CodecUnavailableError("zstd", "zstd")
        left = frame if how == residuals.PLAIN else np.empty_like(frame)
        frames.decoder.decode(payload, out=left)
        if how != residuals.PLAIN:
            residuals.put_back(left, how, frames.references, frame)
