"""`CellStore`: one record per cell, each encoded by itself, written in any order.

A record is found through two flat tables by its number: `where` (how it is coded, and its heap address, in one 64-bit
word that a reader fetches in one piece) and `size`. A record that does not shrink is kept as it is, so no codec ever
costs more than the tables. Writing never changes a record a reader may hold: it makes a new one and retires the old.

Where several arrays share a store, an item of a row that is equal to one of the row written before it gets the
same number, and the record one more reference.
"""

from __future__ import annotations

import sys
from array import array
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._heap import MAX_PAYLOAD, OFFSET_BITS, HostHeap
from compressed_array._runtime.payloads import Payloads
from compressed_array._stores import cell_export
from compressed_array._stores.base import ADDRESS_MASK, TAG_BITS, BaseStore
from compressed_array._stores.cell_export import FIRST_CODEC, RAW, ZERO, CellExport, CellSnapshot
from compressed_array._stores.cell_rows import copy_rows, nonzero_rows
from compressed_array._stores.last_row import LastRow, is_row
from compressed_array._stores.protocol import UNWRITTEN, LaneNumbers, RecordNumbers, Records, byte_rows, unchanging
from compressed_array._stores.row_writer import RowWriter
from compressed_array.abc import Codec
from compressed_array.codecs._batches import decode_records, encode_records
from compressed_array.codecs._measure import choose
from compressed_array.registry import get_codec

UPPER_HALF = 1 if sys.byteorder == "little" else 0
# "auto" looks at the data when this many records have come by, and settles for what it found the last time.
AUTO_LOOKS = (0, 64, 1024)


class CellStore(BaseStore[CellSnapshot]):
    """Records of one size and dtype, each compressed on its own."""

    is_stream: ClassVar[bool] = False
    SECTIONS: ClassVar[dict[str, str]] = cell_export.SECTIONS

    def __init__(self, record_nbytes: int, dtype: np.dtype[Any], codec: Any = "auto") -> None:
        if record_nbytes > MAX_PAYLOAD:
            raise ValueError(f"an item of {record_nbytes} bytes is too large; use a smaller item_ndim (limit: 4 GiB)")
        super().__init__()
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
        self._is_shared = False  # whether several arrays were made on this store
        self._last_row: LastRow | None = None  # if it is shared, unless hardly anything was found

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
            if self._last_row is not None:
                tables += self._last_row.nbytes
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

    def note_another_array(self) -> None:
        self._is_shared = True
        if self._last_row is None:  # another thread may be using the one there is
            self._last_row = LastRow()

    def write(self, items: npt.NDArray[Any], lanes: LaneNumbers) -> RecordNumbers:
        if not self.record_nbytes:
            return np.zeros(len(items), np.uint32)
        records = byte_rows(items, len(items))
        self._flush()  # what this forgets must not be found
        last = self._last_row
        if last is None or not is_row(lanes, records.nbytes):
            return self._write_new(records, np.zeros(len(items), np.uint32))
        if np.may_share_memory(records, items):  # the caller may change the items later, but not what is remembered
            records = records.copy()
        numbers = last.find(records, lanes)
        found = numbers[numbers != UNWRITTEN]
        self._add_references(found)
        try:
            self._write_new(records, numbers)
        except BaseException:
            self.release(found)
            raise
        last.keep(records, lanes, numbers)
        if last.gave_up:
            self._last_row = None
        return numbers

    def _write_new(self, records: Records, numbers: RecordNumbers) -> RecordNumbers:
        """Writes the records that have no number yet and are not all zeros, and puts their numbers in."""
        written = nonzero_rows(records) & (numbers == UNWRITTEN)
        numbers[written] = self._write(records if written.all() else records[written])
        return numbers

    def row_writer(
        self, rows: RecordNumbers, lanes: LaneNumbers, item_shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> RowWriter:
        return RowWriter(self, rows, lanes, item_shape, dtype)

    def _write(self, records: Records) -> RecordNumbers:
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
        self._version += 1
        self._move_garbage(int(size.sum()))
        return numbers

    def retain(self, numbers: RecordNumbers) -> None:
        self._flush()  # a program that copies and never writes would keep every copy it dropped
        self._add_references(numbers)

    def _add_references(self, numbers: RecordNumbers) -> None:
        if self._references is None and len(numbers):
            self._references = np.ones(len(self._where), np.uint32)
        if self._references is not None:
            np.add.at(self._references, numbers, 1)

    def release(self, numbers: RecordNumbers) -> None:
        self._version += 1
        numbers = numbers[numbers != UNWRITTEN]
        if self._references is not None:
            np.subtract.at(self._references, numbers, 1)
            numbers = np.unique(numbers)
            numbers = numbers[self._references[numbers] == 0]
        if len(numbers):
            if self._last_row is not None:  # first: an interrupt in between may leak them, and nothing worse
                self._last_row.forget(numbers)
            self.epochs.retire(partial(self._forget, numbers))
            self.epochs.collect()

    def compact(self) -> None:
        with self.epochs.writing, self.epochs.guard:
            self._flush()
            if self._last_row is not None:
                self._last_row.clear()
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

    def snapshot(self, numbers: RecordNumbers, *, is_part: bool) -> CellSnapshot | None:
        """Returns all there is, for arrays that have records in common; None where others have most of them."""
        with self.epochs.writing:
            self.epochs.guard.when_free(self._flush)
            if not self._is_shared or not self.record_nbytes:
                return None
            alive = np.flatnonzero(self._where != 0).astype(np.uint32)
            if self._references is not None:
                alive = alive[self._references[alive] > 0]
            if 2 * np.count_nonzero(np.unique(numbers)) < len(alive):
                return None
            return self._latest_snapshot((self._version,), partial(self._take_snapshot, alive))

    def _take_snapshot(self, numbers: RecordNumbers, version: tuple[int, ...]) -> CellSnapshot:
        shape = (self.record_nbytes // self._dtype.itemsize,)
        return CellSnapshot(shape, self._dtype, self.export(numbers)[0], numbers, version)

    @staticmethod
    def describe(records: CellExport, /) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Returns what a file's header says of records, and the file's sections."""
        return cell_export.describe(records)

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
        cls,
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        export: CellExport,
        numbers: RecordNumbers,
        *,
        shared: bool = False,
    ) -> CellStore:
        """Returns a store of just these records, as 1, 2, 3 …, with a reference for each occurrence in `numbers`.

        A shared one has a reference of its own to each record, which the restorer gives up when all arrays that
        were pickled together have claimed theirs.
        """
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
        if shared:
            store.note_another_array()
        return store

    def claim(self, numbers: RecordNumbers) -> None:
        """Takes references to restored records."""
        self._add_references(numbers.reshape(-1))

    def give_up_restored(self, records: int) -> None:
        """Releases, with the next write, restored records that nobody has claimed; a finaliser may call it."""
        self.release_later(np.arange(1, records + 1, dtype=np.uint32))

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
        self.release_listed()
        self.epochs.collect()

    def _move_garbage(self, written: int) -> None:
        """Rewrites sparse segments: about twice the bytes that were just written, so that no write takes long."""
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
