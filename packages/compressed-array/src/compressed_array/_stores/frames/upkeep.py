"""`Upkeep`: what becomes of groups once they are full or dead, and where lanes get memory for new ones.

A full group is looked at, narrowed where its frames are small, else packed by a codec where there is one, and moved
when little else lives where it is. A dead one is given back when no reader is left that may know it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import numpy as np
import numpy.typing as npt

from compressed_array import _heap
from compressed_array._heap import OFFSET_BITS
from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.memory import return_free_memory
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Words
from compressed_array._stores.frames.bitpack import narrow, word_of
from compressed_array._stores.frames.dictionaries import Packing
from compressed_array._stores.frames.engine import Engine
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    DEAD,
    FIRST_PACKED,
    FREE,
    FULL,
    MANY,
    NARROW,
    PLAIN,
    RECORDS,
    SLOTS,
    TAG_BITS,
)
from compressed_array._stores.frames.lanes import ROOM, ROWS
from compressed_array._stores.frames.policy import WritePolicy
from compressed_array._stores.frames.records import encode_frame
from compressed_array._stores.frames.tables import Frames
from compressed_array.codecs.delta import encode_changes

_NO_GROUPS: Words = np.empty(0, np.int64)
MOST_PACKED_ANEW = 32 * 1024 * 1024  # bytes, unpacked: some write has to wait for it


class Upkeep:
    """Keeps the groups of one store. All of it is the writer's to do."""

    def __init__(self, frames: Frames, epochs: Epochs, policy: WritePolicy) -> None:
        self._frames, self._epochs, self._policy = frames, epochs, policy
        self._narrows = True  # whether rows got smaller by it, the last time
        self._repacked_by = 0  # the last codec that groups of earlier ones were packed by

    def resume(self) -> None:
        """Go on with the groups that a restored store came with."""
        self._repacked_by = self._policy.last_codec

    def make_room(self, lane: int, engine: Engine) -> None:
        """Make sure that the next item of a lane can be written."""
        frames, settings = self._frames, self._policy.settings
        # Lanes of small frames need memory often, and there is little to be had from tidying up.
        is_small = settings.is_small
        if not is_small or frames.groups.counts[DEAD] >= MANY:
            self.reclaim_dead()
        if not is_small or frames.groups.counts[FULL] >= settings.many_full:
            self.process_full(engine)
            settings = self._policy.settings
        if not frames.groups.counts[FREE]:
            frames.groups.grow()
        written = frames.lanes.table[lane]  # a view of it
        most = settings.capacity * (settings.layout.frame_nbytes + ROOM)
        if written["size"] - written["used"] < most:
            # Segments grow with the heap, as its own do; room for a group that does not shrink is always left over.
            # Groups that are packed or narrowed do not stay here, so there a few pages will do.
            leave = self._narrows and settings.capacity > 1 if is_small else self._policy.packing is not None
            if leave:
                segment = frames.heap.reserve(most, most + _heap.SMALLEST_SEGMENT // 16, fresh=not is_small)
            else:
                wanted = int(frames.heap.tables()[1].sum()) // (16 * len(frames.lanes.table))
                usual = min(max(wanted, most, _heap.SMALLEST_SEGMENT // 4), _heap.LARGEST_SEGMENT)
                segment = frames.heap.reserve(most, most + usual)
            memory, old, had = frames.heap.segment(segment), int(written["segment"]), bool(written["size"])
            written["capacity"] = 0  # first: nothing may be added to a group whose segment is no longer the lane's
            written["segment"], written["buffer"] = segment, memory.ctypes.data
            written["used"], written["size"] = 0, memory.size
            if had:
                frames.heap.give_back(old)

    def process_full(self, engine: Engine, others: Words = _NO_GROUPS) -> None:
        """Do what is due for groups that are full, and for `others`: look at them, pack them, tidy up elsewhere."""
        groups = np.append(self._frames.groups.take_full(), others)
        if not len(groups):
            return
        packed = self._policy.packing is not None
        has_changed = self._policy.observe(groups, engine)
        if self._policy.packing is not None and not packed:
            # What lanes write next will be packed and leave segments that were made to stay.
            self._close_segments()
        self.narrow(groups)
        if has_changed:
            self._write_anew(groups, engine)
        packing = self._policy.packing
        if packing is not None:
            self.pack(groups, packing.codec)
            if packing.codec != self._repacked_by:
                self._repacked_by = packing.codec
                self._pack_anew(packing)
        self._policy.stored(groups)
        self._move_garbage(int(self._frames.groups.table["size"][groups].sum()))

    def pack(self, groups: Words, codec: int, *, anew: bool = False) -> int:
        """Put groups through a codec, where that makes them smaller. Returns how many bytes they are unpacked.

        Anew, those that are smaller than unpacked, so that nothing is left that needs the codec they went through.
        """
        table = self._frames.groups.table
        tags = table["where"][groups] >> TAG_BITS
        groups = groups[(tags != PLAIN) & (tags != NARROW) & (table["references"][groups] > 0)]
        if not len(groups):
            return 0
        entries = table[groups][["where", "size"]].tolist()
        plain = Payloads.from_parts([self._unpacked(where, size) for where, size in entries])
        payloads = self._frames.codecs[codec].encode_parts(plain)
        smaller = np.flatnonzero(payloads.size < (plain.size if anew else table["size"][groups]))
        if len(smaller):
            tag = (FIRST_PACKED + codec) << TAG_BITS
            self._move(groups[smaller], payloads.select(smaller), np.full(len(smaller), tag))
        return int(plain.size.sum())

    def _write_anew(self, groups: Words, engine: Engine) -> None:
        """Write groups that were just filled as the next ones will be, since a short stream may have few more."""
        references, table, settings = self._frames.references, self._frames.groups.table, self._policy.settings
        entries = table[groups]
        like = (entries["references"] > 0) & (entries["layout"] == settings.layout_number)
        groups = groups[like & (entries["where"] >> TAG_BITS == RECORDS)] if settings.mode != ROWS else groups[:0]
        if not len(groups):
            return
        parts = []
        for group, count in zip(groups.tolist(), table["count"][groups].tolist(), strict=True):
            stack = self._policy.decode(engine, group * SLOTS + 1 + np.arange(count))
            pairs, way = zip(stack, [None, *stack[:-1]], strict=True), (settings.mode, settings, references)
            records = b"".join(encode_frame(frame, last, *way, encode_changes) for frame, last in pairs)
            parts.append(np.frombuffer(records, np.uint8))
        payloads = Payloads.from_parts(parts)
        smaller = np.flatnonzero(payloads.size < table["size"][groups])
        if self._policy.packing is not None:
            smaller = np.arange(len(groups))
        if len(smaller):
            self._move(groups[smaller], payloads.select(smaller), np.full(len(smaller), RECORDS << TAG_BITS))
        self._close_segments()

    def _close_segments(self) -> None:
        """Have lanes write their next groups to other segments, so that these are soon free."""
        lanes = self._frames.lanes.table
        lanes["size"] = np.minimum(lanes["size"], np.maximum(lanes["used"], 1))  # with a size of 0 they are nowhere

    def narrow(self, groups: Words) -> None:
        """Write the rows of groups of small frames, of the present layout, in fewer bits where that is smaller."""
        frames, settings = self._frames, self._policy.settings
        if not settings.is_small or not len(groups):
            return
        entries = frames.groups.table[groups]
        plain = (entries["where"] >> TAG_BITS == PLAIN) & (entries["references"] > 0)
        plain &= (entries["layout"] == settings.layout_number) & (entries["count"] > 1)
        groups, entries = groups[plain], entries[plain]
        if not len(groups):
            return
        size = entries["size"].astype(np.int64)
        rows = frames.heap.payloads(entries["where"] & ADDRESS_MASK, size)
        payloads = narrow(rows, settings.layout.frame_nbytes, word_of(frames.itemsize))
        smaller = np.flatnonzero(payloads.size < size)
        self._narrows = 2 * len(smaller) > len(groups)
        if len(smaller):
            self._move(groups[smaller], payloads.select(smaller), np.full(len(smaller), NARROW << TAG_BITS))

    def _pack_anew(self, packing: Packing) -> None:
        """Put what earlier codecs packed through a new one, as far as a write can wait for that."""
        codec, left = packing.codec, MOST_PACKED_ANEW
        self.reclaim_dead()  # or they would seem to need their dictionary
        for earlier in range(codec):
            for group in self._packed_by(earlier):  # one by one, since all of them unpacked may take a lot of memory
                left -= self.pack(np.array([group]), codec, anew=True) if left > 0 else 0
            self._frames.codecs[earlier].stop_compressing()
            if not len(self._packed_by(earlier)):
                self._epochs.retire(partial(packing.drop_dictionary, earlier))
        self._move_garbage(MOST_PACKED_ANEW, thoroughly=True)
        self._epochs.collect()
        return_free_memory()  # learning took more of it than many an array does

    def _unpacked(self, where: int, size: int) -> npt.NDArray[np.uint8]:
        data = self._frames.group_bytes(where)
        return data if FIRST_PACKED <= where >> TAG_BITS < NARROW else data[:size]

    def _packed_by(self, codec: int) -> Words:
        return np.flatnonzero(self._frames.groups.table["where"] >> TAG_BITS == FIRST_PACKED + codec)

    def _move(self, groups: Words, payloads: Payloads, tags: Words) -> None:
        """Put groups to another place as other bytes; the old place is free when no reader is left there."""
        heap, table = self._frames.heap, self._frames.groups.table
        address, size = table["where"][groups] & ADDRESS_MASK, table["size"][groups].astype(np.int64)
        # Readers look at the place, in which all is said; the size is the writer's.
        table["where"][groups] = heap.append(payloads) | tags
        table["size"][groups] = payloads.size
        self._epochs.retire(partial(heap.free, address, size))
        self._epochs.collect()

    def close_lanes(self) -> None:
        """Give up what the lanes hold, and where they write to. They have to start over."""
        frames, groups = self._frames, self.open_groups().tolist()
        lanes = frames.lanes.table
        segments = lanes["segment"][lanes["size"] > 0].tolist()
        # First, and all at once: what is given up twice because of an interrupt would be lost to others who need it.
        lanes[["last", "group", "capacity", "size"]] = 0
        for group in groups:
            self._let_go(int(frames.groups.table["before"][group]) - 1)
            self._let_go(group)
        for segment in segments:
            frames.heap.give_back(segment)

    def open_groups(self) -> Words:
        """Returns the groups that lanes add to."""
        groups = self._frames.lanes.table["group"]
        return groups[groups > 0] - 1

    def _let_go(self, group: int) -> None:
        """Give up a lane's own reference to a group."""
        if group >= 0:
            references = self._frames.groups.table["references"]
            references[group] -= 1
            if not references[group]:
                self._give_up(np.array([group]))

    def reclaim_dead(self) -> None:
        self._give_up(self._frames.groups.take_dead())

    def _give_up(self, groups: Words) -> None:
        if len(groups):
            self._epochs.retire(partial(self._forget, groups))
            self._epochs.collect()

    def _forget(self, groups: Words) -> None:
        entries = self._frames.groups.table[groups]
        self._frames.groups.forget(groups)  # first: what is free must not be found, moved and freed again
        self._frames.heap.free(entries["where"] & ADDRESS_MASK, entries["size"].astype(np.int64))

    def _move_garbage(self, written: int, *, thoroughly: bool = False) -> None:
        """Rewrite sparse segments: about twice the bytes that were just written, so that no write takes long."""
        moved, heap = 0, self._frames.heap
        with suppress(MemoryError):  # where there is no room to tidy up, garbage stays garbage
            while moved <= 2 * written and (segment := heap.take_sparse_segment(thoroughly=thoroughly)) is not None:
                moved += self._rewrite(segment)

    def _rewrite(self, segment: int) -> int:
        heap, table = self._frames.heap, self._frames.groups.table
        groups = self._frames.groups.in_segment(segment, OFFSET_BITS)
        where, size = table["where"][groups], table["size"][groups].astype(np.int64)
        self._move(groups, heap.payloads(where & ADDRESS_MASK, size), where & ~ADDRESS_MASK)
        return int(size.sum())
