"""`Upkeep`: what becomes of groups once they are full or dead, and where lanes get memory for new ones.

A full group is shown to the policy, packed by bits where its frames are small, else packed by a codec where there is
one, and moved when little else lives in its segment. A group is dead when nothing uses it any more: an engine finds
that and lists it for `reclaim_dead`, or `close_lanes` does. `_free_groups` frees it when no reader is left that may
know it.
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
from compressed_array._stores.frames.bitpack import bitpack_groups, word_of
from compressed_array._stores.frames.dictionaries import Packing
from compressed_array._stores.frames.engine import Engine
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    BITPACKED,
    DEAD,
    FIRST_PACKED,
    FREE,
    FULL,
    GROUPS_AT_ONCE,
    PLAIN_ROWS,
    RECORDS,
    SLOTS,
    TAG_BITS,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.policy import WritePolicy
from compressed_array._stores.frames.records import encode_frame
from compressed_array._stores.frames.settings import AS_ROWS
from compressed_array._stores.frames.tables import FrameTables
from compressed_array.codecs.delta import encode_changes

_NO_GROUPS: Words = np.empty(0, np.int64)
MOST_REPACKED = 32 * 1024 * 1024  # bytes, unpacked: some write has to wait for it


class Upkeep:
    """Keeps the groups of one store. Only a thread that holds `epochs.writing` calls it."""

    def __init__(self, frames: FrameTables, epochs: Epochs, policy: WritePolicy) -> None:
        self._frames, self._epochs, self._policy = frames, epochs, policy
        self._bitpacking_helps = True  # whether rows got smaller by it, the last time
        self._repacked_by = 0  # the last codec that groups of earlier ones were packed by

    def resume(self) -> None:
        """Goes on with the groups that a restored store came with."""
        self._repacked_by = self._policy.last_codec

    def make_room(self, lane: int, engine: Engine) -> None:
        """Makes sure that the next item of a lane can be written."""
        frames, settings = self._frames, self._policy.settings
        # Lanes of small frames need memory often, and there is little to be had from tidying up.
        is_small = settings.is_small
        if not is_small or frames.groups.counts[DEAD] >= GROUPS_AT_ONCE:
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
            # Groups that are packed do not stay here, so there a few pages will do.
            leave = self._bitpacking_helps and settings.capacity > 1 if is_small else self._policy.packing is not None
            if leave:
                segment = frames.heap.reserve(most, most + _heap.SMALLEST_SEGMENT // 16, fresh=not is_small)
            else:
                wanted = int(frames.heap.used.sum()) // (16 * len(frames.lanes.table))
                usual = min(max(wanted, most, _heap.SMALLEST_SEGMENT // 4), _heap.LARGEST_SEGMENT)
                segment = frames.heap.reserve(most, most + usual)
            old, had = int(written["segment"]), bool(written["size"])
            frames.lanes.use_segment(lane, segment, frames.heap.segment(segment))
            if had:
                frames.heap.end_reservation(old)

    def process_full(self, engine: Engine, others: Words = _NO_GROUPS) -> None:
        """Processes full groups, and `others`: shows them to the policy, packs them, and rewrites sparse segments."""
        groups = np.append(self._frames.groups.take_full(), others)
        if not len(groups):
            return
        packed = self._policy.packing is not None
        has_changed = self._policy.observe(groups, engine)
        if self._policy.packing is not None and not packed:
            # What lanes write next will be packed and leave segments that were made to stay.
            self._frames.lanes.use_new_segments()
        self.bitpack(groups)
        if has_changed:
            self._encode_again(groups, engine)
        packing = self._policy.packing
        if packing is not None:
            self.pack(groups, packing.codec)
            if packing.codec != self._repacked_by:
                self._repacked_by = packing.codec
                self._repack(packing)
        self._policy.note_stored(groups)
        self._move_garbage(int(self._frames.groups.table["size"][groups].sum()))

    def pack(self, groups: Words, codec: int, *, again: bool = False) -> int:
        """Packs groups by a codec, where that makes them smaller. Returns how many bytes they are unpacked.

        With `again`, where that makes them smaller than unpacked, so that none needs the codec that packed them before.
        """
        table = self._frames.groups.table
        tags = table["where"][groups] >> TAG_BITS
        groups = groups[(tags != PLAIN_ROWS) & (tags != BITPACKED) & (table["uses"][groups] > 0)]
        if not len(groups):
            return 0
        entries = table[groups][["where", "size"]].tolist()
        plain = Payloads.from_parts([self._unpacked(where, size) for where, size in entries])
        payloads = self._frames.codecs[codec].encode_parts(plain)
        smaller = np.flatnonzero(payloads.size < (plain.size if again else table["size"][groups]))
        if len(smaller):
            tag = (FIRST_PACKED + codec) << TAG_BITS
            self._move(groups[smaller], payloads.select(smaller), np.full(len(smaller), tag))
        return int(plain.size.sum())

    def _encode_again(self, groups: Words, engine: Engine) -> None:
        """Writes groups that were just filled as the next ones will be, since a short stream may have few more."""
        references, table, settings = self._frames.references, self._frames.groups.table, self._policy.settings
        entries = table[groups]
        like = (entries["uses"] > 0) & (entries["layout"] == settings.layout_number)
        groups = groups[like & (entries["where"] >> TAG_BITS == RECORDS)] if settings.mode != AS_ROWS else groups[:0]
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
        self._frames.lanes.use_new_segments()

    def bitpack(self, groups: Words) -> None:
        """Writes the rows of groups of small frames, of the present layout, in fewer bits where that is smaller."""
        frames, settings = self._frames, self._policy.settings
        if not settings.is_small or not len(groups):
            return
        entries = frames.groups.table[groups]
        plain = (entries["where"] >> TAG_BITS == PLAIN_ROWS) & (entries["uses"] > 0)
        plain &= (entries["layout"] == settings.layout_number) & (entries["count"] > 1)
        groups, entries = groups[plain], entries[plain]
        if not len(groups):
            return
        size = entries["size"].astype(np.int64)
        rows = frames.heap.payloads(entries["where"] & ADDRESS_MASK, size)
        payloads = bitpack_groups(rows, settings.layout.frame_nbytes, word_of(frames.itemsize))
        smaller = np.flatnonzero(payloads.size < size)
        self._bitpacking_helps = 2 * len(smaller) > len(groups)
        if len(smaller):
            self._move(groups[smaller], payloads.select(smaller), np.full(len(smaller), BITPACKED << TAG_BITS))

    def _repack(self, packing: Packing) -> None:
        """Packs by a new codec what earlier ones packed, as much as a write can wait for."""
        codec, left = packing.codec, MOST_REPACKED
        self.reclaim_dead()  # or they would seem to need their dictionary
        for earlier in range(codec):
            for group in self._packed_by(earlier):  # one by one, since all of them unpacked may take a lot of memory
                left -= self.pack(np.array([group]), codec, again=True) if left > 0 else 0
            self._frames.codecs[earlier].stop_compressing()
            if not len(self._packed_by(earlier)):
                self._epochs.retire(partial(self._frames.drop_dictionary, earlier))
        self._move_garbage(MOST_REPACKED, thoroughly=True)
        self._epochs.collect()
        return_free_memory()  # learning needs more memory than many arrays

    def _unpacked(self, where: int, size: int) -> npt.NDArray[np.uint8]:
        data = self._frames.group_bytes(where)
        return data if FIRST_PACKED <= where >> TAG_BITS < BITPACKED else data[:size]

    def _packed_by(self, codec: int) -> Words:
        return np.flatnonzero(self._frames.groups.table["where"] >> TAG_BITS == FIRST_PACKED + codec)

    def _move(self, groups: Words, payloads: Payloads, tags: Words) -> None:
        """Moves groups to another place, as other bytes. The old place is freed when no reader is left there."""
        heap, table = self._frames.heap, self._frames.groups.table
        address, size = table["where"][groups] & ADDRESS_MASK, table["size"][groups].astype(np.int64)
        self._frames.groups.move(groups, heap.append(payloads) | tags, payloads.size)
        self._epochs.retire(partial(heap.free, address, size))
        self._epochs.collect()

    def close_lanes(self) -> None:
        """Ends the lanes' uses of groups and segments, and makes all lanes start over."""
        frames, groups = self._frames, self.open_groups().tolist()
        lanes = frames.lanes.table
        segments = lanes["segment"][lanes["size"] > 0].tolist()
        # First, and all at once: what is dropped twice because of an interrupt would be lost to others who need it.
        frames.lanes.reset()
        for group in groups:
            self._drop(int(frames.groups.table["before"][group]) - 1)
            self._drop(group)
        for segment in segments:
            frames.heap.end_reservation(segment)

    def open_groups(self) -> Words:
        """Returns the groups that lanes add to."""
        groups = self._frames.lanes.table["group"]
        return groups[groups > 0] - 1

    def _drop(self, group: int) -> None:
        """Ends a lane's own use of a group."""
        if group >= 0 and self._frames.groups.drop_use(group):
            self._free_later(np.array([group]))

    def reclaim_dead(self) -> None:
        """Frees the groups that engines found dead, when no reader is left that may know them."""
        self._free_later(self._frames.groups.take_dead())

    def _free_later(self, groups: Words) -> None:
        if len(groups):
            self._epochs.retire(partial(self._free_groups, groups))
            self._epochs.collect()

    def _free_groups(self, groups: Words) -> None:
        """Frees dead groups: gives their bytes back to the heap, and their numbers back to `Groups`.

        `Epochs` calls it, once no reader is left that may know them.
        """
        entries = self._frames.groups.table[groups]
        self._frames.groups.make_free(groups)  # first: what is free must not be found, moved and freed again
        self._frames.heap.free(entries["where"] & ADDRESS_MASK, entries["size"].astype(np.int64))

    def _move_garbage(self, written: int, *, thoroughly: bool = False) -> None:
        """Rewrites sparse segments, about twice the bytes that were just written, so that no write takes long."""
        moved, heap = 0, self._frames.heap
        with suppress(MemoryError):  # where there is no room to tidy up, garbage stays garbage
            while moved <= 2 * written and (segment := heap.take_sparse_segment(thoroughly=thoroughly)) is not None:
                moved += self._rewrite(segment)

    def _rewrite(self, segment: int) -> int:
        """Moves all groups out of a segment. Returns how many bytes they have."""
        heap, table = self._frames.heap, self._frames.groups.table
        groups = self._frames.groups.in_segment(segment, OFFSET_BITS)
        where, size = table["where"][groups], table["size"][groups].astype(np.int64)
        self._move(groups, heap.payloads(where & ADDRESS_MASK, size), where & ~ADDRESS_MASK)
        return int(size.sum())
