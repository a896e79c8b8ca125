"""`StoredFrames`: items on a device that follow each other in time, every frame of them stored once.

An item is compared with the last one of its lane and only its new frames are stored, by a coder. Steps from the host
wait there for others, and a few frames are rows for now, to be encoded with others: a batch takes as many calls, on a
GPU launches, as a frame does. A batch asks the device twice: what is new in it, and how large that has become.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array.errors import HeapFullError
from compressed_array.torch._coders.base import Batch, Coded, Coder, Ints, on_device
from compressed_array.torch._frame_table import FRAME_NBYTES, ROW_OF, FrameTable
from compressed_array.torch._heap import SMALLEST_SEGMENT
from compressed_array.torch._host_lanes import Array, HostLook
from compressed_array.torch._lanes import DeviceLook, Streams
from compressed_array.torch._pending import DeviceGrid, WaitingSteps
from compressed_array.torch._sweep import Sweep
from compressed_array.torch._sync import fetch, storage_nbytes

Holders = weakref.WeakSet[DeviceGrid]


class StoredFrames:
    """Items by number, all of one layout. `holders` are those who know numbers; what they need is kept."""

    def __init__(self, layout: Layout, item_shape: tuple[int, ...], itemsize: int, coder: Coder, holders: Holders):
        self.layout, self.coder, self.holders = layout, coder, holders
        self.device = coder.device
        self.table = FrameTable(self.device)
        self.streams = Streams(layout, item_shape, itemsize, self.device)
        self.waiting: WaitingSteps | None = None  # steps that the device has not been told of
        self._staged: list[tuple[Ints, torch.Tensor]] = []  # of frames that are rows for now: the lanes and numbers
        self._due_at = SMALLEST_SEGMENT  # when so many bytes have come, it is seen which frames are needed

    @property
    def nbytes(self) -> int:
        """All memory that was taken from the device."""
        heaps = sum(heap.nbytes for heap, _, _ in self.coder.heaps())
        staged = storage_nbytes(*(numbers for _, numbers in self._staged))
        return heaps + self.table.nbytes + self.streams.nbytes + self.coder.nbytes + staged

    @property
    def live_nbytes(self) -> int:
        """What of it belongs to frames that were needed when they were last marked, or came since."""
        return sum(heap.live_rows * heap.row_nbytes for heap, _, _ in self.coder.heaps())

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Items as bytes, from a flat tensor of numbers."""
        frames = self.table.stack(numbers, self.layout.depth)
        decoded = self.coder.decode(self.table, frames.reshape(-1))
        return self.streams.joined(decoded.reshape(*frames.shape, -1))

    def write(self, items: torch.Tensor | Array, lanes: Ints) -> torch.Tensor:
        """Store items, one of each lane after the other; says their numbers."""
        self.settle()
        try:
            return self._write(self.streams.look(items, lanes), lanes)
        except BaseException:
            self._recover()
            raise

    def wait(self, items: torch.Tensor | Array, lanes: Ints) -> int | None:
        """Keep a step, an item of each lane, to be stored with others; says which it is, or None if it cannot wait.

        Whoever takes it has to be among the holders, to be told its number.
        """
        if not self.streams.are_seen_on_host(items):
            return None
        for _ in range(2):
            if self.waiting is None or self.waiting.lanes is not lanes:
                self.settle()
                self.streams.grow(int(lanes.max()) + 1)
                size = self.coder.stage_size(self.streams.count)
                if size < len(lanes):
                    return None
                self.waiting = self.streams.waiting(lanes, size)
            step = self.waiting.add(items, self.coder.room(self.streams.count))
            if step is None or step >= 0:
                return step
            self._store_waiting(as_rows=bool(self._staged))
            self._make_room()
        return None

    def settle(self) -> None:
        """Store the steps that wait, and tell the holders. As rows for now, which takes no waiting for the device."""
        self._store_waiting(as_rows=True)

    def _store_waiting(self, *, as_rows: bool) -> None:
        waiting, streams = self.waiting, self.streams
        if waiting is None or not waiting.steps:
            return
        known, shape = streams.numbers, (waiting.steps, len(waiting.lanes))
        try:
            numbers = self._store(waiting, waiting.lanes_of_items, waiting.new(), as_rows=as_rows)
            for held in list(self.holders):
                held.fill(numbers.reshape(shape))
            waiting.steps = 0
        except BaseException:
            streams.numbers = known  # they wait on, and follow what lanes knew before
            self._unstage()
            raise

    def compact(self) -> None:
        """Hold nothing but items until the next write, which may have to store more than it otherwise would."""
        self.sweep()  # which encodes what is staged, as long as lanes know their keys
        self._forget_lanes()
        self.sweep()

    def sweep(self) -> None:
        """Find out which frames are needed, and give back what the others take, as far as that is possible."""
        self.settle()
        try:
            self._encode_staged()
            due = self._new_sweep()
            self._finish(due, fetch(*due.asks), thoroughly=True)
        except BaseException:
            self._recover()
            raise

    def state(self) -> dict[str, Any]:
        """All that there is, in tensors and numbers."""
        self.sweep()
        return {
            "layout": list(self.layout),
            "table": self.table.state(),
            "heaps": [heap.state() for heap, _, _ in self.coder.heaps()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Hold what others of this layout did, from the beginning; lanes begin anew."""
        self.table.restore(state["table"])
        for (heap, _, _), segments in zip(self.coder.heaps(), state["heaps"], strict=True):
            heap.restore(segments)

    def _recover(self) -> None:
        """Go on after a failure at whatever point: what lanes know, and where staged rows end, may be half changed."""
        self._unstage()
        self._forget_lanes()

    def _unstage(self) -> None:
        """Forget rows that nobody was told of, and what the coder knows of lanes."""
        self.coder.unstage(but=sum(len(lane) for lane, _ in self._staged))
        self.coder.compact()

    def _forget_lanes(self) -> None:
        """Take the next items for the first of their streams."""
        self.coder.compact()
        self.waiting = None
        self.streams.forget()

    def _write(self, look: HostLook | DeviceLook, lanes: Ints) -> torch.Tensor:
        new = look.new() if look.asks is None else None
        if new is not None or look.asks is not None:
            due = self._new_sweep() if self._is_due() else None
            asks = [look.asks] if look.asks is not None else []
            answers = fetch(*asks, *(due.asks if due else [])) if asks or due else []
            if due is not None:
                self._finish(due, answers[len(asks) :])
            new = look.new(answers[0]) if asks else new
        count, known = 0 if new is None else int(new.sum()), self.streams.count
        as_rows = 2 * count <= self.coder.stage_size(known)
        if as_rows and self.coder.room(known) < count:
            self._encode_staged()
        return self._store(look, lanes, new, as_rows=as_rows)

    def _store(
        self, look: HostLook | DeviceLook | WaitingSteps, lanes: Ints, new: Ints | None, *, as_rows: bool
    ) -> torch.Tensor:
        """Store what is new, as rows for now if there is room for them; says the numbers of all items."""
        streams, table = self.streams, self.table
        if new is None:
            return streams.numbers[:, 0].index_select(0, on_device(lanes, self.device))
        new_frames = streams.new_frames(new, lanes)
        frames = look.frames(new_frames.frames, self.device)
        batch, count = Batch(frames, new_frames.lane, new_frames.turn, streams.count), len(frames)
        first = self.coder.stage(frames, streams.count) if as_rows else None
        coded = None
        if first is None:
            coded = self._encode(batch)
            own = np.column_stack([coded.start, coded.length, coded.row])
        else:
            own = np.zeros((count, 3), np.int64)
            own[:, 2] = np.arange(first, first + count)
        numbers = table.take(count)
        links, result = streams.take(batch, coded, new_frames, lanes, numbers)
        table.words.index_copy_(0, numbers, torch.cat([links, on_device(own, self.device)], 1))
        look.remember()
        if coded is None:
            self._staged.append((new_frames.lane, numbers.clone()))
        return result

    def _make_room(self) -> None:
        """Encode what is staged, and see to it that frames which nobody needs do not become too many."""
        try:
            self._encode_staged()
            if self._is_due():
                due = self._new_sweep()
                self._finish(due, fetch(*due.asks))
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
        """Encode the frames that are rows for now."""
        if not self._staged:
            return
        lane, numbers = zip(*self._staged, strict=True)
        lanes, numbered = np.concatenate(lane), torch.cat(numbers)
        self.streams.grow(int(lanes.max()) + 1)  # after a failure it knows none
        order, each = np.argsort(lanes, kind="stable"), np.arange(len(lanes))
        begins = np.append(True, np.diff(lanes[order]) != 0)
        turn = np.empty_like(each)
        turn[order] = each - np.maximum.accumulate(np.where(begins, each, 0))
        batch = Batch(self.coder.staged(), lanes, turn, self.streams.count)
        coded = self._encode(batch)
        links = self.streams.renumber(batch, coded, numbered)
        own = on_device(np.column_stack([coded.start, coded.length, coded.row]), self.device)
        self.table.words[numbered, ROW_OF:] = torch.cat([links, own], 1)
        self._staged = []
        self.coder.unstage()

    def _come(self) -> int:
        """How many bytes have come to the heaps and the table, ever."""
        return self.table.taken * FRAME_NBYTES + sum(h.appended * h.row_nbytes for h, _, _ in self.coder.heaps())

    def _is_due(self) -> bool:
        """Whether so much has come since frames were last marked that it is worth while to see which are needed."""
        return self._come() > self._due_at

    def _new_sweep(self) -> Sweep:
        if not self._staged:
            self.coder.unstage(for_good=True)  # so that all can be moved
        items = [*(held.numbers for held in self.holders), self.streams.numbers[:, 0]]
        others = [self.streams.numbers.reshape(-1), *(numbers for _, numbers in self._staged)]
        return Sweep(self.table, self.coder.heaps(), items, others, self.layout.depth)

    def _finish(self, due: Sweep, answers: list[list[int]], *, thoroughly: bool = False) -> None:
        due.finish(answers, thoroughly=thoroughly)
        self._due_at = self._come() + max(self.live_nbytes // 8, SMALLEST_SEGMENT)
