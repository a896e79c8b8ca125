"""`State`: a compressed array outside of its store, still compressed, for pickling and saving.

Only the records that the array's own cells hold are in it, each once, so a view of a large array is small. Arrays on
one store of frames that are pickled together, whole, come back on one store.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.table import Table
from compressed_array._stores.cells import CellStore, Export
from compressed_array._stores.frames.export import FrameExport, Snapshot, renumbered
from compressed_array._stores.frames.store import FrameStore
from compressed_array._stores.protocol import UNWRITTEN
from compressed_array.errors import CorruptPayloadError

if TYPE_CHECKING:
    from compressed_array._array.array import CompressedArray

# Which store each kind of export is restored to.
STORES: dict[type, Any] = {Export: CellStore, FrameExport: FrameStore}


@dataclass(frozen=True)
class State:
    """`cells` are the numbers of the exported records; 0 is a cell that was never written."""

    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    cells: npt.NDArray[np.uint32]
    records: Export | FrameExport


def take(array: CompressedArray) -> State:
    """The state of an array, consistent even while other threads write to it."""
    with array.store.epochs.writing:
        numbers = array.cells.numbers
        held, inverse = np.unique(numbers, return_inverse=True)
        first = int(len(held) > 0 and held[0] == UNWRITTEN)
        records, new = array.store.export(held[first:])
    new = np.concatenate([np.zeros(first, np.uint32), new])
    cells: npt.NDArray[np.uint32] = np.asarray(new[inverse], np.uint32).reshape(numbers.shape)
    return State(array.item_shape, array.dtype, cells, records)


def rebuild(cls: type[CompressedArray], state: State) -> CompressedArray:
    """An array in a store of its own."""
    cells = np.array(state.cells, np.uint32)
    store = STORES[type(state.records)].restore(state.item_shape, state.dtype, state.records, cells)
    if isinstance(store, FrameStore):
        store.give_up_restored(len(state.records.size))
    return cls.on_table(Table(store, cells), state.item_shape, state.dtype)


def reduce_for_pickle(array: CompressedArray, protocol: int) -> tuple[Any, ...]:
    """What `__reduce_ex__` gives: compressed, with a checksum, and from protocol 5 on without copying the payloads."""
    cells = array.cells
    table = cells.table
    # A copy of some items of a large array stands on all of its store, and would take that along.
    is_whole = cells.numbers.size == table.numbers.size
    if isinstance(array.store, FrameStore) and is_whole and (not table.is_part or array.store.is_mostly(table.numbers)):
        with array.store.epochs.writing:
            snapshot = array.store.snapshot()
            numbers = renumbered(snapshot.groups, cells.numbers)
        return unpickle_on_store, (type(array), array.item_shape, array.dtype, numbers, snapshot)
    state = take(array)
    return unpickle, (type(array), state.item_shape, state.dtype, state.cells, packed(state.records, protocol))


def packed(records: Export | FrameExport, protocol: int) -> tuple[Any, ...]:
    """An export as its kind, its fields and a checksum."""
    data = records.data
    payload = pickle.PickleBuffer(data.data) if protocol >= 5 else data.tobytes()
    parts = {f.name: getattr(records, f.name) for f in fields(records)} | {"data": payload}
    return parts, zlib.crc32(data.data), type(records)


def unpacked(parts: dict[str, Any], checksum: int, kind: type = Export) -> Any:
    """The inverse of `packed`."""
    data = np.frombuffer(parts["data"], np.uint8)
    if zlib.crc32(data.data) != checksum:
        raise CorruptPayloadError("the pickled items were changed since they were pickled")
    return kind(**parts | {"data": data})


def unpickle(
    cls: type[CompressedArray], item_shape: tuple[int, ...], dtype: np.dtype[Any], cells: Any, records: Any
) -> CompressedArray:
    """The inverse of `reduce_for_pickle`."""
    return rebuild(cls, State(item_shape, dtype, cells, unpacked(*records)))


class Restored:
    """A store on its way in: unpickling keeps this until all arrays that were pickled with it have found theirs."""

    def __init__(self, store: FrameStore, groups: int) -> None:
        self.store, self._groups = store, groups

    def __del__(self) -> None:
        self.store.give_up_restored(self._groups)


def unpickle_on_store(
    cls: type[CompressedArray], item_shape: tuple[int, ...], dtype: np.dtype[Any], cells: Any, restored: Restored
) -> CompressedArray:
    """The inverse of `reduce_for_pickle`, for an array that was pickled with its store."""
    numbers = np.array(cells, np.uint32)
    restored.store.claim(numbers)
    return cls.on_table(Table(restored.store, numbers), item_shape, dtype)


def unpickle_store(item_shape: tuple[int, ...], dtype: np.dtype[Any], *records: Any) -> Restored:
    """The store that a snapshot was taken of."""
    export = unpacked(*records)
    return Restored(FrameStore.restore(item_shape, dtype, export, np.empty(0, np.uint32)), len(export.size))


def reduce_snapshot(snapshot: Snapshot, protocol: int) -> tuple[Any, ...]:
    """A snapshot is unpickled as a store."""
    return unpickle_store, (snapshot.item_shape, snapshot.dtype, *packed(snapshot.export, protocol))
