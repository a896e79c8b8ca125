"""`CellStore`: one record per cell, each encoded by itself, written in any order.

A record is found through two flat tables by its number: `where` (how it is coded, and its heap address, in one 64-bit
word that a reader fetches in one piece) and `size`. A record that does not shrink is kept as it is, so no codec ever
costs more than the tables. Writing never changes a record a reader may hold: it makes a new one and retires the old.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._heap import MAX_PAYLOAD, OFFSET_BITS, HostHeap
from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import NATIVE_FROM, Payloads
from compressed_array._runtime.threads import over_rows
from compressed_array._stores import cell_export
from compressed_array._stores.cell_export import FIRST_CODEC, RAW, ZERO, CellExport
from compressed_array._stores.protocol import UNWRITTEN, LaneNumbers, RecordNumbers, Records, byte_rows, unchanging
from compressed_array.abc import Codec
from compressed_array.codecs._batches import decode_records, encode_records
from compressed_array.codecs._measure import choose
from compressed_array.registry import get_codec

TAG_BITS = 56
ADDRESS_MASK = (1 << TAG_BITS) - 1
UPPER_HALF = 1 if sys.byteorder == "little" else 0
# "auto" looks at the data when this many records have come by, and settles for what it found the last time.
AUTO_LOOKS = (0, 64, 1024)


class CellStore:
    """Records of one size and dtype, each compressed on its own."""

    is_stream: ClassVar[bool] = False
    SECTIONS: ClassVar[dict[str, str]] = cell_export.SECTIONS
    describe = staticmethod(cell_export.describe)

    def __init__(self, record_nbytes: int, dtype: np.dtype[Any], codec: Any = "auto") -> None:
        if record_nbytes > MAX_PAYLOAD:
            raise ValueError(f"an item of {record_nbytes} bytes is too large; use a smaller item_ndim (limit: 4 GiB)")
        self.epochs = Epochs()
        self.record_nbytes = record_nbytes
        self._dtype = dtype
        self._codecs: list[Any] = []
        auto = isinstance(codec, str) and codec == "auto"
        self._looks = list(AUTO_LOOKS) if auto else []
        self._use(get_codec("none" if auto else codec))
        self._seen = 0
        self._heap = HostHeap()
        self._where: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._size: npt.NDArray[np.uint32] = np.zeros(1, np.uint32)
        self._references: npt.NDArray[np.uint32] | None = None  # None: each number has one, the usual case
        self._made = 1
        self._free = array("I")
        self._released_later: deque[RecordNumbers] = deque()

    @property
    def codec(self) -> Any:
        return self._codecs[self._current]

    @property
    def codec_choice(self) -> Any:
        return "auto" if self._looks else self.codec

    @property
    def nbytes(self) -> int:
        with self.epochs.writing:
            self.epochs.guard.when_free(self._flush)
            tables = self._where.nbytes + self._size.nbytes + self._free.itemsize * len(self._free)
            if self._references is not None:
                tables += self._references.nbytes
            dictionaries = sum(len(getattr(codec, "dictionary", None) or b"") for codec in self._codecs)
            return self._heap.nbytes + tables + dictionaries

    def read(self, numbers: RecordNumbers, out: Records) -> None:
        numbers = unchanging(numbers)
        where, size = self._where[numbers], self._size[numbers]
        tags = where >> TAG_BITS
        if len(tags) and (tags == tags[0]).all():
            self._read_alike(int(tags[0]), where, size, out)
            return
        for tag in np.unique(tags):
            rows = np.flatnonzero(tags == tag)
            part = np.empty((len(rows), self.record_nbytes), np.uint8)
            self._read_alike(int(tag), where[rows], size[rows], part)
            out[rows] = part

    def holds(self, item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        return prod(item_shape) * dtype.itemsize == self.record_nbytes and dtype == self._dtype

    def read_pair(self, numbers: RecordNumbers, out: Records, others: RecordNumbers, other_out: Records) -> None:
        self.read(numbers, out)
        self.read(others, other_out)

    def write(self, items: npt.NDArray[Any], lanes: LaneNumbers) -> RecordNumbers:
        numbers = np.zeros(len(items), np.uint32)
        if self.record_nbytes:
            records = byte_rows(items, len(items))
            written = nonzero_rows(records)
            numbers[written] = self._write(records if written.all() else records[written])
        return numbers

    def row_writer(self, rows: RecordNumbers, lanes: LaneNumbers) -> None:
        return None

    def _write(self, records: Records) -> RecordNumbers:
        self._flush()
        if not records.size:
            return np.zeros(len(records), np.uint32)
        payloads = encode_records(self._codec_for(records), records, self._dtype)
        shrinks = payloads.size < self.record_nbytes
        coded, plain = np.flatnonzero(shrinks), np.flatnonzero(~shrinks)
        where = np.zeros(len(records), np.int64)
        size = np.where(shrinks, payloads.size, self.record_nbytes)
        raw = Payloads.in_one_buffer(records.reshape(-1), plain * self.record_nbytes, size[plain])
        try:
            where[coded] = self._heap.append(payloads.select(coded)) | ((FIRST_CODEC + self._current) << TAG_BITS)
            where[plain] = self._heap.append(raw) | (RAW << TAG_BITS)
            self._make_room(len(records))
        except BaseException:
            stored = where != 0
            self._heap.free(where[stored] & ADDRESS_MASK, size[stored])
            raise
        # Behind the above: what has a number must not be freed as if it had none, whatever interrupt comes.
        numbers = self._number(where, size)
        self._seen += len(records)
        self._move_garbage(int(size.sum()))
        return numbers

    def retain(self, numbers: RecordNumbers) -> None:
        self._flush()  # a program that copies and never writes would keep every copy it dropped
        if self._references is None:
            self._references = np.ones(len(self._where), np.uint32)
        np.add.at(self._references, numbers, 1)

    def release(self, numbers: RecordNumbers) -> None:
        numbers = numbers[numbers != UNWRITTEN]
        if self._references is not None:
            np.subtract.at(self._references, numbers, 1)
            numbers = np.unique(numbers)
            numbers = numbers[self._references[numbers] == 0]
        if len(numbers):
            self.epochs.retire(partial(self._forget, numbers))
            self.epochs.collect()

    def release_later(self, numbers: RecordNumbers) -> None:
        self._released_later.append(numbers)

    def compact(self) -> None:
        with self.epochs.writing, self.epochs.guard:
            self._flush()
            self._heap.seal()

    def nbytes_of(self, numbers: RecordNumbers) -> int:
        with self.epochs.writing:
            self.epochs.guard.when_free(self._flush)
            own = np.unique(numbers)
            own = own[own != UNWRITTEN]
            if len(own) == self._made - 1 - len(self._free):
                return self.nbytes
            each = self._where.itemsize + self._size.itemsize
            return int(self._size[own].sum()) + each * len(own)

    def export(self, numbers: RecordNumbers) -> tuple[CellExport, RecordNumbers]:
        where, size = self._where[numbers], self._size[numbers]
        payloads = self._heap.payloads(where & ADDRESS_MASK, size.astype(np.int64))
        data = np.empty(int(size.sum()), np.uint8)
        payloads.copy_to(data, np.cumsum(payloads.size) - payloads.size)
        tag = (where >> TAG_BITS).astype(np.uint8)
        exported = CellExport(list(self._codecs), self._current, self._seen, list(self._looks), tag, size, data)
        return exported, np.arange(1, len(numbers) + 1, dtype=np.uint32)

    def take_out(self, numbers: RecordNumbers) -> None:
        return None

    def adopt(self, export: Any, numbers: RecordNumbers, out: RecordNumbers) -> bool:
        return False

    def snapshot(self, numbers: RecordNumbers, *, is_part: bool) -> None:
        return None

    @staticmethod
    def from_file(
        header: dict[str, Any],
        sections: dict[str, Any],
        codecs: list[Any],
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        cells: RecordNumbers,
    ) -> CellExport:
        """Returns the records that a file has for these cells, if its parts agree."""
        return cell_export.from_file(header, sections, codecs, prod(item_shape) * dtype.itemsize, cells)

    @classmethod
    def restore(
        cls, item_shape: tuple[int, ...], dtype: np.dtype[Any], export: CellExport, numbers: RecordNumbers
    ) -> CellStore:
        """A store that holds exactly these records, as 1, 2, 3 …, with a reference for each occurrence in `numbers`."""
        store = cls(prod(item_shape) * dtype.itemsize, dtype, export.codecs[export.current])
        store._codecs, store._current = list(export.codecs), export.current
        store._seen, store._looks = export.seen, list(export.looks)
        size = export.size.astype(np.int64)
        address = store._heap.append(Payloads.in_one_buffer(export.data, np.cumsum(size) - size, size))
        store._make_room(len(size))
        store._number(address | (export.tag.astype(np.int64) << TAG_BITS), export.size)
        counts = np.bincount(numbers.reshape(-1), minlength=len(size) + 1)[1:]
        if (counts > 1).any():
            store.retain(np.repeat(np.arange(1, len(size) + 1, dtype=np.uint32), np.maximum(counts - 1, 0)))
        return store

    def _read_alike(self, tag: int, where: npt.NDArray[np.int64], size: npt.NDArray[np.uint32], out: Records) -> None:
        if tag == ZERO:
            out[...] = 0
            return
        payloads = self._heap.payloads(where & ADDRESS_MASK, size.astype(np.int64))
        if tag == RAW:
            copy_rows(payloads, out)
            return
        decode_records(self._codecs[tag - FIRST_CODEC], payloads, out, self._dtype)

    def _codec_for(self, records: Records) -> Any:
        if self._looks and self._seen >= self._looks[0]:
            self._looks = [look for look in self._looks if look > self._seen]
            self._use(choose(records, self._dtype))
        return self.codec

    def _use(self, codec: Any) -> None:
        if isinstance(codec, Codec):
            codec = codec.for_dtype(self._dtype)
        if codec not in self._codecs:
            self._codecs.append(codec)
        self._current = self._codecs.index(codec)

    def _make_room(self, count: int) -> None:
        made = self._made + max(count - len(self._free), 0)
        if made > len(self._where):
            self._grow(made + made // 8 + 64)

    def _number(self, where: npt.NDArray[np.int64], size: npt.NDArray[Any]) -> RecordNumbers:
        """Numbers for records, for which there is room in the tables."""
        left = max(len(self._free) - len(where), 0)
        made = self._made + max(len(where) - len(self._free), 0)
        numbers = np.array([*self._free[left:], *range(self._made, made)], np.uint32)
        del self._free[left:]
        self._made = made
        self._where[numbers], self._size[numbers] = where, size
        if self._references is not None:
            self._references[numbers] = 1
        return numbers

    def _grow(self, length: int) -> None:
        # New tables, not resized ones: a reader may hold the old, which stay right for every number it knows of.
        more, references = length - len(self._where), self._references
        where = np.concatenate([self._where, np.zeros(more, np.int64)])
        size = np.concatenate([self._size, np.zeros(more, np.uint32)])
        if references is not None:
            references = np.concatenate([references, np.zeros(more, np.uint32)])
        # At once: with tables of different lengths after an interrupt, no write would ever succeed again.
        self._where, self._size, self._references = where, size, references

    def _forget(self, numbers: RecordNumbers) -> None:
        address, size = self._where[numbers] & ADDRESS_MASK, self._size[numbers].astype(np.int64)
        # First, and freed last: if an interrupt comes in between, what still had an address would be freed once more.
        self._where[numbers] = 0
        self._free.extend(numbers.tolist())
        self._heap.free(address, size)

    def _flush(self) -> None:
        while self._released_later:
            self.release(self._released_later.popleft())
        self.epochs.collect()

    def _move_garbage(self, written: int) -> None:
        """Rewrite sparse segments: about twice the bytes that were just written, so that no write takes long."""
        moved = 0
        with suppress(MemoryError):  # where there is no room to tidy up, garbage stays garbage
            while moved <= 2 * written and (segment := self._heap.take_sparse_segment()) is not None:
                moved += self._rewrite(segment)

    def _rewrite(self, segment: int) -> int:
        # The upper halves alone say how and in which segment: half the memory to look through, which is all of it.
        upper = self._where.view(np.uint32)[UPPER_HALF::2]
        numbers = np.flatnonzero((upper & (ADDRESS_MASK >> OFFSET_BITS)) == segment)
        numbers = numbers[self._where[numbers] != 0]
        address, size = self._where[numbers] & ADDRESS_MASK, self._size[numbers].astype(np.int64)
        tag = self._where[numbers] & ~ADDRESS_MASK
        self._where[numbers] = self._heap.append(self._heap.payloads(address, size)) | tag
        self.epochs.retire(partial(self._heap.free, address, size))
        self.epochs.collect()
        return int(size.sum())


def nonzero_rows(rows: Records) -> npt.NDArray[np.bool_]:
    """Which rows are not all zeros; a zero item is not written, since that is how an unwritten one reads."""
    nonzero = np.asarray(rows[:, ::509].any(axis=1))  # almost every other row shows it in a few bytes
    for i in np.flatnonzero(~nonzero):
        nonzero[i] = rows[i].any()
    return nonzero


def copy_rows(payloads: Payloads, out: Records) -> None:
    """Copy payloads that are a row long each into the rows of `out`."""
    kernels = native("_runtime.numba_tools") if len(out) >= NATIVE_FROM else None
    if kernels is None:
        for i in range(len(out)):
            out[i] = payloads[i]
        return
    addresses = payloads.addresses()
    # Copying a byte takes about an eighth of the time of decoding one, which is what threads are reckoned by.
    over_rows(lambda low, high: kernels.gather(addresses, out, low, high), len(out), out.nbytes // 8)
