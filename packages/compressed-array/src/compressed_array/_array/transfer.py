"""Items of one array into cells of another, on another store of frames, without decoding them.

It is one write: all of it is done, or nothing has changed. The two stores are never locked at once, since somebody else
may write the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compressed_array._array.grid import ItemGrid, Positions
from compressed_array._runtime.chunks import ranges
from compressed_array._stores.protocol import RecordNumbers, Store, exchange

SMALLER = 8  # times, at least, than items are when decoded: how much is taken out of a store at a time


def transferred(targets: Sequence[ItemGrid], key: Any, values: Sequence[ItemGrid]) -> bool:
    """Assigns items to the same cells of arrays on one store, undecoded, and returns whether that was possible.

    Those of two arrays that have to be decoded are written by turns, or what they have in common would not be found.
    """
    store = targets[0].store
    if not store.is_stream or len({id(target.table) for target in targets}) < len(targets):
        return False  # two arrays that are one write to the same cells, the one after the other
    positions = [_where(target, key, value, store) for target, value in zip(targets, values, strict=True)]
    if not positions[0].size or any(where.shape != positions[0].shape for where in positions):
        return False
    new = np.zeros((len(targets), positions[0].size), np.uint32)
    try:
        if not _adopted(store, values, new):
            if new.any():
                given_up, new = new, np.zeros_like(new)  # at once: an interrupt must not have them released twice
                store.release_later(given_up.reshape(-1))
            if len(targets) == 1:
                return False
            _write_by_turns(store, targets, positions, values, new)
        tables = [target.table.numbers for target in targets]
        with store.epochs.writing, store.epochs.guard:
            exchange(store, *zip(tables, [where.reshape(-1) for where in positions], new, strict=True))
    except BaseException:
        store.release_later(new.reshape(-1))  # zeros, where they are in their cells
        raise
    return True


def _where(target: ItemGrid, key: Any, value: ItemGrid, store: Store) -> Positions:
    """Returns which cells of a target's table a key names, or none if items cannot go there just as they are."""
    alike = target.item_shape == value.item_shape and target.dtype == value.dtype and target.item_nbytes > 0
    if alike and target.store is store and store.holds(target.item_shape, target.dtype):
        plan = target.split(key)
        if plan is not None and plan.basic and plan.whole_items:
            positions = target.positions(plan)
            if positions.shape == value.numbers.shape:
                return positions
    return np.empty(0, np.int64)


def _adopted(store: Store, values: Sequence[ItemGrid], new: RecordNumbers) -> bool:
    """Takes items over as they are, puts their numbers into `new`, and returns whether that went for all of them."""
    source, value = values[0].store, values[0]
    if source is store or not store.holds(value.item_shape, value.dtype):
        return False
    if any(value.store is not source for value in values):
        return False
    for low, high in ranges(new.shape[1], store.record_nbytes // SMALLER):
        with source.epochs.writing:
            exported = source.take_out(np.stack([value.numbers.reshape(-1)[low:high] for value in values]))
        if exported is None:
            return False
        with store.epochs.writing, store.epochs.guard:
            if not store.adopt(*exported, new[:, low:high]):
                return False
    return True


def _write_by_turns(
    store: Store,
    targets: Sequence[ItemGrid],
    positions: Sequence[Positions],
    values: Sequence[ItemGrid],
    new: RecordNumbers,
) -> None:
    """Decodes items and writes them, a row of each array after the other, and puts their numbers into `new`."""
    rows = len(positions[0]) if positions[0].ndim else 1
    each = new.shape[1] // rows
    for low, high in ranges(rows, len(targets) * each * store.record_nbytes):
        part, count = slice(low * each, high * each), high - low
        items = np.stack(
            [value.rows(part.start, part.stop).reshape(count, each, *value.item_shape) for value in values], 1
        )
        lanes = np.stack(
            [
                t.table.lanes(where.reshape(-1)[part]).reshape(count, each)
                for t, where in zip(targets, positions, strict=True)
            ],
            1,
        )
        with store.epochs.writing, store.epochs.guard:
            numbers = store.write(items.reshape(-1, *values[0].item_shape), lanes.reshape(-1))
            new[:, part] = numbers.reshape(count, len(targets), each).swapaxes(0, 1).reshape(len(targets), -1)
