"""`Sweep`: finding out which frames are needed, and giving back the memory of the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch

from compressed_array.torch._coders.base import FrameHeap
from compressed_array.torch._frame_table import ROW_OF, FrameTable
from compressed_array.torch._heap import ROW_BITS
from compressed_array.torch._sync import on_device


class Needed(NamedTuple):
    """What needed frames have in a heap, for each of its segments; numbers on the device."""

    rows: torch.Tensor
    records: torch.Tensor


class Sweep:
    """A search for the frames of a table that are needed, in two parts, so that other things are fetched in between.

    The first marks on the device what is needed, and `to_fetch` is how much that is. `finish` frees the rest.
    """

    def __init__(
        self,
        table: FrameTable,
        heaps: Sequence[FrameHeap],
        items: Sequence[torch.Tensor],
        others: Sequence[torch.Tensor],
        depth: int,
    ) -> None:
        """Marks what is needed.

        Args:
            heaps: As `Coder.heaps` returns them.
            items: Numbers of items, of which all `depth` frames are needed.
            others: Numbers of frames that are needed by themselves.
        """
        self._table, self._heaps = table, heaps
        self._needed = table.mark_needed(items, depth)
        for numbers in others:
            self._needed[numbers] = True
        self.needed_of: list[Needed] = []  # each heap
        for held in heaps:
            where, rows = self._records(held)
            self.needed_of.append(
                Needed(held.heap.count_by_segment(where, rows), held.heap.count_by_segment(where, rows > 0))
            )
        self.to_fetch = [self._needed.sum(), *(part for needed in self.needed_of for part in needed)]

    def finish(self, answers: Sequence[Sequence[int]], *, thoroughly: bool) -> None:
        """Frees what is not needed.

        Args:
            answers: What `to_fetch` holds, fetched from the device.
            thoroughly: Whether to empty all segments that have garbage, and not only if there is much.
        """
        fetched = iter(answers)
        (count,) = next(fetched)
        self._table.free_all_but(self._needed, count)
        for held in self._heaps:
            rows, records = next(fetched), next(fetched)
            sparse = held.heap.reclaim(rows, thoroughly=thoroughly)
            if sparse:
                with suppress(MemoryError, torch.OutOfMemoryError):  # where there is no room, garbage stays garbage
                    self._empty(held, sparse, sum(records[n] for n in sparse))

    def _records(self, held: FrameHeap) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns where the records of needed frames are in a heap, and how many rows each has, which may be 0."""
        words, length = self._table.words, held.length_word
        if length is None:  # a row, of the frame that begins with it
            is_own = words[:, ROW_OF] == torch.arange(len(words), device=words.device)
            rows = (self._needed & is_own).to(torch.int64)
        else:
            rows = torch.where(self._needed, words[:, length], 0)
        return torch.where(rows > 0, words[:, held.address_word], 0), rows

    def _empty(self, held: FrameHeap, sparse: Sequence[int], count: int) -> None:
        """Moves the records that are needed, `count` of them, out of the segments `sparse`, and drops those."""
        where, rows = self._records(held)
        among = torch.isin(where >> ROW_BITS, on_device(np.array(sparse), where.device)) & (rows > 0)
        which = torch.argsort(among.to(torch.uint8), descending=True, stable=True)[:count]
        if count:
            self._table.words[which, held.address_word] = held.heap.moved(where[which], rows[which], sparse)
        held.heap.drop(sparse)
