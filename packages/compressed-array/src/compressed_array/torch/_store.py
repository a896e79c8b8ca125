"""`DeviceStore`: the items of arrays on a torch device, by number, for several arrays and threads.

It is what `FrameStore` is on the host. Items are kept as they are (`UndecidedItems`) until it is seen how they are
stacked, and as frames (`StoredFrames`) from then on.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from compressed_array._runtime.epochs import Exclusive
from compressed_array._stores.frames.layouts import Layout
from compressed_array.errors import CorruptPayloadError
from compressed_array.torch import _state
from compressed_array.torch._cells import DeviceCells
from compressed_array.torch._coders import DeviceCodec
from compressed_array.torch._frames import Holders, StoredFrames
from compressed_array.torch._sync import Array, Ints, available_device, copy_to_host, outside_inference_mode
from compressed_array.torch._undecided import UndecidedItems
from compressed_array.torch._values import as_tensor

CellNumbers = Sequence[tuple[DeviceCells, torch.Tensor]]


class DeviceStore(Exclusive):
    """Items of one shape and dtype, by number, for all arrays that share the store.

    A caller that reads or writes takes `lock` and `guard` first, before it looks at the numbers of cells.

    Args:
        heap_bytes: What the heaps may take together; None for no limit.
    """

    @outside_inference_mode
    def __init__(
        self,
        item_shape: tuple[int, ...],
        dtype: torch.dtype,
        codec: DeviceCodec,
        device: torch.device,
        heap_bytes: int | None,
    ) -> None:
        self.item_shape, self.dtype, self.codec = item_shape, dtype, codec
        self.device, self.heap_bytes = device, heap_bytes
        self.item_nbytes = prod(item_shape) * dtype.itemsize
        super().__init__()
        self.holders: Holders = weakref.WeakSet()  # cells of arrays, which have numbers of ours
        layout = codec.layout(item_shape, dtype.itemsize)
        self._items: StoredFrames | UndecidedItems
        self._items = UndecidedItems(item_shape, dtype.itemsize, device) if layout is None else self._new_frames(layout)

    @property
    def lock(self) -> Any:
        """A lock that one thread at a time takes, and a fork waits for."""
        return self.writing

    @property
    def frames(self) -> StoredFrames | None:
        """The frames that items consist of; None until it is known how items are stacked."""
        return self._items if isinstance(self._items, StoredFrames) else None

    @property
    def nbytes(self) -> int:
        """All memory that the store has taken from the device."""
        with self.lock:
            return self._items.nbytes

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns items, of their dtype, given by a flat tensor of numbers."""
        data = self._items.read(numbers)
        return data.contiguous().view(self.dtype).reshape(len(numbers), *self.item_shape)

    def write(self, items: torch.Tensor | Array, lanes: Ints) -> torch.Tensor:
        """Stores items, those of a lane in their order. Returns their numbers."""
        held = self._items
        if isinstance(held, StoredFrames):
            return held.write(items, lanes)
        items = as_tensor(items)
        held, numbers = held.with_items(items.reshape(len(items), -1).contiguous().view(torch.uint8), lanes)
        layout, is_full = held.layout, self.heap_bytes is not None and held.nbytes > self.heap_bytes // 2
        if layout is None and is_full:
            layout = held.unstacked_layout
        if layout is not None:
            return self._decide(held, layout).index_select(0, numbers)
        self._items = held
        return numbers

    def write_row(self, cells: DeviceCells, row: int, items: torch.Tensor | Array, lanes: Ints) -> None:
        """Stores a step, an item of each lane, as a row of cells; later and with others, if it can be held back."""
        frames = self.frames
        step = None if frames is None else frames.hold_back(items, lanes)
        if step is not None:
            cells.pending[row] = step
        else:
            numbers = self.write(items, lanes)  # which may replace the numbers of the cells
            cells.numbers[row].copy_(numbers)

    def flushed_numbers(self, cells: DeviceCells) -> torch.Tensor:
        """Stores the pending steps. Returns the numbers of cells, among which are those of its steps now."""
        if self.frames is not None:
            self.frames.flush()
        return cells.numbers

    @outside_inference_mode
    def compact(self) -> None:
        """Frees all memory but that of items. The next write may have to store more than it otherwise would."""
        with self.lock, self.guard:
            if self.frames is not None:
                self.frames.compact()

    def state(self) -> dict[str, Any]:
        """Returns all that there is, in tensors and numbers."""
        return self._items.state()

    @outside_inference_mode
    def restore(self, state: dict[str, Any], numbers: CellNumbers = ()) -> None:
        """Takes over what `state` returned of another store; raises `CorruptPayloadError` if it is not of this kind.

        Args:
            numbers: The cells of all arrays on this store, each with the numbers that they have from now on.
        """
        given = [_state.checked_tensor(part, torch.int32, cells.numbers.shape) for cells, part in numbers]
        items: StoredFrames | UndecidedItems
        if "undecided" in state:
            held, lanes = _state.check_items(state["undecided"], self.item_nbytes, given)
            none = UndecidedItems(self.item_shape, self.dtype.itemsize, self.device)
            items, _ = none.with_items(held[1:].to(self.device), lanes[1:].numpy())
            if len(items.host) != len(held):
                raise CorruptPayloadError("the state contradicts itself: an item is there twice")
        else:
            if "coder" in state:  # as it was, with what lanes remembered
                heaps = [state["coder"][name] for name in ("rows", "puts", "payloads") if name in state["coder"]]
                state = {**state, "heaps": heaps}
            layout = _state.layout_of(state, self.item_shape, self.dtype.itemsize)
            items = self._new_frames(layout)
            _state.check_frames(state, layout.depth, items.coder, given)
            items.restore(state)
        self._exchange(
            items, [(cells, part.to(self.device, copy=True)) for (cells, _), part in zip(numbers, given, strict=True)]
        )

    @outside_inference_mode
    def __getstate__(self) -> dict[str, Any]:
        kind = (self.item_shape, self.dtype, self.codec, str(self.device), self.heap_bytes)
        with self.lock, self.guard:
            state = copy_to_host(self.state())  # first: it gives pending steps their numbers
            cells = [(held, copy_to_host(held.numbers)) for held in self.holders]
        seal = _state.checksum([state, *(numbers for _, numbers in cells)])
        return {"kind": kind, "state": state, "cells": cells, _state.CHECKSUM: seal}

    @outside_inference_mode
    def __setstate__(self, state: dict[str, Any]) -> None:
        item_shape, dtype, codec, device, heap_bytes = state["kind"]
        self.__init__(item_shape, dtype, codec, available_device(device), heap_bytes)  # type: ignore[misc]  # made without it
        cells = state["cells"]
        seal = state.get(_state.CHECKSUM)
        if seal is not None and seal != _state.checksum([state["state"], *(numbers for _, numbers in cells)]):
            raise CorruptPayloadError("the pickled items were changed since they were pickled")
        for held, numbers in cells:
            held.replace(numbers)  # which came without
        self.restore(state["state"], cells)
        self.holders.update(held for held, _ in cells)

    def _new_frames(self, layout: Layout) -> StoredFrames:
        coder = self.codec.coder(layout.frame_nbytes, self.dtype, self.device, self.heap_bytes)
        return StoredFrames(layout, self.item_shape, self.dtype.itemsize, coder, self.holders)

    def _decide(self, first: UndecidedItems, layout: Layout) -> torch.Tensor:
        """Stores the first items as frames. Returns their new numbers, in the order of the old ones."""
        frames = self._new_frames(layout)
        frames.set_holders(weakref.WeakSet())  # for now: cells still have the numbers of before
        items = first.host[1:].view(f"V{self.dtype.itemsize}").reshape(-1, *self.item_shape)
        numbers = frames.write(items, first.lanes[1:])
        frames.set_holders(self.holders)
        numbers = torch.cat([numbers.new_zeros(1), numbers])
        cells = [(held, numbers[held.numbers.to(torch.int64)].to(held.numbers.dtype)) for held in self.holders]
        self._exchange(frames, cells)
        return numbers

    def _exchange(self, items: StoredFrames | UndecidedItems, numbers: CellNumbers) -> None:
        """Replaces all items, and the numbers by which cells know them."""

        def exchange() -> None:
            self._items = items
            for held, others in numbers:
                held.replace(others)

        try:
            exchange()
        except BaseException:  # an interrupt, for which it is too late
            exchange()
            raise
