"""Columns: one field of every step, in rows that are added as they are needed.

Rows are doubled. For a compressed column that copies four bytes for each frame there is and decodes none; a grid that
is huge from the start is no faster to write, and would count the table of all its cells as memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from compressed_array._array.array import CompressedArray
from compressed_array._array.creation import zeros
from compressed_array._array.joining import concatenate

OWN = ("frames", "rewards", "actions")  # the fields of every recording; all others are features
BLOCK = 1 << 24  # bytes of a field that are read from a file, or decoded, at a time
FIRST_ROWS = 256  # more than a stream's first items, by which "auto" tells it from a few items without an order


class Column(Protocol):
    """One field of every step."""

    @property
    def array(self) -> Any:
        """All rows, those that were not written yet too."""

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of one row."""

    @property
    def nbytes_stored(self) -> int:
        """What the rows take."""

    def reserve(self, rows: int) -> None:
        """Makes more rows, if there are fewer than `rows`."""

    def read(self, rows: Sequence[slice]) -> Any:
        """Returns a copy of some rows, one part after the other."""


class PlainColumn:
    """Rows of a numpy array."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array

    @property
    def item_shape(self) -> tuple[int, ...]:
        return self.array.shape[1:]

    @property
    def nbytes_stored(self) -> int:
        return self.array.nbytes

    def reserve(self, rows: int) -> None:
        if rows > len(self.array):
            grown = np.zeros((rows, *self.item_shape), self.array.dtype)
            grown[: len(self.array)] = self.array
            self.array = grown

    def read(self, rows: Sequence[slice]) -> npt.NDArray[Any]:
        return np.concatenate([self.array[part] for part in rows])


class CompressedColumn:
    """Rows of a compressed array, of which each is an item."""

    def __init__(self, array: CompressedArray) -> None:
        self.array = array

    @property
    def item_shape(self) -> tuple[int, ...]:
        return self.array.item_shape

    @property
    def nbytes_stored(self) -> int:
        # All of the store: an episode that is looked at shares it, and takes no part of it away.
        return self.array.store.nbytes + self.array.cells.numbers.nbytes

    def reserve(self, rows: int) -> None:
        more = rows - len(self.array)
        if more > 0:
            unwritten = zeros(
                (more, *self.item_shape), self.array.dtype, item_ndim=len(self.item_shape), store=self.array.store
            )
            self.array = concatenate([self.array, unwritten])

    def read(self, rows: Sequence[slice]) -> CompressedArray:
        return concatenate([self.array[part] for part in rows])


def grown(rows: int, needed: int, size: int | None) -> int:
    """Returns how many rows to have where there are `rows` and some more are needed, and a ring has `size` at most."""
    if needed <= rows:
        return rows
    more = max(needed, 2 * rows, FIRST_ROWS)
    return more if size is None else min(more, size)
