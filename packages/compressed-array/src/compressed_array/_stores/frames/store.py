"""`FrameStore`: items that follow each other in time, every frame of them stored once.

An item is compared, byte by byte, with the last one of its lane. What is equal is not stored again: nothing of an item
that is the same, one frame of a stack that moved on by one, all of an item that has nothing in common with the last.
New frames go to the lane's open group; a group that is full moves to the heap, packed by a codec where there is one.
So a wrapper that does not stack, a reset, a wrap-around or a write to any odd place costs space and nothing else.

Several arrays may share a store: frames that occur in several of them are then stored once.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import is_known
from compressed_array._runtime.types import Words
from compressed_array._stores.base import BaseStore
from compressed_array._stores.frames import description, engine_native
from compressed_array._stores.frames.adoption import Adoption
from compressed_array._stores.frames.engine import Engine
from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.engine_numpy import NumpyEngine
from compressed_array._stores.frames.export import FrameExport, FrameSnapshot, export_groups, renumbered, restore_groups
from compressed_array._stores.frames.groups import (
    BITPACKED,
    DEAD,
    FULL,
    GROUPS_AT_ONCE,
    ITEMS,
    LISTED,
    PLAIN_ROWS,
    SLOTS,
)
from compressed_array._stores.frames.layouts import MOST_LAYOUTS, Geometry, Layout, possible_stacks, strides_of
from compressed_array._stores.frames.policy import WritePolicy
from compressed_array._stores.frames.row_writer import FrameRowWriter, PreparedRow
from compressed_array._stores.frames.settings import AS_CHANGES
from compressed_array._stores.frames.stacks import StackFinder, given_layout
from compressed_array._stores.frames.tables import LARGEST_ITEM, FrameTables
from compressed_array._stores.frames.upkeep import Upkeep
from compressed_array._stores.protocol import LaneNumbers, RecordNumbers, Records, unchanging
from compressed_array.errors import BusyStoreError

DENSE = 0.5  # least share of an export's frames that the items taken over must use


class FrameStore(BaseStore[FrameSnapshot]):
    """Items of one shape and dtype in streams, one for each lane."""

    is_stream: ClassVar[bool] = True
    SECTIONS: ClassVar[dict[str, str]] = description.SECTIONS

    def __init__(self, item_shape: tuple[int, ...], dtype: np.dtype[Any], codec: Any = "auto") -> None:
        nbytes = prod(item_shape) * dtype.itemsize
        if nbytes > LARGEST_ITEM:
            raise ValueError(
                f"an item of {nbytes} bytes is too large; use a smaller item_ndim (limit: {LARGEST_ITEM >> 20} MiB)"
            )
        super().__init__()
        self.item_shape, self.dtype, self.record_nbytes = item_shape, dtype, nbytes
        layout = given_layout(item_shape, dtype.itemsize, codec)
        is_given, layout = layout is not None, layout or Layout.unstacked(nbytes)
        self._frames, self._is_given = FrameTables(item_shape, dtype.itemsize, layout.frame_nbytes), is_given
        self._finder = None if is_given or not possible_stacks(item_shape) else StackFinder(item_shape)
        self._policy = WritePolicy(self._frames, self.epochs, codec, layout, is_given=is_given)
        self._upkeep = Upkeep(self._frames, self.epochs, self._policy)
        self._adoption = Adoption(self._frames, self._policy)
        self._engine: Engine | None = None
        self._known_lanes: tuple[LaneNumbers | None, LaneNumbers | None] = None, None

    @property
    def codec(self) -> Any:
        return self._policy.codec

    @property
    def codec_choice(self) -> Any:
        return self._policy.choice

    def holds(self, item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        return item_shape == self.item_shape and dtype == self.dtype

    @property
    def nbytes(self) -> int:
        with self.epochs.writing:
            self.epochs.guard.when_free(partial(self._flush, thoroughly=True))
            frames = self._frames
            tables = frames.groups.nbytes + frames.lanes.nbytes
            shared = sum(r.nbytes for r in frames.references[1:]) + sum(codec.nbytes for codec in frames.codecs)
            return int(frames.heap.nbytes + tables + shared)

    def note_another_array(self) -> None:
        return None  # every array is written as if there were others

    def read(self, numbers: RecordNumbers, out: Records) -> None:
        self.engine.read(unchanging(numbers), out)

    def read_pair(self, numbers: RecordNumbers, out: Records, others: RecordNumbers, other_out: Records) -> None:
        """Does two reads in one, in which frames that both need are decoded once."""
        self.engine.read(unchanging(numbers), out, unchanging(others), other_out)

    def write(self, items: npt.NDArray[Any], lanes: LaneNumbers) -> RecordNumbers:
        self._flush()
        numbers = np.zeros(len(items), np.uint32)
        if not items.size or not self.record_nbytes:
            return numbers
        frames = self._frames
        known, other = self._known_lanes
        if lanes is not known and lanes is not other:  # two buffers write the same lanes at every step
            frames.lanes.grow(int(lanes.max()) + 1)
            self._known_lanes = lanes, known
        self._detect_stack(items, lanes)
        layout = self._policy.settings.layout
        geometry = frames.geometry(layout, strides_of(items))
        if geometry is None:
            items = np.ascontiguousarray(items)
            geometry = frames.geometry(layout, strides_of(items))
            assert geometry is not None  # C order is dense
        frames.lanes.arrange(geometry.strides)
        self.write_rest(items, geometry, lanes, 0, numbers)
        return numbers

    def row_writer(
        self, rows: RecordNumbers, lanes: LaneNumbers, item_shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> FrameRowWriter:
        return FrameRowWriter(self, rows, lanes, item_shape, dtype)

    def prepare_row(self, items: npt.NDArray[Any], rows: RecordNumbers, lanes: LaneNumbers) -> PreparedRow | None:
        """Returns what writes rows that lie in memory as these items do; None if only `write` can write them."""
        known, other = self._known_lanes
        # As many groups may die of one call as are listed by then; a kernel only checks how many there are already.
        if self._policy.lost_stack or not (lanes is known or lanes is other) or 3 * len(items) > LISTED:
            return None
        engine, geometry = self.engine, self._frames.geometry(self._policy.settings.layout, strides_of(items))
        if geometry is None or geometry.strides != self._frames.lanes.strides or not isinstance(engine, NativeEngine):
            return None
        return PreparedRow(engine, self._policy, geometry, items, rows, lanes)

    def is_ready_for_row(self) -> bool:
        """Whether a row may be written in one call; else something that only `write` does is due first."""
        # The finder last, since it counts.
        return not self._released_later and (self._finder is None or self._finder.skip_batch())

    def reclaim_dead(self) -> None:
        """Frees the groups that nothing uses any more, once no reader is left that could have seen them."""
        self._upkeep.reclaim_dead()

    def write_rest(
        self, items: npt.NDArray[Any], geometry: Geometry, lanes: LaneNumbers, done: int, numbers: RecordNumbers
    ) -> None:
        """Writes the items that are not done yet, and processes full groups. If that fails, all items are released."""
        self._version += 1
        engine, policy = self.engine, self._policy
        try:
            is_done = False
            while not is_done:
                end = min(done + policy.items_until_decision, len(items))
                part, lane_of = items[:end], lanes[:end]
                while (done := engine.write(part, geometry, lane_of, done, numbers, policy.settings)) < end:
                    self._upkeep.make_room(int(lanes[done]), engine)
                if self._frames.groups.counts[FULL] >= policy.settings.many_full:
                    self._upkeep.process_full(engine)
                is_done = done == len(items)
        except BaseException:
            self.release(numbers)
            raise

    def retain(self, numbers: RecordNumbers) -> None:
        self._flush()  # a program that copies and never writes would keep every copy it dropped
        self.engine.retain(np.ascontiguousarray(numbers))

    def release(self, numbers: RecordNumbers) -> None:
        self._version += 1
        numbers = np.ascontiguousarray(numbers)
        done = 0
        while (done := self.engine.release(numbers, done)) < len(numbers):
            self.reclaim_dead()
        if self._frames.groups.counts[DEAD] >= GROUPS_AT_ONCE:
            self.reclaim_dead()

    def compact(self) -> None:
        with self.epochs.writing, self.epochs.guard:
            self._flush(thoroughly=True)
            self._known_lanes = None, None
            self._frames.lanes.close_groups()  # first: nothing may be added to a group that has moved
            self._upkeep.bitpack(self._upkeep.open_groups())
            if self._policy.packing is not None:
                self._upkeep.pack(self._upkeep.open_groups(), self._policy.packing.codec)
            self._upkeep.close_lanes()
            self._frames.lanes.drop_all()
            self._frames.heap.seal()

    def nbytes_of(self, numbers: RecordNumbers) -> int:
        with self.epochs.writing:
            self.epochs.guard.when_free(partial(self._flush, thoroughly=True))
            needed = self._frames.needed(numbers)
            table, held = self._frames.groups.table, self._upkeep.open_groups()
            by_lanes = len(held) + int((table["before"][held] > 0).sum())
            if len(needed) + by_lanes == int(table["uses"].sum()):
                return self.nbytes
            own = np.unique(needed)
            return int(table["size"][own].sum()) + table.itemsize * len(own)

    def export(self, numbers: RecordNumbers) -> tuple[FrameExport, RecordNumbers]:
        self._make_whole()
        groups = np.unique(self._frames.needed(numbers))
        exported = self._export(groups)
        return exported, renumbered(groups, numbers)

    def take_out(self, numbers: RecordNumbers) -> tuple[FrameExport, RecordNumbers] | None:
        if self.epochs.guard.is_taken:  # by a change that a signal's handler interrupts, and reading is allowed there
            return None
        items = np.unique(numbers)
        frames = self._frames.groups.table["count"][np.unique(self._frames.needed(items))]
        is_dense = np.count_nonzero(items) >= DENSE * int(frames.sum())
        return self.export(numbers) if is_dense else None

    def _export(self, groups: Words) -> FrameExport:
        """Returns these groups, in this order."""
        layout = self._policy.settings.layout_number
        return export_groups(self._frames, groups, self.codec_choice, layout, self._finder is None)

    def adopt(self, export: FrameExport, numbers: RecordNumbers, out: RecordNumbers) -> bool:
        self._flush()
        if not self._would_write(export):
            return False
        self._version += 1
        layout = export.layouts[export.layout]
        if self._finder is not None and export.found and layout.depth > 1:
            self._finder = None
            self._use_layout(layout)
        engine = self.engine
        prepared = self._adoption.prepared(export, engine)
        if prepared is None:
            return False
        self._upkeep.process_full(engine, self._adoption.put(export, *prepared, numbers, out, engine))
        return True

    def _would_write(self, export: FrameExport) -> bool:
        """Whether exported groups are such as this store would write itself, or would write again in time."""
        frames, policy, settings, choice = self._frames, self._policy, self._policy.settings, export.choice
        level, coded = getattr(policy.choice, "level", None), (export.tag != PLAIN_ROWS) & (export.tag != BITPACKED)
        used = [export.layouts[number] for number in np.unique(export.layout_of).tolist()]
        # For "auto", what another codec has chosen is good enough if the last decision was no other.
        has_decided = not isinstance(policy.choice, str) or policy.has_decided
        is_rows = settings.is_small and not coded.any()
        alike = choice == policy.choice or is_rows or (settings.mode == AS_CHANGES and has_decided)
        return (
            alike
            and policy.is_in_order
            and (level is None or not (export.count[coded] > level).any())
            and (not self._is_given or used == [settings.layout])
            and len(set(frames.layouts) | set(export.layouts)) <= MOST_LAYOUTS
        )

    @staticmethod
    def describe(records: FrameExport, /) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Returns what a file's header says of groups, and the file's sections."""
        return description.describe(records)

    @staticmethod
    def from_file(
        header: dict[str, Any],
        sections: dict[str, Any],
        codecs: list[Any],
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        cells: RecordNumbers,
    ) -> FrameExport:
        """Returns the groups that a file has for these cells, if its parts agree."""
        return description.from_file(header, sections, codecs, dtype.itemsize, cells)

    @classmethod
    def restore(
        cls,
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        export: FrameExport,
        numbers: RecordNumbers,
        *,
        shared: bool = False,
    ) -> FrameStore:
        """Returns a store that holds these groups, retained once for each occurrence in `numbers`.

        A shared one uses each group once itself, which the restorer ends by `give_up_restored` when all arrays that
        were pickled together have claimed theirs.
        """
        store = cls(item_shape, dtype, export.choice)
        restore_groups(store._frames, export)
        if export.found:
            store._finder = None
        store._policy.resume(export.layouts[export.layout])
        store._upkeep.resume()
        store._frames.groups.add_uses(np.arange(len(export.size)))
        store.claim(numbers)
        if not shared:
            store.give_up_restored(len(export.size))
        return store

    def claim(self, numbers: RecordNumbers) -> None:
        """Retains restored items."""
        self.engine.retain(np.ascontiguousarray(numbers).reshape(-1))

    def give_up_restored(self, groups: int) -> None:
        """Releases, with the next write, restored groups that nobody has claimed; a finaliser may call it."""
        # The item in a group's last slot is one that needs no other group.
        self.release_later(np.arange(1, groups + 1, dtype=np.uint32) * np.uint32(SLOTS))

    def snapshot(self, numbers: RecordNumbers, *, is_part: bool) -> FrameSnapshot | None:
        """Returns the whole store, for pickling: the same object as before if nothing has changed since.

        Returns None for a part that needs fewer than half of the groups: it would take all the others along.
        """
        with self.epochs.writing:
            self._make_whole()
            if is_part:
                alive = np.count_nonzero(self._frames.groups.table["uses"])
                if 2 * len(np.unique(self._frames.needed(numbers))) < alive:
                    return None
            return self._latest_snapshot((self._version, int(self._frames.groups.counts[ITEMS])), self._take_snapshot)

    def _take_snapshot(self, version: tuple[int, ...]) -> FrameSnapshot:
        groups = np.flatnonzero(self._frames.groups.table["uses"]).astype(np.int64)
        return FrameSnapshot(self.item_shape, self.dtype, self._export(groups), groups, version)

    @property
    def engine(self) -> Engine:
        """The engine: kernels are compiled when the first item is written, not when the array is made."""
        if self._engine is None:
            native = engine_native.is_usable(self._frames)
            engine: Engine = NativeEngine(self._frames) if native else NumpyEngine(self._frames)
            if not native and not all(map(is_known, engine_native.modules(self._frames))):
                return engine  # for a signal's handler that came too early to say
            self._engine = engine
        return self._engine

    def _detect_stack(self, items: npt.NDArray[Any], lanes: LaneNumbers) -> None:
        """Divides items into frames once it is known how they are stacked, and no longer if they are not after all."""
        if self._finder is not None:
            stack = self._finder.inspect(items, lanes, self._frames.lanes)
            if stack is not None:
                self._finder = None
                self._use_layout(Layout.of(self.item_shape, self.dtype.itemsize, *stack))
        elif self._policy.lost_stack:
            self._finder = StackFinder(self.item_shape)
            self._use_layout(Layout.unstacked(self.record_nbytes))

    def _use_layout(self, layout: Layout) -> None:
        """Divides items in another way from now on."""
        self._upkeep.close_lanes()
        # With room for the larger frames until both have changed: an interrupt may come in between.
        self._frames.lanes.resize_frames(max(layout.frame_nbytes, self._policy.settings.layout.frame_nbytes))
        self._policy.use_layout(layout)
        self._frames.lanes.resize_frames(layout.frame_nbytes)

    def _make_whole(self) -> None:
        """Does all that is due, before items are exported."""
        self.epochs.guard.when_free(partial(self._flush, thoroughly=True))
        # For a signal's handler in the middle of a write they are whole where a kernel writes them, in one go.
        if isinstance(self._engine, NumpyEngine) and self.epochs.guard.is_taken:
            raise BusyStoreError

    def _flush(self, *, thoroughly: bool = False) -> None:
        """Does what finalisers have left to do; thoroughly, also what is due for groups but was put off."""
        self.release_listed()
        if thoroughly and self._engine is not None:  # nothing was ever written without one
            self._upkeep.process_full(self._engine)
            self._upkeep.reclaim_dead()
        self.epochs.collect()
