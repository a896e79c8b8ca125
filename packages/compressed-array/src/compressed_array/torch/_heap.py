"""`TorchHeap`: a segmented heap of records on a torch device, which grows and shrinks by itself.

A record is some rows of one or more columns, each a tensor of its own: a heap of bytes has one column, one of positions
and values has two, whose rows belong together. So what is stored is gathered as numbers, not put together from bytes.

Records are appended to a segment until that is full. A sweep tells the heap how many rows of each segment live
(`reclaim`); a segment without any is dropped, one with few is emptied by moving the rest. Addresses are
`segment << 40 | row`. All of it is done for whole batches, and nothing here waits for the device: sizes come from the
caller, who fetches them for several heaps at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch

from compressed_array.errors import HeapFullError

ColumnSpec = tuple[torch.dtype, tuple[int, ...]]
ROW_BITS = 40
ROW_MASK = (1 << ROW_BITS) - 1
SMALLEST_SEGMENT, LARGEST_SEGMENT = 64 * 1024, 64 * 1024 * 1024
ONE_SEGMENT = 4 * 1024 * 1024
SEGMENTS = 8  # target number of segments; each costs a few kernels per read


class Segment:
    """Memory for some rows, of which the first `used` are written and `live` are somebody's, as last counted."""

    def __init__(self, columns: Sequence[ColumnSpec], rows: int, device: torch.device) -> None:
        self.columns = [torch.empty((rows, *shape), dtype=dtype, device=device) for dtype, shape in columns]
        self.rows, self.used, self.live = rows, 0, 0


class Stage(NamedTuple):
    """A part of a segment where rows wait to be encoded."""

    segment: int
    first: int  # its first row there
    room: int  # in rows


class Gathering(NamedTuple):
    """Records that are to be read, in the order of their segments. `rows` counts those of each, on the device."""

    order: torch.Tensor | None
    start: torch.Tensor
    length: torch.Tensor
    rows: torch.Tensor


