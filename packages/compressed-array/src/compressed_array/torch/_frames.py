"""`StoredFrames`: items on a device that follow each other in time, every frame of them stored once.

An item is compared with the last one of its lane and only its new frames are stored, by a coder. A batch takes as many
calls, on a GPU launches, as a frame does; so steps from the host are pending there until there are some, and a few
frames that cannot wait are staged as rows, to be encoded with others. A batch waits for the device twice: to learn what
is new in it, and how large that has become.

Both are needed, as measured on Atari: without the stage, frames that come one by one make no key frames, so that items
from a device take 3.9 % of their bytes instead of 2.5 % and half as many kernels more; without pending steps an add
takes 10 kernels instead of 2.

What fails is undone by what it may have touched: a step that was being added, by letting the host's lanes forget their
items (`PendingSteps.add`); pending steps that were being stored, by taking their rows off the stage, while they stay
pending (`_undo_staging`); anything else, by doing that and letting all lanes start over (`_recover`).
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array.errors import HeapFullError
from compressed_array.torch._cells import DeviceCells
from compressed_array.torch._coders.base import LAST, Batch, Coded, Coder
from compressed_array.torch._comparison import ComparedItems
from compressed_array.torch._frame_table import FRAME_NBYTES, LENGTH, ROW, START, FrameTable, side_by_side
from compressed_array.torch._heap import SMALLEST_SEGMENT
from compressed_array.torch._lanes import DeviceLanes
from compressed_array.torch._pending import NotHeld, PendingSteps
from compressed_array.torch._sweep import Sweep
from compressed_array.torch._sync import Array, Ints, fetch, on_device, storage_nbytes

Holders = weakref.WeakSet[DeviceCells]


class StoredFrames:
    """Items by number, all of one layout. `holders` are the cells of arrays: what they hold is kept."""

    def __init__(self, layout: Layout, item_shape: tuple[int, ...], itemsize: int, coder: Coder, holders: Holders):
        self.layout, self.coder, self.holders = layout, coder, holders
        self.device = coder.device
        self.table = FrameTable(self.device)
        self.device_lanes = DeviceLanes(layout, item_shape, itemsize, self.device)
        self.pending: PendingSteps | None = None
        self._staged: list[tuple[Ints, torch.Tensor]] = []  # lanes and numbers of staged frames
        self._due_at = SMALLEST_SEGMENT  # when so many bytes have been appended, a sweep is due

    @property
    def nbytes(self) -> int:
        """All memory that was taken from the device."""
        heaps = sum(held.heap.nbytes for held in self.coder.heaps())
        staged = storage_nbytes(*(numbers for _, numbers in self._staged))
        return heaps + self.table.nbytes + self.device_lanes.nbytes + self.coder.nbytes + staged

    @property
    def live_nbytes(self) -> int:
        """The memory of frames that were needed at the last sweep, or came since."""
        return sum(held.heap.live_rows * held.heap.row_nbytes for held in self.coder.heaps())

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns items as rows of bytes, given by a flat tensor of numbers."""
        frames = self.table.frames_of(numbers, self.layout.depth)
        decoded = self.coder.decode(self.table, frames.reshape(-1))
        return self.device_lanes.join(decoded.reshape(*frames.shape, -1))

    def write(self, items: torch.Tensor | Array, lanes: Ints) -> torch.Tensor:
        """Stores items, those of a lane in their order. Returns their numbers."""
        self.flush()
        try:
            return self._write(self.device_lanes.compare(items, lanes), lanes)
        except BaseException:
            self._recover()
            raise

    def hold_back(self, items: torch.Tensor | Array, lanes: Ints) -> int | None:
        """Keeps a step, an item of each lane, to be stored with others.

        Returns its number among the pending ones, or None if it has to be written. The caller must be among the holders
        and note the number as `DeviceCells.pending`, to be told what items it became.
        """
        if not self.device_lanes.are_compared_on_host(items):
            return None
        for _ in range(2):
            if self.pending is None or self.pending.lanes is not lanes:
                self.flush()
                self.device_lanes.ensure(int(lanes.max()) + 1)
                size = self.coder.stage_size(self.device_lanes.count)
                if size < len(lanes):
                    return None
                self.pending = self.device_lanes.new_pending_steps(lanes, size)
            step = self.pending.add(items, self.coder.stage_room(self.device_lanes.count))
            if step is not NotHeld.NO_ROOM_NOW:
                return None if step is NotHeld.TOO_LARGE else step
            self._store_pending(as_rows=bool(self._staged))
            self._make_room()
        return None

    def flush(self) -> None:
        """Stores the pending steps and tells the holders. They are staged, so that the device is not waited for."""
        self._store_pending(as_rows=True)

    def set_holders(self, holders: Holders) -> None:
        """Sets the cells whose items are kept, and which get the numbers of pending steps."""
        self.holders = holders

    def _store_pending(self, *, as_rows: bool) -> None:
        pending, lanes = self.pending, self.device_lanes
        if pending is None or not pending.steps:
            return
        known, shape = lanes.numbers, (pending.steps, len(pending.lanes))
        try:
            numbers = self._store(pending, pending.lane_of_each_item, pending.count_new(None), as_rows=as_rows)
            for held in list(self.holders):
                held.fill(numbers.reshape(shape))
            pending.steps = 0  # here, since an interrupt during a call would have them stored and lost
        except BaseException:
            lanes.numbers = known  # they stay pending, and follow what lanes knew before
            self._undo_staging()
            raise

    def compact(self) -> None:
        """Frees all memory but that of items. The next write may have to store more than it otherwise would."""
        self.sweep()  # which encodes what is staged, as long as lanes know their keys
        self._forget_lanes()
        self.sweep()

    def sweep(self) -> None:
        """Finds out which frames are needed, and frees what the others take, as far as that is possible."""
        self.flush()
        try:
            self._encode_staged()
            due = self._new_sweep()
            self._finish_sweep(due, fetch(*due.to_fetch), thoroughly=True)
        except BaseException:
            self._recover()
            raise

    def state(self) -> dict[str, Any]:
        """Returns all that there is, in tensors and numbers."""
        self.sweep()
        return {
            "layout": list(self.layout),
            "table": self.table.state(),
            "heaps": [held.heap.state() for held in self.coder.heaps()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned of others with this layout. Nothing may have been written here before."""
        self.table.restore(state["table"])
        for held, segments in zip(self.coder.heaps(), state["heaps"], strict=True):
            held.heap.restore(segments)

    def _recover(self) -> None:
        """Undoes a failure at any point: what lanes know, and where staged rows end, may be half changed."""
        self._undo_staging()
        self._forget_lanes()

    def _undo_staging(self) -> None:
        """Takes rows off the stage that have no frames yet, and lets the coder forget lanes."""
        self.coder.clear_stage(keep=sum(len(lane) for lane, _ in self._staged))
        self.coder.forget_lanes()

    def _forget_lanes(self) -> None:
        """Forgets the last item of each lane, so that the next one is stored whole."""
        self.coder.forget_lanes()
        self.pending = None
        self.device_lanes.forget()

    def _write(self, items: ComparedItems, lanes: Ints) -> torch.Tensor:
        asked = [] if items.to_fetch is None else [items.to_fetch]
        new = None if asked else items.count_new(None)
        if asked or new is not None:
            due = self._new_sweep() if self._is_sweep_due() else None
            fetched = fetch(*asked, *(due.to_fetch if due else [])) if asked or due else []
            if due is not None:
                self._finish_sweep(due, fetched[len(asked) :])
            new = items.count_new(fetched[0]) if asked else new
        count, known = 0 if new is None else int(new.sum()), self.device_lanes.count
        as_rows = 2 * count <= self.coder.stage_size(known)
        if as_rows and self.coder.stage_room(known) < count:
            self._encode_staged()
        return self._store(items, lanes, new, as_rows=as_rows)

    def _store(self, items: ComparedItems, lanes: Ints, new: Ints | None, *, as_rows: bool) -> torch.Tensor:
        """Stores what is new in items. Returns the numbers of all of them.

        Args:
            new: How many frames of each are new, as `count_new` returns it.
            as_rows: Whether frames are staged, if there is room for them, and not encoded.
        """
        known, table = self.device_lanes, self.table
        if new is None:
            return known.numbers[:, LAST].index_select(0, on_device(lanes, self.device))
        new_frames = known.locate_new_frames(new, lanes)
        frames = items.frames(new_frames.frames, self.device)
        batch, count = Batch(frames, new_frames.lane, new_frames.nth, known.count), len(frames)
        first = self.coder.stage(frames, known.count) if as_rows else None
        coded = None
        if first is None:
            coded = self._encode(batch)
            places = coded.places()
        else:
            nothing = np.zeros(count, np.int64)
            places = side_by_side({START: nothing, LENGTH: nothing, ROW: np.arange(first, first + count)}, count)
        numbers = table.allocate(count)
        links, result = known.link_frames(batch, coded, new_frames, lanes, numbers)
        table.put(numbers, links, places)
        items.remember()
        if coded is None:
            self._staged.append((new_frames.lane, numbers.clone()))
        return result

    def _make_room(self) -> None:
        """Encodes what is staged, and sweeps if that is due."""
        try:
            self._encode_staged()
            if self._is_sweep_due():
                due = self._new_sweep()
                self._finish_sweep(due, fetch(*due.to_fetch))
        except BaseException:
            self._recover()
            raise

    def _encode(self, batch: Batch) -> Coded:
        try:
            return self.coder.encode(batch)
        except HeapFullError:
            self.sweep()
            return self.coder.encode(batch)

    def _encode_staged(self) -> None:
        """Encodes the frames that are staged, and clears the stage."""
        if not self._staged:
            return
        lane, numbers = zip(*self._staged, strict=True)
        lanes, numbered = np.concatenate(lane), torch.cat(numbers)
        self.device_lanes.ensure(int(lanes.max()) + 1)  # after a failure it knows none
        order, each = np.argsort(lanes, kind="stable"), np.arange(len(lanes))
        begins = np.append(True, np.diff(lanes[order]) != 0)
        nth = np.empty_like(each)
        nth[order] = each - np.maximum.accumulate(np.where(begins, each, 0))
        batch = Batch(self.coder.staged(), lanes, nth, self.device_lanes.count)
        coded = self._encode(batch)
        links = self.device_lanes.relink_staged(batch, coded, numbered)
        self.table.put_again(numbered, links, coded.places())
        self._staged = []
        self.coder.clear_stage()

    def _appended_nbytes(self) -> int:
        """Returns how many bytes were ever appended to the heaps and the table."""
        heaps = [held.heap for held in self.coder.heaps()]
        return self.table.taken * FRAME_NBYTES + sum(heap.appended * heap.row_nbytes for heap in heaps)

    def _is_sweep_due(self) -> bool:
        """Whether so much was appended since the last sweep that another is worth while."""
        return self._appended_nbytes() > self._due_at

    def _new_sweep(self) -> Sweep:
        if not self._staged:
            self.coder.drop_stage()  # so that all can be moved
        items = [*(held.numbers for held in self.holders), self.device_lanes.numbers[:, LAST]]
        others = [self.device_lanes.numbers.reshape(-1), *(numbers for _, numbers in self._staged)]
        return Sweep(self.table, self.coder.heaps(), items, others, self.layout.depth)

    def _finish_sweep(self, due: Sweep, answers: list[list[int]], *, thoroughly: bool = False) -> None:
        due.finish(answers, thoroughly=thoroughly)
        self._due_at = self._appended_nbytes() + max(self.live_nbytes // 8, SMALLEST_SEGMENT)
