"""`RowWriter`: a row of a buffer written in one native call, if it comes as the last one did.

All that a kernel has to be told is the same from step to step, until a table is replaced, the policy makes other
settings or items lie in memory in another way. So it is put together once, and again when it is no longer so. A row
that cannot be written like that is left to the store's `write`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Epochs
from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.layouts import Geometry
from compressed_array._stores.frames.policy import WritePolicy
from compressed_array._stores.protocol import LaneNumbers, RecordNumbers


class RowStep:
    """What a kernel is told to write rows of a table of cells, and what has to stay as it is for that."""

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
        self.engine, self.geometry, self.rows, self.lanes = engine, geometry, rows, lanes
        self.numbers: RecordNumbers = np.zeros(len(items), np.uint32)
        self._policy, self._settings, self._strides = policy, settings, items.strides
        compressor = engine.compressor(settings)
        self._compressor = compressor if compressor[0] else None
        self.told = engine.step(items, geometry, lanes, self.numbers, settings, rows)
        self._are_current = self.told.tables.are_current

    def fits(self, items: npt.NDArray[Any]) -> bool:
        """Whether items can be written as this says."""
        return (
            items.strides == self._strides
            and self._settings is self._policy.settings
            and self._are_current()
            # zstd's context may be gone: it goes with its thread, or when that has used many others.
            and (self._compressor is None or self.engine.compressor(self._settings) == self._compressor)
        )


class RowStore(Protocol):
    """What a store does for those who write rows to it."""

    epochs: Epochs
    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def prepare_row(self, items: npt.NDArray[Any], rows: RecordNumbers, lanes: LaneNumbers) -> RowStep | None:
        """Returns what it takes to write rows that come as these items do; None if only `write` can write them."""

    def write_row(self, step: RowStep, row: int, items: npt.NDArray[Any]) -> bool:
        """Write items that a step fits to a row, and release what was there. Returns whether that was done.

        It is not where something else is due first, which `write` does.
        """


class RowWriter:
    """Writes rows of one table of cells, an item for each lane, where there are not too many lanes."""

    def __init__(self, store: RowStore, rows: RecordNumbers, lanes: LaneNumbers) -> None:
        self._store, self._rows, self._lanes = store, rows, lanes
        self._count, self._shape, self._dtype = len(rows), (rows.shape[1], *store.item_shape), store.dtype
        self._step: RowStep | None = None

    def write(self, row: int, items: npt.NDArray[Any]) -> bool:
        """Write items to a row and release what was there, if that can be done in one call. Returns whether it was."""
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
        step = self._step
        if step is None or not step.fits(items):
            step = self._step = self._store.prepare_row(items, self._rows, self._lanes)
        return step is not None and self._store.write_row(step, row, items)
