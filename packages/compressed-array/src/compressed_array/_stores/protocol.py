"""`Store`: where a `CompressedArray` keeps its items. This is all that the array knows of it.

A store keeps records, byte strings of one fixed size, and names each by a *record number*. Number 0 is the record that
was never written: it reads as zero bytes and takes no space. The array keeps the numbers, one per grid cell, in memory
of its own; several arrays may hold the same number, each with a reference of its own.
"""

from __future__ import annotations

from collections import deque
from operator import setitem
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Epochs

Records = npt.NDArray[np.uint8]
RecordNumbers = npt.NDArray[np.uint32]
LaneNumbers = npt.NDArray[np.int64]
UNWRITTEN = 0
MOST_LANES = 256


class WritesRows(Protocol):
    """Writes the steps of a buffer: rows of a table of cells, an item of one shape and dtype for each lane."""

    def fits(self, row: Any, items: Any) -> bool:
        """Whether this is such a step."""

    def write(self, row: Any, items: Any) -> bool:
        """Writes items to a row of cells and releases what was there, if they fit. Returns whether they did."""

    def put(self, row: int, items: npt.NDArray[Any]) -> None:
        """Does what `write` does, for items that fit, while the caller has the store to itself."""


class Store(Protocol):
    """Records of `record_nbytes` bytes by number.

    Reading needs `epochs.reading()` from the moment the numbers are fetched; everything else, `epochs.writing`.
    """

    epochs: Epochs
    record_nbytes: int
    is_stream: ClassVar[bool]  # whether items take less if they are written in the order of their time

    @property
    def codec(self) -> Any:
        """The codec that the next record will be written with."""

    @property
    def codec_choice(self) -> Any:
        """What a store like this one is made with: the codec, or "auto" as long as that has not settled."""

    @property
    def nbytes(self) -> int:
        """All the memory the store holds, slack and garbage included."""

    def holds(self, item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        """Whether the store is one for such items."""

    def note_another_array(self) -> None:
        """Notes that another array uses this store, which may have items in common with the others."""

    def read(self, numbers: RecordNumbers, out: Records) -> None:
        """Fills row i of a C-contiguous (n, record_nbytes) array with record `numbers[i]`."""

    def read_pair(self, numbers: RecordNumbers, out: Records, others: RecordNumbers, other_out: Records) -> None:
        """Reads two sets of records at once: `others` are as many as `numbers`, or one for each of its equal parts."""

    def write(self, items: npt.NDArray[Any], lanes: LaneNumbers) -> RecordNumbers:
        """Stores items, an (n, *item_shape) array that may lie in memory in any order.

        `lanes[i]` says which stream item i is the next of. Several items may get the same number, with a reference for
        each of them.
        """

    def row_writer(
        self, rows: RecordNumbers, lanes: LaneNumbers, item_shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> WritesRows:
        """Returns what writes to rows of a table of cells faster than item by item."""

    def retain(self, numbers: RecordNumbers) -> None:
        """Takes one more reference for each occurrence of a number."""

    def release(self, numbers: RecordNumbers) -> None:
        """Gives up one reference for each occurrence; a record without any is forgotten when no reader is left."""

    def release_later(self, numbers: RecordNumbers) -> None:
        """Releases numbers with the next write: for finalisers, which may run at any time and must not lock."""

    def release_listed(self) -> None:
        """Releases now what `release_later` was given."""

    def compact(self) -> None:
        """Holds nothing but the records until the next write, which may have to store more than it otherwise would."""

    def nbytes_of(self, numbers: RecordNumbers) -> int:
        """Returns the memory that these records account for; all of `nbytes`, if there are no others."""

    def export(self, numbers: RecordNumbers) -> tuple[Any, RecordNumbers]:
        """Returns records in the form that is pickled and saved, not decoded, and their numbers in there."""

    def take_out(self, numbers: RecordNumbers) -> tuple[Any, RecordNumbers] | None:
        """Returns an export for another store to `adopt`; None if it would have much that these records do not need."""

    def adopt(self, export: Any, numbers: RecordNumbers, out: RecordNumbers) -> bool:
        """Takes over records of another store, undecoded, and returns whether that was possible.

        What they are called here is put into `out`, with a reference for each occurrence in `numbers`; all of them, or
        nothing has changed.
        """

    def snapshot(self, numbers: RecordNumbers, *, is_part: bool) -> Any:
        """Returns all of the store, for arrays that are pickled together; None where each takes its own records.

        `numbers` are those of an array's table; `is_part` says that they may be few of the store's.
        """


def byte_rows(items: npt.NDArray[Any], count: int) -> Records:
    """Returns `count` items as rows of bytes, without a copy if they are in C order already."""
    if items.nbytes and items.flags.c_contiguous:
        return items.reshape(count, items.size // count).view(np.uint8)
    return np.ascontiguousarray(items).reshape(-1).view(np.uint8).reshape(count, items.nbytes // count if count else 0)


def exchange(store: Store, *places: tuple[RecordNumbers, Any, RecordNumbers]) -> None:
    """Puts numbers into cells and releases those that were there. An interrupt finds all of it done, or nothing.

    Args:
        store: The store of all the numbers. The caller holds `epochs.writing`.
        places: Some cells, a key that names each of them once, and a number for each of these. The numbers are the
            caller's no more: they are zeros afterwards, and released if they do not get to the cells.
    """
    try:
        old = np.concatenate([cells[which].reshape(-1) for cells, which, _ in places])
        released = np.zeros_like(old)
        store.release_later(released)
        steps = [*places, (released, ..., old), *((numbers, ..., UNWRITTEN) for _, _, numbers in places)]
        deque(map(setitem, *zip(*steps, strict=True)), maxlen=0)  # one call into C, so that nothing comes in between
    except BaseException:
        for _, _, numbers in places:
            left = numbers.copy()
            numbers[...] = UNWRITTEN  # first: an interrupt must not have them released twice
            store.release_later(left)
        raise
    store.release_listed()


def unchanging(numbers: RecordNumbers) -> RecordNumbers:
    """Numbers that nobody else will change: a copy, unless they are one already.

    It is made before the tables are looked at, since cells may be given numbers that those do not know.
    """
    return numbers if numbers.base is None and numbers.flags.c_contiguous else np.array(numbers)
