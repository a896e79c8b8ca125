"""The engine of a store of frames without numba: what the kernels do, with numpy, and the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._heap import OFFSET_BITS
from compressed_array._runtime.types import Bytes, Words
from compressed_array._stores.frames.bitpack import unpack_rows
from compressed_array._stores.frames.engine import NO_NUMBERS
from compressed_array._stores.frames.groups import (
    BITPACKED,
    DEAD,
    FOLLOWING,
    FREE,
    FULL,
    ITEMS,
    LISTED,
    NEW,
    PLAIN_ROWS,
    RECORDS,
    SINCE_LAST,
    SLOTS,
    TAG_BITS,
)
from compressed_array._stores.frames.kernel_records import StructArray
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import Geometry, count_new, divided
from compressed_array._stores.frames.records import decode_frame, encode_frame, split_records
from compressed_array._stores.frames.settings import AS_ROWS, WriteSettings
from compressed_array._stores.frames.tables import FrameTables
from compressed_array._stores.protocol import RecordNumbers, Records, byte_rows


class NumpyEngine:
    """The engine that works on `FrameTables` by numpy, and does what the kernels do."""

    def __init__(self, frames: FrameTables) -> None:
        self._frames = frames

    def write(
        self,
        items: npt.NDArray[Any],
        geometry: Geometry,
        lane_of: Words,
        first: int,
        numbers: RecordNumbers,
        settings: WriteSettings,
    ) -> int:
        frames, layout = self._frames, settings.layout
        for i in range(first, len(items)):
            number = int(lane_of[i])
            lane, remembered = frames.lanes.table[number], frames.lanes.item(number)
            item = byte_rows(items[i : i + 1].copy(), 1)  # which another thread may change meanwhile
            stack = divided(item, layout)
            new = layout.depth
            follows = bool(lane["last"])
            if follows:
                new = count_new(stack, divided(byte_rows(remembered, 1), layout))
            if new:
                if lane["count"] + new > lane["capacity"] and lane["count"] + new < layout.depth:
                    new = layout.depth  # a failed write may leave a group that is too short to reach back into
                if not self._has_room(lane, new, settings):
                    return i
                fresh = stack[layout.depth - new :]
                last = frames.lanes.frames[number, : layout.frame_nbytes]
                self._append(number, fresh, self._encode(lane, fresh, last, settings))
                remembered[...] = item.view(remembered.dtype).reshape(remembered.shape)
                lane["last"] = (lane["group"] - 1) * SLOTS + lane["count"]
            frames.groups.counts[[ITEMS, FOLLOWING, NEW]] += (1, follows, follows * new)
            self.retain(np.array([lane["last"]], np.uint32))
            numbers[i] = lane["last"]
        return len(items)

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers = NO_NUMBERS,
        other_out: Records | None = None,
        layouts: StructArray | None = None,
    ) -> None:
        layouts = self._frames.layout_table if layouts is None else layouts
        for number, row in zip(numbers.tolist(), out, strict=True):
            self._read(number, row, layouts)
        if other_out is not None:
            self.read(others, other_out, layouts=layouts)

    def retain(self, numbers: RecordNumbers) -> None:
        self._frames.groups.add_uses(self._frames.needed(numbers))

    def release(self, numbers: RecordNumbers, first: int) -> int:
        groups = self._frames.groups
        some = numbers[first : first + (LISTED - int(groups.counts[DEAD])) // 2]
        needed = self._frames.needed(some)
        uses = groups.table["uses"]
        np.subtract.at(uses, needed, np.uint32(1))
        # In the order in which the kernel finds them dead: by the last number that needed them, the group before last.
        written = some[some != 0]
        last = np.append(np.arange(len(written)), np.flatnonzero(self._frames.reaches_back(written)))
        needed = needed[np.lexsort((np.arange(len(needed)) >= len(written), last))][::-1]
        touched = needed[np.sort(np.unique(needed, return_index=True)[1])[::-1]]
        groups.list_dead(touched[uses[touched] == 0])
        return first + len(some)

    def _has_room(self, lane: np.void, new: int, settings: WriteSettings) -> bool:
        """Whether a lane's group has room for `new` frames, or a new group does, which is then opened."""
        if lane["group"] and lane["count"] + new <= lane["capacity"]:
            return True
        groups, most = self._frames.groups, settings.capacity * (settings.layout.frame_nbytes + ROOM)
        if not groups.counts[FREE] or max(groups.counts[DEAD], groups.counts[FULL]) >= LISTED:
            return False
        if lane["size"] - lane["used"] < most:
            return False
        self._open(lane, settings)
        return True

    def _open(self, lane: np.void, settings: WriteSettings) -> None:
        groups = self._frames.groups
        group, last = groups.take_free(), int(lane["group"])
        if last:
            before = int(groups.table["before"][last - 1]) - 1
            if before >= 0 and groups.drop_use(before):
                groups.list_dead(np.array([before]))
            groups.list_full(np.array([last - 1]))
        tag = PLAIN_ROWS if settings.mode == AS_ROWS else RECORDS
        where = tag << TAG_BITS | int(lane["segment"]) << OFFSET_BITS | int(lane["used"])
        entry = groups.table[group]  # a view of it
        entry["where"], entry["size"], entry["before"] = where, 0, last
        entry["uses"], entry["count"], entry["layout"] = 1, 0, settings.layout_number
        lane["group"], lane["count"] = group + 1, 0
        lane["capacity"], lane["mode"] = settings.capacity, settings.mode

    def _encode(self, lane: np.void, stack: Bytes, last: Bytes, settings: WriteSettings) -> list[bytes]:
        """Returns the records of frames that come next in a lane's group."""
        if lane["mode"] == AS_ROWS:
            return [frame.tobytes() for frame in stack]
        before: list[Bytes | None] = [last if lane["count"] else None, *stack[:-1]]
        mode, references = int(lane["mode"]), self._frames.references
        return [encode_frame(f, b, mode, settings, references) for f, b in zip(stack, before, strict=True)]

    def _append(self, number: int, stack: npt.NDArray[np.uint8], records: list[bytes]) -> None:
        """Adds frames to a lane's group. What may run out of memory comes first."""
        lane, table = self._frames.lanes.table[number], self._frames.groups.table
        data = np.frombuffer(b"".join(records), np.uint8)
        used, segment, group = int(lane["used"]), int(lane["segment"]), int(lane["group"]) - 1
        self._frames.heap.segment(segment)[used : used + data.size] = data
        if lane["mode"] != AS_ROWS:
            self._frames.lanes.frames[number, : stack.shape[1]] = stack[-1]
        lane["used"] += data.size
        lane["count"] += len(records)
        table["size"][group] += data.size
        table["count"][group] = lane["count"]
        heap = self._frames.heap
        heap.used[segment] += data.size
        heap.live[segment] += data.size

    def _read(self, number: int, row: Bytes, layouts: StructArray) -> None:
        if not number:
            row[...] = 0
            return
        group, slot = (number - 1) // SLOTS, (number - 1) % SLOTS
        entry = self._frames.groups.table[group]
        layout = layouts[entry["layout"]]
        depth, outer, inner = int(layout["depth"]), int(layout["outer"]), int(layout["inner"])
        low = slot - depth + 1
        stack = row.reshape(outer, depth, inner).swapaxes(0, 1)
        if low < 0:
            before = int(entry["before"]) - 1
            count = int(self._frames.groups.table["count"][before])
            self._walk(before, count + low, stack[:-low])
        self._walk(group, max(low, 0), stack[max(-low, 0) :])

    def _walk(self, group: int, first: int, out: npt.NDArray[np.uint8]) -> None:
        """Decodes a group's frames from `first` on, as many as `out` has."""
        frames, entry = self._frames, self._frames.groups.table[group]
        where, nbytes = int(entry["where"]), out[0].size
        data = frames.group_bytes(where)
        if where >> TAG_BITS == PLAIN_ROWS:
            rows = data[first * nbytes : (first + len(out)) * nbytes]
            out[...] = rows.reshape(out.shape)
            return
        if where >> TAG_BITS == BITPACKED:
            out[...] = unpack_rows(data, first, len(out), nbytes).reshape(out.shape)
            return
        records = split_records(data, first + len(out))
        start = max(k for k in range(first + 1) if records[k][0] != SINCE_LAST)
        frame = np.empty(nbytes, np.uint8)
        for k in range(start, first + len(out)):
            decode_frame(*records[k], frame, frames.references, frames.decoder)
            if k >= first:
                out[k - first] = frame.reshape(out.shape[1:])
