"""`DeviceStore`: items on a torch device that follow each other in time, every frame of them stored once.

What `FrameStore` is on the host: an item is compared with the last one of its lane, on the device, and only its new
frames are stored, by a coder. A batch asks the device twice: what is new in it, and how large that has become.
"""

from __future__ import annotations

import threading
import weakref
from math import prod
from typing import Any

import numpy as np
import torch

from compressed_array._layouts import Layout
from compressed_array.errors import HeapFullError
from compressed_array.torch._coders import Batch, Coded, Coder, Ints, on_device
from compressed_array.torch._frames import FRAME_NBYTES, ROW_OF, FrameTable
from compressed_array.torch._heap import SMALLEST_SEGMENT
from compressed_array.torch._host import apart, available, cpu, fetch, storage_nbytes
from compressed_array.torch._host_items import Array, HostLook, as_tensor
from compressed_array.torch._methods import Method
from compressed_array.torch._streams import DeviceLook, Streams
from compressed_array.torch._sweep import Sweep
from compressed_array.torch._undecided import Undecided
from compressed_array.torch._waiting import Cells, WaitingSteps


class DeviceStore:
    """Items of one shape and dtype, by number, for all arrays that stand on it."""

    def __init__(
        self,
        item_shape: tuple[int, ...],
        dtype: torch.dtype,
        method: Method,
        device: torch.device,
        heap_bytes: int | None,
    ) -> None:
        self.item_shape, self.dtype, self.method = item_shape, dtype, method
        self.device, self.heap_bytes = device, heap_bytes
        self.item_nbytes = prod(item_shape) * dtype.itemsize
        self.lock = threading.RLock()
        self.holders: weakref.WeakSet[Cells] = weakref.WeakSet()  # what has numbers of ours
        self._table = FrameTable(device)
        self._due_at = 0  # when so many bytes have come, it is seen which frames are needed
        self._waiting: WaitingSteps | None = None  # steps that the device has not been told of
        self._staged: list[tuple[Ints, torch.Tensor]] = []  # of frames that are rows for now: the lanes and numbers
        layout = method.layout(item_shape, dtype.itemsize)
        self._streams: Streams
        self._coder: Coder
        self._undecided = Undecided(item_shape, dtype.itemsize, device) if layout is None else None
        if layout is not None:
            self._use(layout)

    @property
    def nbytes(self) -> int:
        """All memory that the store has taken from the device."""
        if self._undecided is not None:
            return self._undecided.nbytes + self._table.nbytes
        heaps = sum(heap.nbytes for heap, _, _ in self._coder.heaps())
        staged = storage_nbytes(*(numbers for _, numbers in self._staged))
        return heaps + self._table.nbytes + self._streams.nbytes + self._coder.nbytes + staged

    @property
    def live_nbytes(self) -> int:
        """What of it belongs to frames that were needed when they were last marked, or came since."""
        if self._undecided is not None:
            return self.nbytes
        return sum(heap.live_rows * heap.row_nbytes for heap, _, _ in self._coder.heaps())

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Items, of their dtype, from a flat tensor of numbers."""
        with self.lock:
            if self._undecided is not None:
                data = self._undecided.read(numbers)
            else:
                frames = self._table.stack(numbers, self._streams.layout.depth)
                decoded = self._coder.decode(self._table, frames.reshape(-1))
                data = self._streams.joined(decoded.reshape(*frames.shape, -1))
            return data.contiguous().view(self.dtype).reshape(len(numbers), *self.item_shape)

    def write(self, items: torch.Tensor | Array, lanes: Ints) -> torch.Tensor:
        """Store items, one of each lane after the other; says their numbers."""
        self.settle()
        if self._undecided is None:
            return self._write(self._streams.look(items, lanes), lanes)
        items, before = as_tensor(items), self._undecided.mark()
        try:
            numbers = self._undecided.write(items.reshape(len(items), -1).contiguous().view(torch.uint8), lanes)
            if self.heap_bytes is not None and self._undecided.nbytes > self.heap_bytes // 2:
                self._undecided.give_up()
            if self._undecided.layout is None:
                return numbers
            return self._decide(self._undecided).index_select(0, numbers)
        except BaseException:
            if self._undecided is not None:
                self._undecided.go_back(before)
            raise

    def write_row(self, cells: Cells, row: int, items: torch.Tensor | Array, lanes: Ints) -> None:
        """Store a step, an item of each lane, for a row of an array; later and with others, if it can wait."""
        step = self._wait(items, lanes)
        if step is not None:
            cells.waiting[row] = step
        else:
            numbers = self.write(items, lanes)  # which may replace the numbers of the cells
            cells.numbers[row].copy_(numbers)

    @apart
    def settle(self) -> None:
        """Store the steps that wait, and tell the arrays. The device is not asked for anything."""
        with self.lock:
            waiting = self._waiting
            if waiting is None or not waiting.steps:
                return
            streams = self._streams
            known, shape = streams.numbers, (waiting.steps, len(waiting.lanes))
            try:
                numbers = self._store(waiting, waiting.lanes_of_items, waiting.new())
                for held in list(self.holders):
                    held.fill(numbers.reshape(shape))
            except BaseException:
                # They wait on. What they follow is what lanes knew before.
                self._unstage()
                streams.numbers = known
                raise
            waiting.clear()

    @apart
    def rest(self) -> None:
        """Hold nothing but items until the next write, which may have to store more than it otherwise would."""
        with self.lock:
            if self._undecided is None:
                self.sweep()  # which encodes what is staged, as long as lanes know their keys
                self._forget_lanes()
                self.sweep()

    @apart
    def sweep(self) -> None:
        """Find out which frames are needed, and give back what the others take, as far as that is possible."""
        with self.lock:
            self.settle()
            if self._undecided is None:
                try:
                    self._encode_staged()
                    due = self._new_sweep()
                    self._finish(due, fetch(*due.asks), thoroughly=True)
                except BaseException:
                    self._recover()
                    raise

    def state(self) -> dict[str, Any]:
        """All that there is, in tensors and numbers."""
        with self.lock:
            self.sweep()
            if self._undecided is not None:
                return {"undecided": self._undecided.state()}
            return {
                "layout": list(self._streams.layout),
                "table": self._table.state(),
                "streams": self._streams.state(),
                "coder": self._coder.state(),
            }

    @apart
    def restore(self, state: dict[str, Any]) -> None:
        with self.lock:
            self._table, self._staged, self._waiting, self._due_at = FrameTable(self.device), [], None, 0
            if "undecided" in state:
                first = state["undecided"]
                self._undecided = Undecided(self.item_shape, self.dtype.itemsize, self.device)
                self._undecided.write(first["items"][1:].to(self.device), first["lanes"].cpu().numpy()[1:])
                return
            self._undecided = None
            self._use(Layout(*state["layout"]))
            self._table.restore(state["table"])
            self._streams.restore(state["streams"])
            self._coder.restore(state["coder"])

    def __getstate__(self) -> dict[str, Any]:
        kind = (self.item_shape, self.dtype, self.method, str(self.device), self.heap_bytes)
        return {"kind": kind, "state": cpu(self.state())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        item_shape, dtype, method, device, heap_bytes = state["kind"]
        self.__init__(item_shape, dtype, method, available(device), heap_bytes)  # type: ignore[misc]  # made without it
        self.restore(state["state"])

    def _new_streams(self, layout: Layout) -> Streams:
        return Streams(layout, self.item_shape, self.dtype.itemsize, self.device)

    def _use(self, layout: Layout) -> None:
        self._streams = self._new_streams(layout)
        self._coder = self.method.coder(layout.frame_nbytes, self.dtype.itemsize, self.device, self.heap_bytes)

    def _decide(self, first: Undecided) -> torch.Tensor:
        """Store what was kept until now, as it should be; says the new number of each."""
        assert first.layout is not None
        self._use(first.layout)
        items = torch.from_numpy(first.host[1:]).view(self.dtype).reshape(-1, *self.item_shape)
        lanes = first.lanes[1:]
        numbers = self._write(self._streams.look_on_host(items, lanes), lanes)
        numbers = torch.cat([numbers.new_zeros(1), numbers])
        cells = [(held, numbers[held.numbers.to(torch.int64)].to(held.numbers.dtype)) for held in self.holders]
        self._undecided = None
        for held, renumbered in cells:
            held.replace(renumbered)
        return numbers

    def _write(self, look: HostLook | DeviceLook, lanes: Ints) -> torch.Tensor:
        try:
            return self._store_new(look, lanes)
        except BaseException:
            self._recover()
            raise

    def _wait(self, items: torch.Tensor | Array, lanes: Ints) -> int | None:
        """Keep a step, to be stored with others; says which it is until then, or None if it cannot wait."""
        if self._undecided is not None or not self._streams.are_seen_on_host(items):
            return None
        for _ in range(2):
            if self._waiting is None or self._waiting.lanes is not lanes:
                self.settle()
                self._streams.grow(int(lanes.max()) + 1)
                size = self._coder.stage_size(self._streams.count)
                if size < len(lanes):
                    return None
                self._waiting = self._streams.waiting(lanes, size)
            step = self._waiting.add(items, self._coder.room(self._streams.count))
            if step is not None:
                return step
            self.settle()
            self._make_room()
        return None

    def _recover(self) -> None:
        """Go on after a failure at whatever point: what lanes know, and where staged rows end, may be half changed."""
        self._unstage()
        self._forget_lanes()

    def _unstage(self) -> None:
        """Forget rows that nobody was told of, and what lanes had."""
        self._coder.unstage(but=sum(len(lane) for lane, _ in self._staged))
        self._coder.rest()

    def _forget_lanes(self) -> None:
        """Take the next items for the first of their streams."""
        self._streams, self._waiting = self._new_streams(self._streams.layout), None
        self._coder.rest()

    def _store_new(self, look: HostLook | DeviceLook, lanes: Ints) -> torch.Tensor:
        new = look.new() if look.asks is None else None
        if new is not None or look.asks is not None:
            due = self._new_sweep() if self._is_due() else None
            asks = [look.asks] if look.asks is not None else []
            answers = fetch(*asks, *(due.asks if due else [])) if asks or due else []
            if due is not None:
                self._finish(due, answers[len(asks) :])
            new = look.new(answers[0]) if asks else new
        stages = len(self._staged)
        numbers = self._store(look, lanes, new)
        if len(self._staged) > stages and self._coder.room(self._streams.count) < len(self._staged[-1][0]):
            self._encode_staged()
        return numbers

    def _store(self, look: HostLook | DeviceLook | WaitingSteps, lanes: Ints, new: Ints | None) -> torch.Tensor:
        """Store what is new, if it is little as rows for now; says the numbers of all items."""
        streams, table = self._streams, self._table
        if new is None:
            return streams.numbers[:, 0].index_select(0, on_device(lanes, self.device))
        news = streams.news(new, lanes)
        frames = look.frames(news.frames, self.device)
        batch, count = Batch(frames, news.lane, news.turn, streams.count), len(frames)
        is_little = look is self._waiting or 2 * count <= self._coder.stage_size(streams.count)
        first = self._coder.stage(frames, streams.count) if is_little else None
        coded = None
        if first is None:
            coded = self._encode(batch)
            own = np.column_stack([coded.start, coded.length, coded.row])
        else:
            own = np.zeros((count, 3), np.int64)
            own[:, 2] = np.arange(first, first + count)
        numbers = table.take(count)
        links, result = streams.take(batch, coded, news, lanes, numbers)
        table.words.index_copy_(0, numbers, torch.cat([links, on_device(own, self.device)], 1))
        look.remember()
        if coded is None:
            self._staged.append((news.lane, numbers.clone()))
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
            return self._coder.encode(batch)
        except HeapFullError:
            self.sweep()
            return self._coder.encode(batch)

    def _encode_staged(self) -> None:
        """Encode the frames that are rows for now."""
        if not self._staged:
            return
        lane, numbers = zip(*self._staged, strict=True)
        lanes, numbered = np.concatenate(lane), torch.cat(numbers)
        self._streams.grow(int(lanes.max()) + 1)  # after a failure it knows none
        order, each = np.argsort(lanes, kind="stable"), np.arange(len(lanes))
        begins = np.append(True, np.diff(lanes[order]) != 0)
        turn = np.empty_like(each)
        turn[order] = each - np.maximum.accumulate(np.where(begins, each, 0))
        batch = Batch(self._coder.staged(), lanes, turn, self._streams.count)
        coded = self._encode(batch)
        links = self._streams.renumber(batch, coded, numbered)
        own = on_device(np.column_stack([coded.start, coded.length, coded.row]), self.device)
        self._table.words[numbered, ROW_OF:] = torch.cat([links, own], 1)
        self._staged = []
        self._coder.unstage()

    def _come(self) -> int:
        """How many bytes have come to the heaps and the table, ever."""
        return self._table.taken * FRAME_NBYTES + sum(h.appended * h.row_nbytes for h, _, _ in self._coder.heaps())

    def _is_due(self) -> bool:
        """Whether so much has come since frames were last marked that it is worth while to see which are needed."""
        if self._undecided is not None:  # arrays still hold the numbers it gave out
            return False
        return self._come() > self._due_at

    def _new_sweep(self) -> Sweep:
        if not self._staged:
            self._coder.unstage(for_good=True)  # so that all can be moved
        items = [*(held.numbers for held in self.holders), self._streams.numbers[:, 0]]
        others = [self._streams.numbers.reshape(-1), *(numbers for _, numbers in self._staged)]
        return Sweep(self._table, self._coder.heaps(), items, others, self._streams.layout.depth)

    def _finish(self, due: Sweep, answers: list[list[int]], *, thoroughly: bool = False) -> None:
        due.finish(answers, thoroughly=thoroughly)
        self._due_at = self._come() + max(self.live_nbytes // 8, SMALLEST_SEGMENT)
