"""`RowCoder`: frames as rows, of which others are made by putting elements in; and `RunLengthCoder`, which is "rle".

A "put" is a position in a row and the element that belongs there.
"""

from __future__ import annotations

import numpy as np
import torch

from compressed_array.codecs import _rle_formula
from compressed_array.torch._coders.base import BLANK, Batch, Coded, StagesNothing, marked, starts_of
from compressed_array.torch._dtypes import INTEGERS
from compressed_array.torch._frame_table import LENGTH, ROW, ROW_OF, START, FrameTable
from compressed_array.torch._heap import TorchHeap
from compressed_array.torch._sync import Ints, fetch, on_device


class RowCoder(StagesNothing):
    """Keeps rows of `width` elements in one heap, and the puts that make other frames of them in another."""

    def __init__(self, frame_nbytes: int, itemsize: int, device: torch.device, heap_bytes: int | None) -> None:
        self.frame_nbytes, self.device = frame_nbytes, device
        self.element = INTEGERS[itemsize]
        self.width = -(-frame_nbytes // itemsize)
        self.positions = torch.int16 if self.width <= 2**15 else torch.int32
        self.rows = TorchHeap([(self.element, (self.width,))], device, heap_bytes)
        self.puts = TorchHeap([(self.positions, ()), (self.element, ())], device, heap_bytes, self.rows)
        self.rows.append([torch.zeros((1, self.width), dtype=self.element, device=device)])

    def heaps(self) -> list[tuple[TorchHeap, int, int | None]]:
        return [(self.rows, ROW, None), (self.puts, START, LENGTH)]

    def elements(self, frames: torch.Tensor) -> torch.Tensor:
        """Returns frames of bytes as rows of elements, of which the last is filled up with zeros."""
        missing = self.width * self.element.itemsize - self.frame_nbytes
        whole = torch.nn.functional.pad(frames, (0, missing)) if missing else frames
        return whole.contiguous().view(self.element)

    def bytes_of(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns rows of elements as frames of bytes."""
        whole = rows.view(torch.uint8)
        return whole if whole.shape[1] == self.frame_nbytes else whole[:, : self.frame_nbytes]

    def rows_with(self, table: FrameTable, rows: torch.Tensor, puts: list[torch.Tensor]) -> torch.Tensor:
        """Returns the rows of some frames after putting in the elements of others.

        Args:
            rows: For each row the number of the frame whose row it is.
            puts: Numbers of frames, as many in each tensor; the puts of the first are overwritten by the second's.
        """
        address = table.words[:, ROW].index_select(0, rows)
        parts = [table.words.index_select(0, frames) for frames in puts]
        records = [self.puts.gathering(words[:, START], words[:, LENGTH]) for words in parts]
        counts, *sizes = fetch(
            self.rows.count_by_segment(address, torch.ones_like(address)), *(r.rows for r in records)
        )
        out = self.rows.rows_at(address, counts)
        flat = out.view(-1)
        for record, size in zip(records, sizes, strict=True):
            if sum(size):
                owner, (place, value) = self.puts.gather(record, size)
                flat.index_copy_(0, owner.mul_(self.width).add_(place), value)
        return out

    def _cost(self, count: Ints) -> Ints:
        """Returns how many elements of a row take as much memory as `count` puts."""
        return count * self.puts.row_nbytes // self.element.itemsize

    def _append(
        self, frames: torch.Tensor, as_row: Ints, puts: list[list[torch.Tensor]], length: Ints
    ) -> tuple[Ints, Ints]:
        """Store the frames `as_row` as rows, and the puts of the others. Returns the addresses of both."""
        row = np.zeros(len(length), np.int64)
        if as_row.size:
            first = self.rows.append([frames.index_select(0, on_device(as_row, self.device))])
            row[as_row] = first + np.arange(len(as_row))
        if not puts:
            return row, np.zeros(len(length), np.int64)
        first = self.puts.append([torch.cat(part) if len(puts) > 1 else part[0] for part in zip(*puts, strict=True)])
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
        # Putting an element in takes as long as copying many: a frame is worth that where it gets much smaller by it.
        as_row = self._cost(length) >= self.width // 2
        length[as_row] = 0
        begins &= on_device(~as_row, self.device)[:, None]
        total = int(length.sum())
        puts = [marked(begins, steps, total, self.positions)] if total else []
        row, start = self._append(steps, np.flatnonzero(as_row), puts, length)
        own = batch.own_link(np.arange(len(length)))
        lanes = np.arange(batch.lanes)
        blank = np.full(len(length), BLANK)
        return Coded(np.where(as_row, own, BLANK), blank, start, length, row, 0 * lanes, 0 * lanes)

    def decode(self, table: FrameTable, frames: torch.Tensor) -> torch.Tensor:
        steps = self.rows_with(table, table.words[frames, ROW_OF], [frames])
        return self.bytes_of(torch.cumsum(steps, 1, dtype=self.element, out=steps))
