"""`State`: a compressed array outside of its store, still compressed, for pickling and saving.

Only the records that the array's own cells hold are in it, each once, so a view of a large array is small. Arrays on
one store that are pickled together, whole, come back on one store if that is of a kind that can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from compressed_array._array.table import CellTable
from compressed_array._stores.exports import KINDS, Export, RestoredStore, from_pickle_parts, pickle_parts
from compressed_array._stores.protocol import UNWRITTEN, RecordNumbers

if TYPE_CHECKING:
    from compressed_array._array.array import CompressedArray


@dataclass(frozen=True)
class State:
    """`cells` are the numbers of the exported records; 0 is a cell that was never written."""

    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    cells: RecordNumbers
    records: Export


def take(array: CompressedArray) -> State:
    """Returns the state of an array, consistent even while other threads write to it."""
    with array.store.epochs.writing:
        numbers = array.cells.numbers
        held, inverse = np.unique(numbers, return_inverse=True)
        first = int(len(held) > 0 and held[0] == UNWRITTEN)
        records, new = array.store.export(held[first:])
    new = np.concatenate([np.zeros(first, np.uint32), new])
    cells: RecordNumbers = np.asarray(new[inverse], np.uint32).reshape(numbers.shape)
    return State(array.item_shape, array.dtype, cells, records)


def rebuild(cls: type[CompressedArray], state: State) -> CompressedArray:
    """Returns an array in a store of its own."""
    cells = np.array(state.cells, np.uint32)
    store = KINDS[state.records.kind].restore(state.item_shape, state.dtype, state.records, cells)
    return cls.on_table(CellTable(store, cells), state.item_shape, state.dtype)


def reduce_for_pickle(array: CompressedArray, protocol: int) -> tuple[Any, ...]:
    """Returns what `__reduce_ex__` gives: compressed, with a checksum, and from protocol 5 on without a copy."""
    cells, table, store = array.cells, array.cells.table, array.store
    if cells.numbers.size == table.numbers.size:
        with store.epochs.writing:
            # A copy of some items of a large array shares all of its store.
            snapshot = store.snapshot(table.numbers, is_part=table.is_part)
            if snapshot is not None:
                numbers = snapshot.renumbered(cells.numbers)
                return unpickle_on_store, (type(array), array.item_shape, array.dtype, numbers, snapshot)
    state = take(array)
    return unpickle, (type(array), state.item_shape, state.dtype, state.cells, pickle_parts(state.records, protocol))


def unpickle(
    cls: type[CompressedArray], item_shape: tuple[int, ...], dtype: np.dtype[Any], cells: Any, records: Any
) -> CompressedArray:
    """Returns the array that `reduce_for_pickle` was given."""
    return rebuild(cls, State(item_shape, dtype, cells, from_pickle_parts(*records)))


def unpickle_on_store(
    cls: type[CompressedArray], item_shape: tuple[int, ...], dtype: np.dtype[Any], cells: Any, restored: RestoredStore
) -> CompressedArray:
    """Returns the array that `reduce_for_pickle` was given with its store."""
    numbers = np.array(cells, np.uint32)
    return cls.on_table(CellTable(restored.claim(numbers), numbers), item_shape, dtype)
