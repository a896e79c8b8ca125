"""`State`: a compressed array outside of its store, still compressed, for pickling and saving.

Only the records that the array's own cells hold are in it, each once, so a view of a large array is small.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from compressed_array._cellstore import CellStore, Export
from compressed_array._store import UNWRITTEN
from compressed_array._table import CELL, Table
from compressed_array.errors import CorruptPayloadError

if TYPE_CHECKING:
    from compressed_array._array import CompressedArray


@dataclass(frozen=True)
class State:
    """`cells` numbers the exported records from 1; 0 is a cell that was never written."""

    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    cells: npt.NDArray[np.uint32]
    records: Export


def take(array: CompressedArray) -> State:
    """The state of an array, consistent even while other threads write to it."""
    with array.store.epochs.writing:
        numbers = array.cells.numbers
        held, inverse = np.unique(numbers, return_inverse=True)
        first = int(len(held) > 0 and held[0] == UNWRITTEN)
        records = array.store.export(held[first:])
    cells: npt.NDArray[np.uint32] = np.asarray(inverse + (1 - first), np.uint32).reshape(numbers.shape)
    return State(array.item_shape, array.dtype, cells, records)


def rebuild(cls: type[CompressedArray], state: State) -> CompressedArray:
    """An array in a store of its own."""
    record_nbytes = prod(state.item_shape) * state.dtype.itemsize
    store = CellStore.restore(record_nbytes, state.dtype, state.records)
    missing = np.bincount(state.cells.reshape(-1), minlength=len(state.records.size) + 1)
    shared = np.repeat(np.arange(len(missing), dtype=np.uint32), np.maximum(missing - 1, 0))
    shared = shared[shared != UNWRITTEN]
    if len(shared):
        store.retain(shared)
    return cls.on_table(Table(store, np.array(state.cells, np.uint32).view(CELL)), state.item_shape, state.dtype)


def reduce_for_pickle(array: CompressedArray, protocol: int) -> tuple[Any, ...]:
    """What `__reduce_ex__` gives: compressed, with a checksum, and from protocol 5 on without copying the payloads."""
    state = take(array)
    data = state.records.data
    payload = pickle.PickleBuffer(data.data) if protocol >= 5 else data.tobytes()
    exported = {f.name: getattr(state.records, f.name) for f in fields(Export)} | {"data": payload}
    records = (exported, zlib.crc32(data.data))
    return unpickle, (type(array), state.item_shape, state.dtype, state.cells, records)


def unpickle(
    cls: type[CompressedArray], item_shape: tuple[int, ...], dtype: np.dtype[Any], cells: Any, records: Any
) -> CompressedArray:
    """The inverse of `reduce_for_pickle`."""
    exported, checksum = records
    data = np.frombuffer(exported["data"], np.uint8)
    if zlib.crc32(data.data) != checksum:
        raise CorruptPayloadError("the pickled items were changed since they were pickled")
    return rebuild(cls, State(item_shape, dtype, cells, Export(**exported | {"data": data})))
