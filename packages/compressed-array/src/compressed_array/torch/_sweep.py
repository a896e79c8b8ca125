"""`Sweep`: finding out which frames are needed, and giving back the memory of the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch

from compressed_array.torch._coders.base import on_device
from compressed_array.torch._frame_table import ROW_OF, FrameTable
from compressed_array.torch._heap import ROW_BITS, TorchHeap

Heaps = Sequence[tuple[TorchHeap, int, int | None]]


class Sweep:
    """One look at all frames. What it found out on the device is asked for with other things, as `asks`."""

    def __init__(
        self,
        table: FrameTable,
        heaps: Heaps,
        items: Sequence[torch.Tensor],
        others: Sequence[torch.Tensor],
        depth: int,
    ) -> None:
        """`items` are held with all frames of theirs, of `depth`, `others` by themselves."""
        self._table, self._heaps = table, heaps
        self._needed = table.mark(items, depth)
        for numbers in others:
            self._needed[numbers] = True
        self.asks = [self._needed.sum()]
        for heap, address, length in heaps:
            where, rows = self._records(address, length)
            self.asks += [heap.count_by_segment(where, rows), heap.count_by_segment(where, rows > 0)]

    def finish(self, answers: Sequence[Sequence[int]], *, thoroughly: bool) -> None:
        """Free what is not needed, by what `asks` holds."""
        self._table.keep(self._needed, answers[0][0])
        for (heap, address, length), rows, records in zip(self._heaps, answers[1::2], answers[2::2], strict=True):
            sparse = heap.reclaim(rows, thoroughly=thoroughly)
            if sparse:
                with suppress(MemoryError, torch.OutOfMemoryError):  # where there is no room, garbage stays garbage
                    self._empty(heap, sparse, sum(records[n] for n in sparse), address, length)

    def _records(self, address: int, length: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the records of needed frames are in a heap, and of how many rows."""
        words = self._table.words
        if length is None:  # a row, of the frame that begins with it
            is_own = words[:, ROW_OF] == torch.arange(len(words), device=words.device)
            rows = (self._needed & is_own).to(torch.int64)
        else:
            rows = torch.where(self._needed, words[:, length], 0)
        return torch.where(rows > 0, words[:, address], 0), rows

    def _empty(self, heap: TorchHeap, sparse: Sequence[int], count: int, address: int, length: int | None) -> None:
        """Empty segments, in which there are so many records."""
        where, rows = self._records(address, length)
        among = torch.isin(where >> ROW_BITS, on_device(np.array(sparse), where.device)) & (rows > 0)
        which = torch.argsort(among.to(torch.uint8), descending=True, stable=True)[:count]
        if count:
            self._table.words[which, address] = heap.moved(where[which], rows[which], sparse)
        heap.drop(sparse)
