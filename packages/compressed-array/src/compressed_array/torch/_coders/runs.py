"""`RowCoder`: frames as rows, and as rows of other frames with patches; and `RunLengthCoder`, which is "rle".

A patch is a position in a row and the element that belongs there.
"""

from __future__ import annotations

import numpy as np
import torch

from compressed_array.codecs import _rle_formula
from compressed_array.torch._coders.base import BLANK, Batch, Coded, FrameHeap, StagesNothing, marked, starts_of
from compressed_array.torch._dtypes import INTEGERS
from compressed_array.torch._frame_table import LENGTH, ROW, ROW_OF, START, FrameTable
from compressed_array.torch._heap import TorchHeap
from compressed_array.torch._sync import Ints, fetch, on_device


class RowCoder(StagesNothing):
    """Keeps rows of `width` elements in one heap, and in another the patches that make other frames of them."""

    def __init__(self, frame_nbytes: int, itemsize: int, device: torch.device, heap_bytes: int | None) -> None:
        self.frame_nbytes, self.device = frame_nbytes, device
        self.element = INTEGERS[itemsize]
        self.width = -(-frame_nbytes // itemsize)
        self.positions = torch.int16 if self.width <= 2**15 else torch.int32
        self.rows = TorchHeap([(self.element, (self.width,))], device, heap_bytes)
        self.patches = TorchHeap([(self.positions, ()), (self.element, ())], device, heap_bytes, self.rows)
        self.rows.append([torch.zeros((1, self.width), dtype=self.element, device=device)])

    def heaps(self) -> list[FrameHeap]:
        return [FrameHeap(self.rows, ROW, None), FrameHeap(self.patches, START, LENGTH)]

    def elements(self, frames: torch.Tensor) -> torch.Tensor:
        """Returns frames of bytes as rows of elements, of which the last is filled up with zeros."""
        missing = self.width * self.element.itemsize - self.frame_nbytes
        whole = torch.nn.functional.pad(frames, (0, missing)) if missing else frames
        return whole.contiguous().view(self.element)

    def bytes_of(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns rows of elements as frames of bytes."""
        whole = rows.view(torch.uint8)
        return whole if whole.shape[1] == self.frame_nbytes else whole[:, : self.frame_nbytes]

    def patched_rows(self, table: FrameTable, rows: torch.Tensor, patches: list[torch.Tensor]) -> torch.Tensor:
        """Returns for each frame a copy of the row that it begins with, overwritten by patches.

        Args:
            rows: For each row the number of the frame whose row it is.
            patches: Numbers of the frames whose patches they are, as many in each tensor; later ones come on top.
        """
        address = table.words[:, ROW].index_select(0, rows)
        parts = [table.words.index_select(0, frames) for frames in patches]
        records = [self.patches.gathering(words[:, START], words[:, LENGTH]) for words in parts]
        counts, *sizes = fetch(
            self.rows.count_by_segment(address, torch.ones_like(address)), *(r.rows for r in records)
        )
        out = self.rows.rows_at(address, counts)
        flat = out.view(-1)
        for record, size in zip(records, sizes, strict=True):
            if sum(size):
                owner, (place, value) = self.patches.gather(record, size)
                flat.index_copy_(0, owner.mul_(self.width).add_(place), value)
        return out

    def _cost(self, count: Ints) -> Ints:
        """Returns how many elements of a row take as much memory as `count` patches."""
        return count * self.patches.row_nbytes // self.element.itemsize

    def _append(
        self, frames: torch.Tensor, as_row: Ints, patches: list[list[torch.Tensor]], length: Ints
    ) -> tuple[Ints, Ints]:
        """Stores the frames `as_row` as rows, and the patches of the others. Returns the addresses of both."""
        row = np.zeros(len(length), np.int64)
        if as_row.size:
            first = self.rows.append([frames.index_select(0, on_device(as_row, self.device))])
            row[as_row] = first + np.arange(len(as_row))
        if not patches:
            return row, np.zeros(len(length), np.int64)
        first = self.patches.append(
            [torch.cat(part) if len(patches) > 1 else part[0] for part in zip(*patches, strict=True)]
        )
        return row, starts_of(first, length)


class RunLengthCoder(RowCoder):
    """Stores of runs of equal elements where each begins, and by how much it differs from the one before.

    Rows hold such differences, too, so that adding them up gives every frame, whichever way it was stored.
    """

    def encode(self, batch: Batch) -> Coded:
        elements = self.elements(batch.frames)
        steps = torch.cat([elements[:, :1], elements[:, 1:] - elements[:, :-1]], 1)
        begins = _rle_formula.run_starts(torch, elements)
        begins[:, :1] &= elements[:, :1] != 0  # a first run of zeros begins by itself
        (counts,) = fetch(begins.sum(1))
        length = np.array(counts)
        # A patch takes as long as copying many: a frame is worth that where it gets much smaller by it.
        as_row = self._cost(length) >= self.width // 2
        length[as_row] = 0
        begins &= on_device(~as_row, self.device)[:, None]
        total = int(length.sum())
        patches = [marked(begins, steps, total, self.positions)] if total else []
        row, start = self._append(steps, np.flatnonzero(as_row), patches, length)
        own = batch.own_link(np.arange(len(length)))
        lanes = np.arange(batch.lanes)
        blank = np.full(len(length), BLANK)
        return Coded(np.where(as_row, own, BLANK), blank, start, length, row, 0 * lanes, 0 * lanes)

    def decode(self, table: FrameTable, frames: torch.Tensor) -> torch.Tensor:
        steps = self.patched_rows(table, table.words[frames, ROW_OF], [frames])
        return self.bytes_of(torch.cumsum(steps, 1, dtype=self.element, out=steps))
