"""The native engine of a store of frames: hands the kernels what they need, once a batch."""

from __future__ import annotations

from threading import get_ident, local
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.memory import map_memory
from compressed_array._runtime.threads import share_count, together
from compressed_array._runtime.types import Words
from compressed_array._stores.frames.codebooks import CODED_SIZES
from compressed_array._stores.frames.engine import NO_NUMBERS
from compressed_array._stores.frames.kernel_records import (
    ENCODING,
    READER_TABLES,
    WALKER,
    WRITE_ARGUMENTS,
    WRITER_TABLES,
    StructArray,
    filled,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import Geometry
from compressed_array._stores.frames.settings import WriteSettings
from compressed_array._stores.frames.tables import FrameTables
from compressed_array._stores.protocol import RecordNumbers, Records
from compressed_array.codecs import _clib
from compressed_array.codecs._clib import Compressor
from compressed_array.errors import CodecUnavailableError, CorruptPayloadError

NO_ROW = -1
NO_COMPRESSOR = Compressor(0, 0, 0)
_NO_ROWS: Records = np.empty((0, 0), np.uint8)
WORTH_A_THREAD, MOST_WORTH = 100_000, 1_600_000  # nanoseconds; what takes less is done before a thread has come
SHARES_AT_ONCE = 8  # a thread takes an eighth of its share at a time
WRITE_KERNELS, READ_KERNELS = "_stores.frames.kernels.write", "_stores.frames.kernels.read"
CODEBOOK_KERNELS = "_stores.frames.kernels.codebook_functions"
POLLS = 20_000  # polls of whether the others are done, before sleeping, since waking up is slow


def modules(frames: FrameTables) -> tuple[str, ...]:
    """Returns the modules of kernels that are needed: that of codebooks only where there may be some."""
    always = WRITE_KERNELS, READ_KERNELS
    return (*always, CODEBOOK_KERNELS) if frames.itemsize in CODED_SIZES else always


def is_usable(frames: FrameTables) -> bool:
    """Whether there are kernels, and zstd's own functions for them where zstd is used at all."""
    # All are asked for, also behind one that is missing: `is_known` then says of each that it was looked for.
    if None in [native(module) for module in modules(frames)]:
        return False
    uses_zstd = frames.decoder is not None or bool(frames.codecs)
    return not uses_zstd or _clib.zstd() is not None


class WriterTables:
    """The addresses of the tables that writing changes, and the tables: an address is good as long as they are."""

    def __init__(self, frames: FrameTables, references: Words, address_of: Any) -> None:
        groups, lanes, layouts = frames.groups, frames.lanes.table, frames.layout_table
        used, live = frames.heap.used, frames.heap.live
        self._frames, self._table, self._live = frames, groups.table, live
        self._lanes, self._free, self._used = lanes, groups.free, used
        self._layouts, self.references = layouts, references
        self._packed = filled(
            WRITER_TABLES,
            groups=address_of(groups.table),
            group_count=len(groups.table),
            layouts=address_of(layouts),
            references=address_of(references),
            lanes=address_of(lanes),
            free=address_of(groups.free),
            dead=address_of(groups.dead),
            full=address_of(groups.full),
            counts=address_of(groups.counts),
            used=address_of(used),
            live=address_of(live),
        )
        self.address = address_of(self._packed)

    def are_current(self) -> bool:
        """Whether these are still the tables of the store, whatever references have come since.

        Two of them need no comparison: the table of groups is replaced after the list of free ones, and the table of
        bytes that live after that of bytes that are used.
        """
        frames = self._frames
        return (
            self._free is frames.groups.free
            and self._lanes is frames.lanes.table
            and self._used is frames.heap.used
            and self._layouts is frames.layout_table
        )


class ReaderTables:
    """The addresses of the tables that one thread reads by, the tables, and that thread's scratch memory."""

    def __init__(
        self, frames: FrameTables, layouts: StructArray, references: Words, decode_words: int, address_of: Any
    ) -> None:
        self._groups, self._layouts, self._references = frames.groups.table, layouts, references
        self._decoder, self._codec_count, self._unpacked = frames.decoder, len(frames.codecs), frames.most_unpacked
        unpacked = self._unpacked if self._codec_count else 0
        scratch = map_memory(2 * frames.item_nbytes + unpacked + 3 * ROOM)  # mostly little is touched
        calls = None if self._decoder is None else self._decoder.calls()
        codecs = frames.codecs[: self._codec_count]
        dictionaries = np.array([codec.calls().decompressor.dictionary for codec in codecs], np.int64)
        walker = np.zeros(1, WALKER)
        self._kept = scratch, dictionaries, walker
        self._packed = filled(
            READER_TABLES,
            groups=address_of(self._groups),
            group_count=len(self._groups),
            layouts=address_of(layouts),
            references=address_of(references),
            segments=address_of(frames.heap.bases),
            scratch=address_of(scratch),
            walker=address_of(walker),
            decompress=0 if calls is None else calls.functions.decompress,
            frame_size=0 if calls is None else calls.functions.frame_size,
            context=0 if calls is None else calls.decompressor.context,
            unpacked=unpacked,
            decode_words=decode_words,
            dictionaries=address_of(dictionaries),
        )
        self.address = address_of(self._packed)

    def are_of(self, frames: FrameTables, layouts: StructArray, references: Words) -> bool:
        """Whether these are still the tables of the store, and zstd and what it needs as they were."""
        return (
            self._groups is frames.groups.table
            and self._layouts is layouts
            and self._references is references
            and self._decoder is frames.decoder
            and self._codec_count == len(frames.codecs)
            and self._unpacked == frames.most_unpacked
        )


class WriteCall(NamedTuple):
    """The arguments of the kernel that writes items, by their address, and all that they have addresses of."""

    address: int
    tables: WriterTables
    kept: tuple[Any, ...]


class BookFunctions(NamedTuple):
    """The addresses of the functions that encode and decode words by a codebook; zeros where no frame is."""

    encode: int
    decode: int


class NativeEngine:
    """The engine that works on `FrameTables` by kernels."""

    def __init__(self, frames: FrameTables) -> None:
        self._frames = frames
        self._writer, self._reader = native(WRITE_KERNELS), native(READ_KERNELS)
        self.address_of = native("_runtime.numba_tools").address_of
        self._book_functions = BookFunctions(0, 0)
        if CODEBOOK_KERNELS in modules(frames):
            books = native(CODEBOOK_KERNELS)
            self._book_functions = BookFunctions(books.encode_words_at.address, books.decode_words_at.address)
        self._references: Words = np.empty(0, np.int64)
        self._tables: WriterTables | None = None
        self._of_thread = local()
        self._pace = 1.0  # nanoseconds a byte, lately
        self._worth_a_thread = WORTH_A_THREAD  # nanoseconds, here and lately
        self._scratch, self._scratch_at = np.empty(0, np.uint8), 0

    def write(
        self,
        items: npt.NDArray[Any],
        geometry: Geometry,
        lane_of: Words,
        first: int,
        numbers: RecordNumbers,
        settings: WriteSettings,
    ) -> int:
        call = self.prepare_write(items, geometry, lane_of, numbers, settings)
        done: int = self._writer.write_items(call.address, self.address_of(items), first, NO_ROW)
        del call  # not before: the kernel looks at what it keeps
        return done

    def write_row(self, call: WriteCall, items: npt.NDArray[Any], row: int) -> int:
        """Writes items and puts their numbers into a row of cells. Returns what the kernel `write_items` does."""
        done: int = self._writer.write_items(call.address, self.address_of(items), 0, row)
        return done

    def prepare_write(
        self,
        items: npt.NDArray[Any],
        geometry: Geometry,
        lane_of: Words,
        numbers: RecordNumbers,
        settings: WriteSettings,
        rows: RecordNumbers = NO_NUMBERS,
    ) -> WriteCall:
        """Returns the call of the kernel that writes items which lie in memory as these do."""
        size, address, tables = geometry.frame_nbytes, self.address_of, self._writer_tables()
        needed = 4 * (size + (size >> 8) + ROOM)
        if len(self._scratch) != needed:  # a store that finds its items to be stacks needs less from then on
            self._scratch = np.empty(needed, np.uint8)
            self._scratch_at = address(self._scratch)
        encoding = self.encoding(settings)
        arguments = filled(
            WRITE_ARGUMENTS,
            stride=items.strides[0],
            geometry=geometry.address,
            lane_of=address(lane_of),
            count=len(lane_of),
            numbers=address(numbers),
            cells=0 if rows is NO_NUMBERS else address(rows),
            tables=tables.address,
            scratch=self._scratch_at,
            mode=settings.mode,
            capacity=settings.capacity,
            layout=settings.layout_number,
            many_full=settings.many_full,
            encoding=address(encoding),
        )
        return WriteCall(
            address(arguments), tables, (arguments, encoding, geometry, lane_of, numbers, rows, self._scratch)
        )

    def encoding(self, settings: WriteSettings) -> Words:
        """Returns the record by which the calling thread's kernels encode frames as settings say."""
        compressor = self.compressor(settings)
        return filled(
            ENCODING,
            reference=settings.reference,
            worth_zstd=settings.worth_zstd,
            prediction=settings.prediction,
            compress=compressor.function,
            context=compressor.context,
            level=compressor.setting,
            encode_words=self._book_functions.encode,
        )

    def compressor(self, settings: WriteSettings) -> Compressor:
        """Returns what the calling thread writes zstd's records by; zeros if it writes none."""
        is_used = settings.zstd is not None and not settings.is_small
        return settings.zstd.calls().compressor if is_used else NO_COMPRESSOR

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers = NO_NUMBERS,
        other_out: Records | None = None,
        layouts: StructArray | None = None,
    ) -> None:
        second = _NO_ROWS if other_out is None else other_out
        decoded, count = out.nbytes + second.nbytes, len(numbers)
        # Frames come a hundred times as fast where little changes as where zstd packed them, so what counts is how
        # long the last ones took.
        shares = share_count(count, int(decoded * min(self._pace, 1)), self._worth_a_thread)
        if shares == 1:
            # Made for each read: a signal's handler may read here as well.
            tables, progress, began = self._reader_tables(layouts), np.zeros(3, np.int64), perf_counter()
            self._reader.read_items(numbers, out, others, second, tables.address, progress, count)
            self._keep_pace((perf_counter() - began) * 1e9 / decoded)
        else:
            progress = self._read_together(numbers, out, others, second, layouts, shares)
        if progress[self._reader.FAILED]:
            if self._frames.decoder is None:
                raise CodecUnavailableError("zstd", "zstd")
            raise CorruptPayloadError(f"the frames of item {progress[self._reader.FAILED] - 1} do not decode")

    def _read_together(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers,
        second: Records,
        layouts: StructArray | None,
        shares: int,
    ) -> Words:
        progress, caller = np.zeros(3, np.int64), get_ident()
        decoded, count = out.nbytes + second.nbytes, len(numbers)
        at_once = -(-count // (shares * SHARES_AT_ONCE))

        def work() -> None:
            began, tables = perf_counter(), self._reader_tables(layouts)
            done = self._reader.read_items(numbers, out, others, second, tables.address, progress, at_once)
            if done and get_ident() == caller:  # others may have waited for the interpreter
                self._keep_pace((perf_counter() - began) * 1e9 * count / (decoded * done))
                self._keep_worth(is_worth_it=4 * done <= 3 * count)

        together(work, shares, lambda: bool(self._reader.wait_for(progress, count, POLLS)))
        return progress

    def _keep_pace(self, pace: float) -> None:
        # A read that had to wait for a core took ten times as long, which says nothing of the next ones; and threads
        # would have to wait as well.
        self._pace += (min(pace, 2 * self._pace) - self._pace) / 8

    def _keep_worth(self, *, is_worth_it: bool) -> None:
        # How long a thread takes to come depends on the machine, and on what else it does: where the others did less
        # than a quarter, only longer reads are shared from now on; after some that were worth it, shorter ones again.
        worth = self._worth_a_thread
        self._worth_a_thread = max(worth * 15 // 16, WORTH_A_THREAD) if is_worth_it else min(2 * worth, MOST_WORTH)

    def retain(self, numbers: RecordNumbers) -> None:
        self._writer.retain_items(numbers, self._writer_tables().address)

    def release(self, numbers: RecordNumbers, first: int) -> int:
        done: int = self._writer.release_items(numbers, first, self._writer_tables().address)
        return done

    def _writer_tables(self) -> WriterTables:
        references, tables = self._reference_addresses(), self._tables
        if tables is None or tables.references is not references or not tables.are_current():
            tables = self._tables = WriterTables(self._frames, references, self.address_of)
        return tables

    def _reader_tables(self, layouts: StructArray | None) -> ReaderTables:
        """Returns the tables that the calling thread reads by."""
        frames, references = self._frames, self._reference_addresses()
        layouts = frames.layout_table if layouts is None else layouts
        known: ReaderTables | None = getattr(self._of_thread, "tables", None)
        if known is None or not known.are_of(frames, layouts, references):
            tables = ReaderTables(frames, layouts, references, self._book_functions.decode, self.address_of)
            known = self._of_thread.tables = tables
        return known

    def _reference_addresses(self) -> Words:
        # By a local name: readers do this, too, and may put back the addresses of fewer.
        known, references = self._references, self._frames.references
        if len(known) != len(references):
            known = np.array([self.address_of(r) for r in references], np.int64)
            self._references = known
        return known
