"""`FrameRowWriter`: a row of a buffer written in one native call, if it lies in memory as the last one did.

All that a kernel is given is the same from step to step, until a table is replaced, the policy makes other settings or
items lie in memory in another way. So it is put together once, and again when it has changed. A row that cannot be
written like that is left to the store's `write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.groups import WRITTEN, WRITTEN_WITH_DEAD
from compressed_array._stores.frames.layouts import Geometry
from compressed_array._stores.frames.policy import WritePolicy
from compressed_array._stores.protocol import LaneNumbers, RecordNumbers, exchange
from compressed_array._stores.row_writer import RowWriter

if TYPE_CHECKING:
    from compressed_array._stores.frames.store import FrameStore


class PreparedRow:
    """The call of a kernel that writes rows of a table of cells, and what has to stay as it is for that."""

    def __init__(
        self,
        engine: NativeEngine,
        policy: WritePolicy,
        geometry: Geometry,
        items: npt.NDArray[Any],
        rows: RecordNumbers,
        lanes: LaneNumbers,
    ) -> None:
        settings = policy.settings
        self.geometry = geometry
        self.numbers: RecordNumbers = np.zeros(len(items), np.uint32)  # of the items that the last call has written
        self._engine, self._policy, self._settings, self._strides = engine, policy, settings, items.strides
        compressor = engine.compressor(settings)
        self._compressor = compressor if compressor.function else None
        self._call = engine.prepare_write(items, geometry, lanes, self.numbers, settings, rows)
        self._are_current = self._call.tables.are_current

    def fits(self, items: npt.NDArray[Any]) -> bool:
        """Whether items can be written by what was prepared here."""
        return (
            items.strides == self._strides
            and self._settings is self._policy.settings
            and self._are_current()
            # zstd's context may be gone: it goes with its thread, or when that has used many others.
            and (self._compressor is None or self._engine.compressor(self._settings) == self._compressor)
        )

    def write(self, items: npt.NDArray[Any], row: int) -> int:
        """Writes items that fit to a row, and releases what was there. Returns what the kernel `write_items` does.

        Where that is a number of items, only so many are written, and the row is as it was.
        """
        return self._engine.write_row(self._call, items, row)


class FrameRowWriter(RowWriter):
    """Writes rows in one native call, where there are not too many lanes."""

    def __init__(
        self,
        store: FrameStore,
        rows: RecordNumbers,
        lanes: LaneNumbers,
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        super().__init__(store, rows, lanes, item_shape, dtype)
        self._frame_store = store
        self._prepared: PreparedRow | None = None

    def put(self, row: int, items: npt.NDArray[Any]) -> None:
        prepared, store = self._prepared, self._frame_store
        if prepared is None or not prepared.fits(items):
            prepared = self._prepared = store.prepare_row(items, self._rows, self._lanes)
        if prepared is None or not store.is_ready_for_row():
            super().put(row, items)
            return
        done = prepared.write(items, row)
        if done == WRITTEN_WITH_DEAD:
            store.reclaim_dead()
        elif done != WRITTEN:
            numbers = prepared.numbers.copy()
            store.write_rest(items, prepared.geometry, self._lanes, done, numbers)
            exchange(store, (self._rows, row, numbers))
