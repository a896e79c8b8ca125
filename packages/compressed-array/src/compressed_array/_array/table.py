"""`CellTable`: the grid of record numbers that compressed arrays are views of.

Only the arrays themselves can reach it: C code that looks for an array's memory finds `decoy_array`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compressed_array._stores.protocol import MOST_LANES, LaneNumbers, RecordNumbers, Store


class CellTable:
    """Cells, and the store that their numbers belong to. It releases the records when no array needs them any more."""

    __slots__ = ("__weakref__", "cells", "is_part", "numbers", "row_lanes", "store")

    def __init__(self, store: Store, cells: RecordNumbers, *, is_part: bool = False) -> None:
        # A view, since what has no base is taken for a copy that nobody else changes.
        self.store, self.cells, self.is_part = store, cells.view(), is_part
        self.numbers: RecordNumbers = cells.reshape(-1)
        # The last axis is taken for the one of streams that are written side by side; where there is but one axis, its
        # cells are one stream.
        self.row_lanes: LaneNumbers = np.arange(cells.shape[-1] if cells.ndim > 1 else 1) % MOST_LANES

    @classmethod
    def unwritten(cls, store: Store, grid: tuple[int, ...]) -> CellTable:
        """Returns a table none of whose cells has been written."""
        return cls(store, np.zeros(grid, np.uint32))

    @classmethod
    def sharing(cls, store: Store, numbers: RecordNumbers, *, is_part: bool) -> CellTable:
        """Returns a new table of numbers that others have too, with a reference more for each of them.

        The caller holds `epochs.writing`.
        """
        store.retain(numbers.reshape(-1))
        return cls(store, np.array(numbers, order="C"), is_part=is_part)

    def lanes(self, positions: npt.NDArray[np.int64]) -> LaneNumbers:
        """Returns the streams that cells belong to, by their positions in C order."""
        return self.row_lanes[positions % max(len(self.row_lanes), 1)]

    def __del__(self) -> None:
        numbers = getattr(self, "numbers", None)
        if numbers is not None:  # an interrupt may have come during `__init__`
            self.store.release_later(numbers)
