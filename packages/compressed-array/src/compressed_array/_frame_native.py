"""The native engine of a store of frames: lays out what the kernels need, once a batch."""

from __future__ import annotations

from threading import get_ident, local
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._frames import Frames
from compressed_array._kernels import native
from compressed_array._lanes import ROOM
from compressed_array._layouts import FRAME, Geometry
from compressed_array._memory import map_memory
from compressed_array._parallel import share_count, together
from compressed_array._store import RecordNumbers, Records
from compressed_array.codecs import _foreign
from compressed_array.errors import CodecUnavailableError, CorruptPayloadError

Words = npt.NDArray[np.int64]
_NONE: RecordNumbers = np.empty(0, np.uint32)
_NO_ROWS: Records = np.empty((0, 0), np.uint8)
SHARES_AT_ONCE = 8  # a thread takes an eighth of its share at a time
PATIENCE = 20_000  # looks at whether the others are done, before sleeping, from which one wakes late


def is_usable(frames: Frames) -> bool:
    """Whether there are kernels, and zstd's own functions for them where zstd is used at all."""
    uses_zstd = frames.intra is not None or bool(frames.codecs)
    if uses_zstd and _foreign.zstd() is None:
        return False
    return native("_frame_kernels") is not None and native("_walk_kernels") is not None


class NativeEngine:
    """Kernels at work on `Frames`. Writing is the writer's alone; any number of threads read."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._writer, self._reader = native("_frame_kernels"), native("_walk_kernels")
        self._references: Words = np.empty(0, np.int64)
        self._of_thread = local()
        self._pace = 1.0  # nanoseconds a byte, lately
        self._scratch, self._scratch_at = np.empty(0, np.uint8), 0

    def write(
        self, items: npt.NDArray[Any], geometry: Geometry, lane_of: Words, first: int, numbers: RecordNumbers
    ) -> int:
        """Write items from number `first` on, up to one whose lane needs a new group; returns how many are done."""
        frames = self._frames
        size = int(geometry.words[FRAME])
        needed = 3 * (size + (size >> 8) + ROOM)
        if len(self._scratch) != needed:  # a store that finds its items to be stacks needs less from then on
            self._scratch = np.empty(needed, np.uint8)
            self._scratch_at = self._scratch.__array_interface__["data"][0]
        groups = frames.groups
        _, used, live = frames.heap.tables()
        done: int = self._writer.write_items(
            items.__array_interface__["data"][0],
            items.strides[0],
            geometry.words,
            lane_of,
            first,
            frames.lanes.words,
            groups.table,
            groups.free,
            groups.dead,
            groups.full,
            groups.counts,
            used,
            live,
            self._reference_addresses(),
            frames.reference,
            frames.worth_zstd,
            frames.mode,
            frames.capacity,
            frames.layout_number,
            *self._compressor(),
            self._scratch_at,
            numbers,
        )
        return done

    def read(
        self,
        numbers: RecordNumbers,
        out: Records,
        others: RecordNumbers = _NONE,
        other_out: Records | None = None,
        layouts: Words | None = None,
    ) -> None:
        """Fill row i of `out` with item `numbers[i]`, and of `other_out`, if there is one, with item `others[i]`."""
        frames, kernel = self._frames, self._reader.read_items
        table, references, (bases, _, _) = frames.groups.table, self._reference_addresses(), frames.heap.tables()
        words = frames.layout_words if layouts is None else layouts
        second = _NO_ROWS if other_out is None else other_out
        unpacked = frames.most_unpacked if frames.codecs else 0
        nbytes = out.shape[1] + unpacked + 2 * ROOM
        decoded, count = out.nbytes + second.nbytes, len(numbers)
        # Frames come a hundred times as fast where little changes as where zstd packed them, so what counts is how
        # long the last ones took: half a millisecond for each thread, or it comes too late to be of help.
        shares = share_count(count, int(decoded * min(self._pace, 1)) // 2)
        progress, step = np.zeros(3, np.int64), -(-count // (shares * SHARES_AT_ONCE)) if shares > 1 else count
        caller = get_ident()

        def work() -> None:
            began = perf_counter()
            tools = np.array([*self._zstd(), unpacked, 0, 0, *self._dictionaries()], np.int64)
            scratch = self._scratch_of_thread(nbytes)
            tables = table, words, tools, bases, references
            done = kernel(numbers, out, others, second, *tables, scratch, progress, step)
            if done and get_ident() == caller:  # others may have waited for the interpreter
                pace = (perf_counter() - began) * 1e9 * count / (decoded * done)
                self._pace += (pace - self._pace) / 8

        if shares == 1:
            work()
        else:
            together(work, shares, lambda: bool(self._reader.wait_for(progress, count, PATIENCE)))
        if progress[self._reader.FAILED]:
            if frames.decoder is None:
                raise CodecUnavailableError("zstd", "zstd")
            raise CorruptPayloadError(f"the frames of item {progress[self._reader.FAILED] - 1} do not decode")

    def _scratch_of_thread(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Memory for decoding, kept: a group may unpack to much, of which mostly little is ever touched."""
        kept: npt.NDArray[np.uint8] | None = getattr(self._of_thread, "scratch", None)
        if kept is None or kept.size < nbytes:
            kept = self._of_thread.scratch = map_memory(nbytes)
        return kept

    def retain(self, numbers: RecordNumbers) -> None:
        """Take one more reference for each number."""
        self._writer.add_references(numbers, self._frames.groups.table, self._frames.layout_words)

    def release(self, numbers: RecordNumbers, first: int) -> int:
        """Give up a reference for each number from `first` on, until the list of the dead is full; says how many."""
        frames, groups = self._frames, self._frames.groups
        words = frames.layout_words
        done: int = self._writer.drop_references(numbers, first, groups.table, words, groups.dead, groups.counts)
        return done

    def _reference_addresses(self) -> Words:
        # By a local name: readers do this, too, and may put back the addresses of fewer.
        known, references = self._references, self._frames.references
        if len(known) != len(references):
            known = np.array([r.__array_interface__["data"][0] for r in references], np.int64)
            self._references = known
        return known

    def _compressor(self) -> tuple[int, int, int]:
        """zstd's function, a context of this thread's own and a level, for writing records."""
        return (0, 0, 0) if self._frames.intra is None else self._frames.intra.calls().compressor

    def _zstd(self) -> tuple[int, int, int]:
        """zstd's functions for reading, and a context of this thread's own."""
        calls = None if self._frames.decoder is None else self._frames.decoder.calls()
        if calls is None:
            return 0, 0, 0
        return calls.functions.decompress, calls.functions.frame_size, calls.decompressor[0]

    def _dictionaries(self) -> list[int]:
        return [codec.calls().decompressor[1] for codec in self._frames.codecs]
