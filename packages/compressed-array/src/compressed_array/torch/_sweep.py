"""`Sweep`: finding out which frames are needed, and giving back the memory of the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch

from compressed_array.torch._frame_table import ROW_OF, FrameTable
from compressed_array.torch._heap import ROW_BITS, TorchHeap
from compressed_array.torch._sync import on_device

Heaps = Sequence[tuple[TorchHeap, int, int | None]]


class Sweep:
    """A look at all frames of a table, in two parts, so that what it has to fetch is fetched with other things.

    The first marks on the device what is needed and leaves in `to_fetch` how much that is. `finish` frees the rest.
    """

    def __init__(
        self,
        table: FrameTable,
        heaps: Heaps,
        items: Sequence[torch.Tensor],
        others: Sequence[torch.Tensor],
        depth: int,
    ) -> None:
        """Mark what is needed.

        Args:
            heaps: As `Coder.heaps` returns them.
            items: Numbers of items, of which all `depth` frames are needed.
            others: Numbers of frames that are needed by themselves.
        """
        self._table, self._heaps = table, heaps
        self._needed = table.mark_needed(items, depth)
        for numbers in others:
            self._needed[numbers] = True
        self.to_fetch = [self._needed.sum()]
        for heap, address, length in heaps:
            where, rows = self._records(address, length)
            self.to_fetch += [heap.count_by_segment(where, rows), heap.count_by_segment(where, rows > 0)]

    def finish(self, answers: Sequence[Sequence[int]], *, thoroughly: bool) -> None:
        """Free what is not needed.

        Args:
            answers: What `to_fetch` holds.
            thoroughly: Whether to empty all segments that have garbage, and not only if there is much.
        """
        self._table.free_all_but(self._needed, answers[0][0])
        for (heap, address, length), rows, records in zip(self._heaps, answers[1::2], answers[2::2], strict=True):
            sparse = heap.reclaim(rows, thoroughly=thoroughly)
            if sparse:
                with suppress(MemoryError, torch.OutOfMemoryError):  # where there is no room, garbage stays garbage
                    self._empty(heap, sparse, sum(records[n] for n in sparse), address, length)

    def _records(self, address: int, length: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns where the records of needed frames are in a heap, and how many rows each has, which may be 0."""
        words = self._table.words
        if length is None:  # a row, of the frame that begins with it
            is_own = words[:, ROW_OF] == torch.arange(len(words), device=words.device)
            rows = (self._needed & is_own).to(torch.int64)
        else:
            rows = torch.where(self._needed, words[:, length], 0)
        return torch.where(rows > 0, words[:, address], 0), rows

    def _empty(self, heap: TorchHeap, sparse: Sequence[int], count: int, address: int, length: int | None) -> None:
        """Move the records that are needed, `count` of them, out of the segments `sparse`, and drop those."""
        where, rows = self._records(address, length)
        among = torch.isin(where >> ROW_BITS, on_device(np.array(sparse), where.device)) & (rows > 0)
        which = torch.argsort(among.to(torch.uint8), descending=True, stable=True)[:count]
        if count:
            self._table.words[which, address] = heap.moved(where[which], rows[which], sparse)
        heap.drop(sparse)