class TorchHeap:
    """Records of `columns` on a device.

    Args:
        columns: Dtype and shape of a row, for each column.
        device: Where the rows are kept.
        heap_bytes: What the heap may take at the most; without it, what there is.
        beside: Another heap, with which it shares this limit.
    """

    def __init__(
        self,
        columns: Sequence[ColumnSpec],
        device: torch.device,
        heap_bytes: int | None = None,
        beside: TorchHeap | None = None,
    ) -> None:
        self.columns, self.device, self.heap_bytes = list(columns), device, heap_bytes
        self._beside = beside
        if beside is not None:
            beside._beside = self
        self.row_nbytes = sum(dtype.itemsize * prod(shape) for dtype, shape in self.columns)
        self._segments: list[Segment | None] = []
        self._open = -1
        self._stage: Stage | None = None
        self._staged = 0  # rows on the stage
        self.appended = 0  # rows, since the heap was made

    @property
    def nbytes(self) -> int:
        """All memory that the heap has taken from the device."""
        return self.row_nbytes * sum(segment.rows for segment in self._segments if segment is not None)

    @property
    def used_rows(self) -> int:
        """Rows that were written and not dropped, alive or not."""
        return sum(segment.used for segment in self._segments if segment is not None)

    @property
    def live_rows(self) -> int:
        """Rows that lived when they were last counted, and those that came since."""
        return sum(segment.live for segment in self._segments if segment is not None)

    def append(self, columns: Sequence[torch.Tensor]) -> int:
        """Copies rows to the heap, all of them to one segment, and returns the address of the first.

        Args:
            columns: A tensor for each column, all of as many rows.
        """
        count = len(columns[0])
        segment = self._with_room(count)
        first = segment.used
        for held, rows in zip(segment.columns, columns, strict=True):
            held[first : first + count] = rows
        segment.used += count
        segment.live += count
        self.appended += count
        return self._open << ROW_BITS | first

    def stage(self, columns: Sequence[torch.Tensor], most: int) -> int | None:
        """Puts rows on the stage, where they stay until `clear_stage`, and returns the address of the first.

        Where there is no room for all of them, it returns None and puts none there.

        Args:
            columns: A tensor for each column, all of as many rows.
            most: How many rows the stage is to have room for.
        """
        if self._is_outgrown(most):
            self.drop_stage()
        if self._stage is None:
            segment = self._with_room(most)
            self._stage, self._staged = Stage(self._open, segment.used, most), 0
            segment.used += most
        number, first, room = self._stage
        count = len(columns[0])
        if self._staged + count > room:
            return None
        at = first + self._staged
        held = self._segments[number]
        assert held is not None  # it is not dropped
        for column, rows in zip(held.columns, columns, strict=True):
            column[at : at + count] = rows
        self._staged += count
        return number << ROW_BITS | at

    def room_to_stage(self, most: int) -> int:
        """Returns how many more rows can be staged.

        Args:
            most: How many rows the stage is to have room for.
        """
        return most if self._stage is None or self._is_outgrown(most) else self._stage.room - self._staged

    def staged(self) -> list[torch.Tensor]:
        """Returns the columns of the rows that are on the stage, in order."""
        if self._stage is None:
            return self._no_rows()
        number, first, _ = self._stage
        held = self._segments[number]
        assert held is not None
        return [column[first : first + self._staged] for column in held.columns]

    def clear_stage(self, keep: int = 0) -> None:
        """Drops the rows that are on the stage.

        Args:
            keep: How many of the first rows stay.
        """
        self._staged = keep

    def drop_stage(self) -> None:
        """Ends the stage, whose memory is that of any other rows from then on."""
        self._stage, self._staged = None, 0

    def gathering(self, start: torch.Tensor, length: torch.Tensor) -> Gathering:
        """Returns what `gather` needs to read records.

        Args:
            start: The addresses of their first rows.
            length: How many rows each has.
        """
        if len(self._present()) <= 1:
            return Gathering(None, start, length, length.sum().reshape(1))
        order = torch.argsort(start >> ROW_BITS, stable=True)
        return Gathering(order, start[order], length[order], self.count_by_segment(start, length))

    def gather(self, records: Gathering, rows: Sequence[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Returns the rows of records: which record each is of, and the columns.

        Args:
            records: What `gathering` returned for them.
            rows: What `records.rows` holds, fetched from the device.
        """
        total = sum(rows)
        if not total:
            return records.start[:0], self._no_rows()
        which = torch.repeat_interleave(records.length, output_size=total)
        # A record's rows count on from its start, and all rows from the first of its segment here.
        offset = (records.start & ROW_MASK) - (torch.cumsum(records.length, 0) - records.length)
        place = offset.index_select(0, which).add_(torch.arange(total, device=self.device))
        owner = which if records.order is None else records.order.index_select(0, which)
        return owner, self._take(place, rows)

    def rows_at(self, start: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
        """Returns the first column of records of one row each.

        Args:
            start: The addresses of the records.
            counts: How many of them each segment has, as `count_by_segment` counts them.
        """
        present = self._present()
        if len(present) == 1:
            return present[0].columns[0].index_select(0, start & ROW_MASK)
        order = torch.argsort(start >> ROW_BITS, stable=True)
        (taken,) = self._take((start & ROW_MASK)[order], counts)
        return torch.empty_like(taken).index_copy_(0, order, taken)

    def count_by_segment(self, start: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Returns sums over the records of each segment, on the device.

        Args:
            start: The addresses of the records.
            weight: What is added up, a number for each record.
        """
        sums = torch.zeros(max(len(self._segments), 1), dtype=torch.int64, device=self.device)
        return sums.index_add_(0, start >> ROW_BITS, weight.to(torch.int64))

    def reclaim(self, live: Sequence[int], *, thoroughly: bool) -> list[int]:
        """Drops the segments without live rows, and returns the numbers of those that are worth emptying.

        Args:
            live: How many rows of each segment live.
            thoroughly: Whether any garbage makes a segment worth that.
        """
        for number, segment in enumerate(list(self._segments)):
            if segment is not None:
                segment.live = live[number]
                if segment.used and not segment.live and not self._is_stage(number):
                    self._drop(number)
        return self._worth_emptying(thoroughly)

    def moved(self, start: torch.Tensor, length: torch.Tensor, sparse: Sequence[int]) -> torch.Tensor:
        """Copies all live records of some segments to another one, and returns their addresses there.

        Until `drop` they are in both places, whatever the limit, so that the frame table can be told the new one first.

        Args:
            start: The addresses of the records.
            length: How many rows each has.
            sparse: The numbers of the segments.
        """
        rows = [segment.live if segment and n in sparse else 0 for n, segment in enumerate(self._segments)]
        records = self.gathering(start, length)
        _, columns = self.gather(records, [sum(rows)] if records.order is None else rows)
        if self._open in sparse:
            self._open = -1
        limit, self.heap_bytes = self.heap_bytes, None
        try:
            moved = torch.cumsum(records.length, 0) - records.length + self.append(columns)
        finally:
            self.heap_bytes = limit
        return moved if records.order is None else torch.empty_like(moved).index_copy_(0, records.order, moved)

    def drop(self, segments: Sequence[int]) -> None:
        """Frees the memory of segments.

        Args:
            segments: Their numbers.
        """
        for number in segments:
            self._drop(number)

    def state(self) -> list[list[torch.Tensor] | None]:
        """Returns the columns of each segment, which are not copied; None for one that was dropped."""
        return [
            None if segment is None else [column[: segment.used] for column in segment.columns]
            for segment in self._segments
        ]

    def restore(self, state: list[list[torch.Tensor] | None]) -> None:
        """Replaces all rows by those of another heap.

        Args:
            state: What `state` of that heap returned.
        """
        self._segments, self._open, self._stage = [], -1, None
        for columns in state:
            segment = None
            if columns is not None:
                segment = Segment(self.columns, len(columns[0]), self.device)
                segment.used = segment.live = segment.rows
                for held, rows in zip(segment.columns, columns, strict=True):
                    held.copy_(rows)
            self._segments.append(segment)

    def _present(self) -> list[Segment]:
        return [segment for segment in self._segments if segment is not None]

    def _take(self, place: torch.Tensor, rows: Sequence[int]) -> list[torch.Tensor]:
        present = self._present()
        if len(present) == 1:
            return [column.index_select(0, place) for column in present[0].columns]
        parts: list[list[torch.Tensor]] = [[] for _ in self.columns]
        low = 0
        for segment, count in zip(self._segments, rows, strict=True):
            if segment is not None and count:
                for part, column in zip(parts, segment.columns, strict=True):
                    part.append(column.index_select(0, place[low : low + count]))
                low += count
        return [torch.cat(part) for part in parts] if low else self._no_rows()

    def _no_rows(self) -> list[torch.Tensor]:
        return [torch.empty((0, *shape), dtype=dtype, device=self.device) for dtype, shape in self.columns]

    def _worth_emptying(self, thoroughly: bool) -> list[int]:
        """Returns the segments worth emptying: the sparsest, until there is little garbage, and small ones."""
        candidates = [(n, s) for n, s in enumerate(self._segments) if s is not None and not self._is_stage(n)]
        garbage = self.used_rows - self.live_rows
        allowed = 0 if thoroughly else self.live_rows // 4 + SMALLEST_SEGMENT // self.row_nbytes
        sparse = []
        for number, segment in sorted(candidates, key=lambda item: item[1].live / max(item[1].used, 1)):
            if garbage > allowed and segment.live < segment.used:
                garbage -= segment.used - segment.live
                sparse.append(number)
            elif number != self._open and 2 * segment.rows < self._usual_rows():
                sparse.append(number)  # a segment too many to read from
        return sparse

    def _is_outgrown(self, most: int) -> bool:
        """Whether there is a stage that is too small, and nothing on it."""
        return self._stage is not None and not self._staged and self._stage.room < most

    def _is_stage(self, number: int) -> bool:
        return self._stage is not None and self._stage.segment == number

    def _with_room(self, count: int) -> Segment:
        """Returns the segment that is appended to, in which there is room for `count` more rows."""
        segment = self._segments[self._open] if self._open >= 0 else None
        if segment is not None and segment.used + count <= segment.rows:
            return segment
        wanted = 0 if segment is None else max(segment.rows * 3 // 2, segment.used + count)
        if segment is not None and len(self._present()) == 1 and wanted * self.row_nbytes <= ONE_SEGMENT:
            # A small heap is one segment, which takes fewer kernels to read from, and is copied to a larger one.
            more = self._allowed(wanted - segment.rows, segment.used + count - segment.rows)
            larger = Segment(self.columns, segment.rows + more, self.device)
            for new, old in zip(larger.columns, segment.columns, strict=True):
                new[: segment.used] = old[: segment.used]
            larger.used, larger.live = segment.used, segment.live
            self._segments[self._open] = larger
            return larger
        made = Segment(self.columns, self._allowed(max(count, self._usual_rows()), count), self.device)
        vacant = next((n for n, part in enumerate(self._segments) if part is None), None)
        if vacant is None:
            vacant = len(self._segments)
            self._segments.append(None)
        self._segments[vacant], self._open = made, vacant
        return made

    def _allowed(self, rows: int, least: int) -> int:
        """Returns how many of `rows` the limit allows to be added; raises `HeapFullError` below `least`."""
        if self.heap_bytes is None:
            return rows
        taken = self.nbytes + (0 if self._beside is None else self._beside.nbytes)
        room = (self.heap_bytes - taken) // self.row_nbytes
        if room < least:
            needed = taken + least * self.row_nbytes
            raise HeapFullError(
                f"heap_bytes is {self.heap_bytes:,} and {needed:,} are needed; give more, or leave it out"
            )
        return min(rows, room)

    def _usual_rows(self) -> int:
        """Returns the size of a new segment. A small heap has small ones, for little slack, a large heap has few."""
        wanted = self.live_rows * self.row_nbytes // SEGMENTS
        return max(min(max(wanted, SMALLEST_SEGMENT), LARGEST_SEGMENT) // self.row_nbytes, 1)

    def _drop(self, number: int) -> None:
        self._segments[number] = None
        if number == self._open:
            self._open = -1
        while self._segments and self._segments[-1] is None:
            self._segments.pop()
