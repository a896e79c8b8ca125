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
from compressed_array._stores.frames.codebooks import WORD_SIZES
from compressed_array._stores.frames.engine import NO_NUMBERS
from compressed_array._stores.frames.kernel_records import READER_TABLES, STEP, WALKER, WRITER_TABLES, Table, record
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import Geometry
from compressed_array._stores.frames.settings import WriteSettings
from compressed_array._stores.frames.tables import Frames
from compressed_array._stores.protocol import RecordNumbers, Records
from compressed_array.codecs import _clib
from compressed_array.errors import CodecUnavailableError, CorruptPayloadError

NO_ROW = -1
_NO_ROWS: Records = np.empty((0, 0), np.uint8)
WORTH_A_THREAD = 100_000  # nanoseconds; what takes less is done before a thread has come
SHARES_AT_ONCE = 8  # a thread takes an eighth of its share at a time
WRITE_KERNELS, READ_KERNELS = "_stores.frames.kernels.write", "_stores.frames.kernels.read"
CODEBOOK_KERNELS = "_stores.frames.kernels.codebook_functions"
PATIENCE = 20_000  # looks at whether the others are done, before sleeping, from which one wakes late


def modules(frames: Frames) -> tuple[str, ...]:
    """The kernels that are needed: those of codebooks only where there may be some."""
    always = WRITE_KERNELS, READ_KERNELS
    return (*always, CODEBOOK_KERNELS) if frames.itemsize in WORD_SIZES else always


def is_usable(frames: Frames) -> bool:
    """Whether there are kernels, and zstd's own functions for them where zstd is used at all."""
    # All are asked for, also behind one that is missing: `is_known` then says of each that it was looked for.
    if None in [native(module) for module in modules(frames)]:
        return False
    uses_zstd = frames.decoder is not None or bool(frames.codecs)
    return not uses_zstd or _clib.zstd() is not None


