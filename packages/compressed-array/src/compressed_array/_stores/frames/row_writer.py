"""`RowWriter`: a row of a buffer written in one native call, if it comes as the last one did.

All that a kernel has to be told is the same from step to step, until a table is replaced, a group is full or the store
changes its mind about something. So it is put together once, in words that the kernel finds by itself, and again when
the store has done anything else. A row that is not like the last is left to the store's `write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.groups import LISTED, PUT
from compressed_array._stores.frames.layouts import strides_of
from compressed_array._stores.protocol import Lanes, RecordNumbers

if TYPE_CHECKING:
    from compressed_array._stores.frames.store import FrameStore


class RowWriter:
    """Writes rows of one table of cells, an item for each lane, where there are not too many lanes."""

    def __init__(self, store: FrameStore, rows: RecordNumbers, lanes: Lanes) -> None:
        self._store, self._rows, self._lanes = store, rows, lanes
        self._count, self._shape, self._dtype = len(rows), (rows.shape[1], *store.item_shape), store.dtype
        self._changes = -1
        self._strides: tuple[int, ...] = ()

    def write(self, row: int, items: npt.NDArray[Any]) -> bool:
        """Write items to a row and give up what was there, if they can be written so; says whether that was done."""
        if not self.fits(row, items):
            return False
        epochs = self._store.epochs
        with epochs.writing, epochs.guard:
            return self.put(row, items)

    def fits(self, row: int, items: npt.NDArray[Any]) -> bool:
        """Whether items are of the right shape and dtype, and the row is there."""
        return items.shape == self._shape and items.dtype == self._dtype and 0 <= row < self._count

    def put(self, row: int, items: npt.NDArray[Any]) -> bool:
        """`write` for items that fit, while the caller has the store to itself."""
        store = self._store
        if store.has_releases_left:
            return False
        if (store.changes != self._changes or items.strides != self._strides) and not self._renew(items):
            return False
        # zstd's context may be gone: it goes with its thread, or when that has used many others.
        if self._uses_zstd and self._engine.compressor() != self._compressor and not self._renew(items):
            return False
        if not store.passes():  # last, since it counts
            return False
        done = self._engine.write_row(self._words, items, row)
        if done != PUT:
            store.finish_row(items, self._geometry, self._lanes, done, self._numbers.copy(), self._rows[row])
        return True

    def _renew(self, items: npt.NDArray[Any]) -> bool:
        """Put together what the kernel is told; says whether that is possible."""
        store, self._changes = self._store, -1
        engine, geometry = store.engine, store.known_geometry(strides_of(items), self._lanes)
        # As many groups may die of one call as are counted by then.
        if not isinstance(engine, NativeEngine) or geometry is None or 3 * len(items) > LISTED:
            return False
        self._engine, self._geometry = engine, geometry
        self._strides = items.strides
        self._numbers = np.zeros(len(items), np.uint32)
        self._compressor = engine.compressor()
        self._uses_zstd = self._compressor[0] != 0
        self._words, self._kept = engine.step(items, geometry, self._lanes, self._numbers, self._rows)
        self._changes = store.changes
        return True
