"""`Table`: the grid of record numbers that is a `CompressedArray`'s own memory.

The numbers are kept in a structured dtype on purpose: whatever reaches an array's memory behind its back
(`np.asarray`, `torch.from_numpy`, a C extension) meets a type that no arithmetic works on, never plausible numbers.
The second field is there because numpy casts records of a single field to numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._store import MOST_LANES, Lanes, RecordNumbers, Store

CELL = np.dtype({"names": ["record", "compressed"], "formats": ["u4", "V4"], "offsets": [0, 0]})


class Table:
    """Cells, the store their numbers belong to, and the duty to give the records back when no array needs them."""

    __slots__ = ("__weakref__", "cells", "is_part", "numbers", "row_lanes", "store")

    def __init__(self, store: Store, cells: npt.NDArray[Any], *, is_part: bool = False) -> None:
        self.store, self.cells, self.is_part = store, cells, is_part
        self.numbers: RecordNumbers = cells.view(np.uint32).reshape(-1)
        # The last axis is taken for the one of streams that are written side by side; where there is but one axis, its
        # cells are one stream.
        self.row_lanes: Lanes = np.arange(cells.shape[-1] if cells.ndim > 1 else 1) % MOST_LANES

    @classmethod
    def unwritten(cls, store: Store, grid: tuple[int, ...]) -> Table:
        """A table none of whose cells has been written."""
        return cls(store, np.zeros(grid, CELL))

    @classmethod
    def holding(cls, store: Store, numbers: RecordNumbers, *, is_part: bool) -> Table:
        """A table of its own that shares records with others. The caller holds `epochs.writing`."""
        store.retain(numbers.reshape(-1))
        return cls(store, np.array(numbers, order="C").view(CELL), is_part=is_part)

    def lanes(self, positions: npt.NDArray[np.int64]) -> Lanes:
        """The streams that cells belong to, by their positions in C order."""
        return self.row_lanes[positions % max(len(self.row_lanes), 1)]

    def numbers_in(self, view: npt.NDArray[Any]) -> RecordNumbers | None:
        """The numbers that a view shows, without a reference to it; None if numpy made it a copy of the table's."""
        if not view.size:
            return np.empty(view.shape, np.uint32)
        offset = int(view.ctypes.data) - int(self.cells.ctypes.data)
        if not 0 <= offset < self.cells.nbytes:
            return None
        return np.ndarray(view.shape, np.uint32, self.numbers, offset, view.strides)

    def __del__(self) -> None:
        self.store.bury(self.numbers)
