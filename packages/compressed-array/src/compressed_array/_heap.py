"""`HostHeap`: a segmented log of payloads in RAM.

Payloads are appended to segments; a segment counts the bytes in it that still live, and is returned to the system when
none do. A ring that overwrites in the order it wrote empties its segments in that order, so nothing is ever moved.
Random overwrites leave garbage spread over many segments: `take_sparse_segment` names one worth moving, and the store,
which knows what each payload belongs to, moves them.

An address is `segment << 32 | offset`: one number, which a reader can fetch in one piece while a writer changes it.
"""

from __future__ import annotations

import mmap
import sys

import numpy as np

from compressed_array._runtime.memory import map_memory
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Bytes, Words

OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1
MAX_PAYLOAD = OFFSET_MASK
SMALLEST_SEGMENT, LARGEST_SEGMENT = 256 * 1024, 4 * 1024 * 1024
# Segments are compacted when garbage exceeds this share of the live bytes; a ring empties its segments by itself, and
# should move nothing.
MOST_GARBAGE = 1 / 8
MOST_SEGMENTS = 2**18  # a table of 2 MiB, of which only what is used is ever touched

_NOTHING: Bytes = np.empty(0, np.uint8)


class HostHeap:
    """Bytes in RAM by address. Not thread-safe by itself: the store's `Epochs` keep readers and the writer apart."""

    def __init__(self) -> None:
        self._buffers: list[Bytes] = []
        # The address of each segment. Made for all there will ever be: a reader may look up one that was not there
        # when it began.
        self.bases: Words = map_memory(8 * MOST_SEGMENTS).view(np.int64)
        # Bytes of each segment that are written, and that live; replaced, in this order, when there are more segments.
        self.used: Words = np.empty(0, np.int64)
        self.live: Words = np.empty(0, np.int64)
        self._touched: Words = np.empty(0, np.int64)
        self._open = -1
        self._vacant: list[int] = []
        # Segments that died, for the next that are needed: a ring would otherwise return one and fault in another for
        # each one it fills. Of each, how many bytes were ever touched.
        self._spare: list[tuple[Bytes, int]] = []
        self._reusable = range(0)  # what size of a segment the next reservation can do with, too
        self._sparse: set[int] = set()
        self._reserved: set[int] = set()

    def append(self, payloads: Payloads) -> Words:
        """Copies payloads in and returns their addresses; all of them, or (out of memory) none."""
        if not len(payloads):
            return np.empty(0, np.int64)
        ends = np.cumsum(payloads.size)
        address = np.empty(len(payloads), np.int64)
        first = 0
        try:
            while first < len(payloads):
                done = int(ends[first - 1]) if first else 0
                number, last = self._open, int(np.searchsorted(ends, done + self._room(), side="right"))
                if last == first:
                    number, last = self._new_segment(int(payloads.size[first])), first + 1
                offset = int(self.used[number]) + (ends[first:last] - payloads.size[first:last] - done)
                payloads.select(np.arange(first, last)).copy_to(self._buffers[number], offset)
                address[first:last] = (number << OFFSET_BITS) | offset
                self.used[number] += ends[last - 1] - done
                self.live[number] += ends[last - 1] - done
                self._touched[number] = max(self._touched[number], self.used[number])
                first = last
        except BaseException:
            self.free(address[:first], payloads.size[:first])
            raise
        return address

    def reserve(self, least: int, usual: int, *, fresh: bool = False) -> int:
        """Reserves a segment that the caller fills until `end_reservation`, keeping `used` and `live` up to date.

        Returns its number. It has at least `least` bytes; a fresh one costs only what is used of it.
        """
        self._reusable = range(0) if fresh else range(max(least, usual // 8), 2 * usual + 1)
        number = self._place(*self._segment_of(self._reusable, usual))
        self._reserved.add(number)
        return number

    def end_reservation(self, number: int) -> None:
        """Ends a reservation. What was appended stays for as long as it lives."""
        self._reserved.discard(number)
        self._touched[number] = max(self._touched[number], self.used[number])
        self._drop_or_mark_sparse(number)

    def seal(self) -> None:
        """Closes the segment that is appended to: the next payload goes to another one."""
        sealed, self._open = self._open, -1
        if sealed >= 0:
            self._drop_or_mark_sparse(sealed)

    def segment(self, number: int) -> Bytes:
        """Returns the memory of a segment."""
        return self._buffers[number]

    def payloads(self, address: Words, size: Words) -> Payloads:
        """Returns the payloads at these addresses, by reference, which keeps the memory of all segments meanwhile."""
        return Payloads(tuple(self._buffers), address >> OFFSET_BITS, address & OFFSET_MASK, size, self.bases)

    def free(self, address: Words, size: Words) -> None:
        """Frees payloads. Their bytes may be reused at once: no reader may look at them any more."""
        segment = address >> OFFSET_BITS
        np.subtract.at(self.live, segment, size)
        for number in set(segment.tolist()) - {self._open} - self._reserved:
            self._drop_or_mark_sparse(number)

    def take_sparse_segment(self, *, thoroughly: bool = False) -> int | None:
        """Returns the segment with the smallest share of live bytes if compacting pays, else None.

        With `thoroughly`, any that is not mostly alive. A segment is named once: the caller moves every payload in it,
        and frees the old places when no reader is left.
        """
        if not self._sparse:
            return None
        live = int(self.live.sum())
        garbage = int(self.used.sum()) - live
        if not thoroughly and garbage <= MOST_GARBAGE * live + 2 * self._segment_bytes():
            return None
        number = min(self._sparse, key=lambda number: self.live[number] / self.used[number])
        self._sparse.discard(number)
        return number

    @property
    def nbytes(self) -> int:
        """Everything resident: payloads, garbage, touched slack, spare segments, the heap's own tables."""
        page = mmap.PAGESIZE
        spare = np.array([touched for _, touched in self._spare], np.int64)
        touched = np.append(np.maximum(self._touched, self.used), spare)
        segments = int(((touched + page - 1) // page * page).sum())
        tables = 2 * self.used.nbytes + self.live.nbytes + self._touched.nbytes
        return segments + tables

    def _segment_bytes(self) -> int:
        """Returns the size of a new segment. It grows with the heap, so that small heaps have little slack."""
        wanted = int(self.used.sum()) // 16
        return min(max(1 << wanted.bit_length(), SMALLEST_SEGMENT), LARGEST_SEGMENT)

    def _room(self) -> int:
        return self._buffers[self._open].size - int(self.used[self._open]) if self._open >= 0 else 0

    def _new_segment(self, nbytes: int) -> int:
        """Returns a new segment for a payload of `nbytes`, and opens it, unless it has room for that payload alone."""
        usual = self._segment_bytes()
        if nbytes > usual:
            return self._place(_whole_pages(nbytes), touched=0)
        number = self._place(*self._segment_of(range(usual, sys.maxsize), usual))
        self.seal()
        self._open = number
        return number

    def _segment_of(self, sizes: range, usual: int) -> tuple[Bytes, int]:
        """Returns a spare segment of one of these sizes, or a new one, and how much of it was ever touched."""
        for at, (buffer, _) in enumerate(self._spare):
            if buffer.size in sizes:
                return self._spare.pop(at)
        return _whole_pages(usual), 0

    def _place(self, buffer: Bytes, touched: int) -> int:
        if self._vacant:
            number = self._vacant.pop()
        else:
            number = len(self._buffers)
            if number == MOST_SEGMENTS:
                raise MemoryError(f"an array holds at most {MOST_SEGMENTS} segments; use several arrays")
            tables = [np.append(table, 0) for table in (self.used, self.live, self._touched)]
            self.used, self.live, self._touched = tables
            self._buffers.append(_NOTHING)
        self._buffers[number] = buffer
        self.bases[number] = buffer.ctypes.data
        self.used[number] = self.live[number] = 0
        self._touched[number] = touched
        return number

    def _drop_or_mark_sparse(self, number: int) -> None:
        """Drops a closed segment that is dead, and marks one that is mostly dead."""
        if self.live[number] == 0:
            self._drop(number)
        elif 4 * self.live[number] < 3 * self.used[number]:
            self._sparse.add(number)

    def _drop(self, number: int) -> None:
        buffer, usual = self._buffers[number], self._segment_bytes()
        if buffer.size == usual or buffer.size in self._reusable:
            self._spare.append((buffer, int(self._touched[number])))
            most = max(usual, self._reusable.stop)
            while sum(spare.size for spare, _ in self._spare) > most:
                del self._spare[0]
        self._buffers[number] = _NOTHING
        self.used[number] = self.live[number] = self._touched[number] = 0
        self._sparse.discard(number)
        self._vacant.append(number)


def _whole_pages(nbytes: int) -> Bytes:
    """Returns memory for a segment, with a page behind that is never touched: kernels read payloads in whole words."""
    return map_memory(-(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE + mmap.PAGESIZE)[: -mmap.PAGESIZE]
