"""`RowWriter`: writes the steps of a buffer, without the work that other keys need."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._stores.protocol import LaneNumbers, RecordNumbers, Store, exchange


class RowWriter:
    """Writes rows of one table of cells, an item for each lane.

    Args:
        store: The store that the cells' numbers belong to.
        rows: The cells, a row for each step.
        lanes: The lane of each cell of a row.
        item_shape: The shape of what is written to a cell.
        dtype: Its dtype.
    """

    def __init__(
        self,
        store: Store,
        rows: RecordNumbers,
        lanes: LaneNumbers,
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self._store, self._rows, self._lanes = store, rows, lanes
        self._count, self._shape, self._dtype = len(rows), (rows.shape[1], *item_shape), dtype

    def fits(self, row: Any, items: Any) -> bool:
        """Whether this is a step of a buffer: a row that is there, and an array of just its shape and dtype."""
        return (
            type(row) is int
            and type(items) is np.ndarray
            and items.shape == self._shape
            and items.dtype == self._dtype
            and 0 <= row < self._count
        )

    def write(self, row: Any, items: Any) -> bool:
        """Writes items to a row and releases what was there, if they fit. Returns whether they did."""
        if not self.fits(row, items):
            return False
        epochs = self._store.epochs
        with epochs.writing, epochs.guard:
            self.put(row, items)
        return True

    def put(self, row: int, items: npt.NDArray[Any]) -> None:
        """Does what `write` does, for items that fit, while the caller has the store to itself."""
        exchange(self._store, (self._rows[row], ..., self._store.write(items, self._lanes)))