class WriterTables:
    """The addresses of the tables that writing changes, and the tables: an address is good as long as they are."""

    def __init__(self, frames: Frames, references: Words, address_of: Any) -> None:
        groups, lanes, layouts = frames.groups, frames.lanes.table, frames.layout_table
        _, used, live = frames.heap.tables()
        self._frames, self._table, self._live = frames, groups.table, live
        self._lanes, self._free, self._used = lanes, groups.free, used
        self._layouts, self.references = layouts, references
        self._record = record(
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
        self.address = address_of(self._record)

    def are_current(self) -> bool:
        """Whether these are still the tables of the store, whatever references have come since.

        Two of them need no look: the table of groups is replaced after the list of free ones, and the table of bytes
        that live after that of bytes that are used.
        """
        frames = self._frames
        return (
            self._free is frames.groups.free
            and self._lanes is frames.lanes.table
            and self._used is frames.heap.used
            and self._layouts is frames.layout_table
        )


class ReaderTables:
    """The same for what one thread reads, and that thread's scratch memory: a group may unpack to much."""

    def __init__(self, frames: Frames, layouts: Table, references: Words, decode_words: int, address_of: Any) -> None:
        self._of = frames.groups.table, layouts, references, frames.decoder, len(frames.codecs), frames.most_unpacked
        table, _, _, decoder, codecs, unpacked = self._of
        unpacked = unpacked if codecs else 0
        scratch = map_memory(2 * frames.record_nbytes + unpacked + 3 * ROOM)  # mostly little is touched
        calls = None if decoder is None else decoder.calls()
        dictionaries = np.array([codec.calls().decompressor[1] for codec in frames.codecs[:codecs]], np.int64)
        walker = np.zeros(1, WALKER)
        self._kept = scratch, dictionaries, walker
        self._record = record(
            READER_TABLES,
            groups=address_of(table),
            group_count=len(table),
            layouts=address_of(layouts),
            references=address_of(references),
            segments=address_of(frames.heap.tables()[0]),
            scratch=address_of(scratch),
            walker=address_of(walker),
            decompress=0 if calls is None else calls.functions.decompress,
            frame_size=0 if calls is None else calls.functions.frame_size,
            context=0 if calls is None else calls.decompressor[0],
            unpacked=unpacked,
            decode_words=decode_words,
            dictionaries=address_of(dictionaries),
        )
        self.address = address_of(self._record)

    def are_of(self, frames: Frames, layouts: Table, references: Words) -> bool:
        """Whether these are still the tables of the store, and zstd and what it needs as they were."""
        table, known_layouts, addresses, decoder, codecs, unpacked = self._of
        return (
            table is frames.groups.table
            and known_layouts is layouts
            and addresses is references
            and decoder is frames.decoder
            and codecs == len(frames.codecs)
            and unpacked == frames.most_unpacked
        )


class Step(NamedTuple):
    """What the kernel that writes items is told: the address of a record, and all that this has the address of."""

    address: int
    tables: WriterTables
    kept: tuple[Any, ...]


class NativeEngine:
    """Kernels at work on `Frames`."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._writer, self._reader = native(WRITE_KERNELS), native(READ_KERNELS)
        self.address_of = native("_runtime.numba_tools").address_of
        self.book_functions = 0, 0  # to encode and to decode
        if CODEBOOK_KERNELS in modules(frames):
            books = native(CODEBOOK_KERNELS)
            self.book_functions = books.encode_words_at.address, books.decode_words_at.address
        self._references: Words = np.empty(0, np.int64)
        self._tables: WriterTables | None = None
        self._of_thread = local()
        self._pace = 1.0  # nanoseconds a byte, lately
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
        step = self.step(items, geometry, lane_of, numbers, settings)
        done: int = self._writer.write_items(step.address, self.address_of(items), first, NO_ROW)
        del step  # not before: the kernel is told where it lies
        return done

    def write_row(self, step: Step, items: npt.NDArray[Any], row: int) -> int:
        """Write items and put their numbers into a row of cells. Returns how many are done, or that all is."""
        done: int = self._writer.write_items(step.address, self.address_of(items), 0, row)
        return done

    def step(
        self,
        items: npt.NDArray[Any],
        geometry: Geometry,
        lane_of: Words,
        numbers: RecordNumbers,
        settings: WriteSettings,
        rows: RecordNumbers = NO_NUMBERS,
    ) -> Step:
        """Returns what the kernel is told to write items that come as these do."""
        size, address, tables = geometry.frame_nbytes, self.address_of, self._writer_tables()
        needed = 4 * (size + (size >> 8) + ROOM)
        if len(self._scratch) != needed:  # a store that finds its items to be stacks needs less from then on
            self._scratch = np.empty(needed, np.uint8)
            self._scratch_at = address(self._scratch)
        compress, context, level = self.compressor(settings)
        told = record(
            STEP,
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
            reference=settings.reference,
            worth_zstd=settings.worth_zstd,
            foretold=settings.foretold,
            compress=compress,
            context=context,
            level=level,
            encode_words=self.book_functions[0],
        )
        return Step(address(told), tables, (told, geometry, lane_of, numbers, rows, self._scratch))

    def compressor(self, settings: WriteSettings) -> tuple[int, int, int]:
        """Returns zstd's function, the calling thread's context and the level to write records with; zeros for none."""
        is_used = settings.intra is not None and not settings.is_small
        return settings.intra.calls().compressor if is_used else (0, 0, 0)

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers = NO_NUMBERS,
        other_out: Records | None = None,
        layouts: Table | None = None,
    ) -> None:
        second = _NO_ROWS if other_out is None else other_out
        decoded, count = out.nbytes + second.nbytes, len(numbers)
        # Frames come a hundred times as fast where little changes as where zstd packed them, so what counts is how
        # long the last ones took.
        shares = share_count(count, int(decoded * min(self._pace, 1)), WORTH_A_THREAD)
        if shares == 1:
            # Made anew for each: a signal's handler may read here as well.
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
        layouts: Table | None,
        shares: int,
    ) -> Words:
        progress, caller = np.zeros(3, np.int64), get_ident()
        decoded, count = out.nbytes + second.nbytes, len(numbers)
        step = -(-count // (shares * SHARES_AT_ONCE))

        def work() -> None:
            began, tables = perf_counter(), self._reader_tables(layouts)
            done = self._reader.read_items(numbers, out, others, second, tables.address, progress, step)
            if done and get_ident() == caller:  # others may have waited for the interpreter
                self._keep_pace((perf_counter() - began) * 1e9 * count / (decoded * done))

        together(work, shares, lambda: bool(self._reader.wait_for(progress, count, PATIENCE)))
        return progress

    def _keep_pace(self, pace: float) -> None:
        # A read that had to wait for a core took ten times as long, which says nothing of the next ones; and threads
        # would have to wait as well.
        self._pace += (min(pace, 2 * self._pace) - self._pace) / 8

    def retain(self, numbers: RecordNumbers) -> None:
        self._writer.add_references(numbers, self._writer_tables().address)

    def release(self, numbers: RecordNumbers, first: int) -> int:
        done: int = self._writer.drop_references(numbers, first, self._writer_tables().address)
        return done

    def _writer_tables(self) -> WriterTables:
        references, tables = self._reference_addresses(), self._tables
        if tables is None or tables.references is not references or not tables.are_current():
            tables = self._tables = WriterTables(self._frames, references, self.address_of)
        return tables

    def _reader_tables(self, layouts: Table | None) -> ReaderTables:
        """Returns what the calling thread reads by."""
        frames, references = self._frames, self._reference_addresses()
        layouts = frames.layout_table if layouts is None else layouts
        known: ReaderTables | None = getattr(self._of_thread, "tables", None)
        if known is None or not known.are_of(frames, layouts, references):
            tables = ReaderTables(frames, layouts, references, self.book_functions[1], self.address_of)
            known = self._of_thread.tables = tables
        return known

    def _reference_addresses(self) -> Words:
        # By a local name: readers do this, too, and may put back the addresses of fewer.
        known, references = self._references, self._frames.references
        if len(known) != len(references):
            known = np.array([self.address_of(r) for r in references], np.int64)
            self._references = known
        return known
