"""`Store`: what a `CompressedArray` stands on. The array knows this much of it and no more.

A store keeps records, byte strings of one fixed size, and names each by a *record number*. Number 0 is the record that
was never written: it reads as zero bytes and takes no space. The array keeps the numbers, one per grid cell, in memory
of its own; several arrays may hold the same number, each with a reference of its own.
"""

from __future__ import annotations

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
    """A faster way to `write` items, put their numbers into a row of cells, and `release` those that were there."""

    def write(self, row: int, items: npt.NDArray[Any]) -> bool:
        """Write items, if they are of the right shape and dtype and can be written so. Returns whether they were."""

    def fits(self, row: int, items: npt.NDArray[Any]) -> bool:
        """Whether items are of the right shape and dtype, and the row is there."""

    def put(self, row: int, items: npt.NDArray[Any]) -> bool:
        """`write` for items that fit, while the caller has the store to itself."""


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

    def read(self, numbers: RecordNumbers, out: Records) -> None:
        """Fill row i of a C-contiguous (n, record_nbytes) array with record `numbers[i]`."""

    def read_pair(self, numbers: RecordNumbers, out: Records, others: RecordNumbers, other_out: Records) -> None:
        """Two reads in one: of as many others, or of one for each of so many equal parts of `numbers`."""

    def write(self, items: npt.NDArray[Any], lanes: LaneNumbers) -> RecordNumbers:
        """Store items, an (n, *item_shape) array that may lie in memory in any order.

        `lanes[i]` says which stream item i is the next of. Several items may get the same number, with a reference for
        each of them.
        """

    def row_writer(self, rows: RecordNumbers, lanes: LaneNumbers) -> WritesRows | None:
        """What may write to rows of a table of cells faster than item by item, one for each lane; None if nothing."""

    def retain(self, numbers: RecordNumbers) -> None:
        """Take one more reference for each occurrence of a number."""

    def release(self, numbers: RecordNumbers) -> None:
        """Give up one reference for each occurrence; a record without any is forgotten when no reader is left."""

    def release_later(self, numbers: RecordNumbers) -> None:
        """`release`, some time later: for a finaliser, which may run at any point of any thread and must not lock."""

    def compact(self) -> None:
        """Hold nothing but the records until the next write, which may have to store more than it otherwise would."""

    def nbytes_of(self, numbers: RecordNumbers) -> int:
        """The memory these records account for; all of `nbytes`, if there are no others."""

    def export(self, numbers: RecordNumbers) -> tuple[Any, RecordNumbers]:
        """These records in the form that is pickled and saved, without decoding them, and their numbers in there."""

    def take_out(self, numbers: RecordNumbers) -> tuple[Any, RecordNumbers] | None:
        """`export` for another store to `adopt`; None where more would go with these records than they are worth."""

    def adopt(self, export: Any, numbers: RecordNumbers, out: RecordNumbers) -> bool:
        """Take over records of another store, undecoded, and return whether that was possible.

        What they are called here is put into `out`, with a reference for each occurrence in `numbers`; all of them, or
        nothing has changed.
        """

    def snapshot(self, numbers: RecordNumbers, *, is_part: bool) -> Any:
        """All of the store, for arrays that are pickled together; None where records are pickled without the others.

        `numbers` are those of an array's table; `is_part` says that they may be few of the store's.
        """


def byte_rows(items: npt.NDArray[Any], count: int) -> Records:
    """C-ordered memory of `count` items as bytes, without a copy if it is in C order already."""
    if items.nbytes and items.flags.c_contiguous:
        return items.reshape(count, items.size // count).view(np.uint8)
    return np.ascontiguousarray(items).reshape(-1).view(np.uint8).reshape(count, items.nbytes // count if count else 0)


class Releases(Protocol):
    """What has records that can be released."""

    def release(self, numbers: RecordNumbers) -> None: ...


def exchange(store: Releases, cells: RecordNumbers, which: Any, numbers: RecordNumbers) -> None:
    """Put numbers into the cells that a key names, each once, and release what was there."""
    old = cells[which].copy()
    cells[which] = numbers
    store.release(old)


def unchanging(numbers: RecordNumbers) -> RecordNumbers:
    """Numbers that nobody else will change: a copy, unless they are one already.

    It is made before the tables are looked at, since cells may be given numbers that those do not know.
    """
    return numbers if numbers.base is None and numbers.flags.c_contiguous else np.array(numbers)
