"""Ctrl-C at any point of a write to a store of cells: nothing is freed twice later, and all that is kept is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import _heap
from compressed_array._stores import cells as _cellstore
from compressed_array._stores.base import ADDRESS_MASK
from core_helpers.codecs import CODECS
from core_helpers.interruptions import Interruption

CELLS, NBYTES = 12, 3000


def item(cell: int, version: int) -> Any:
    values = np.full(NBYTES, cell, np.uint8)
    values[:: 5 + version % 7] = version % 256
    return values


def interrupt() -> None:
    raise KeyboardInterrupt


def freed_twice(array: Any) -> Any:
    """The segments of which less is taken for alive than the array's records in them are."""
    store = array.store
    with store.epochs.writing:
        store._flush()
        records = np.unique(array.cells.numbers)
        records = records[records != 0]
        heap, needed = store._heap, np.zeros(len(store._heap.live), np.int64)
        np.add.at(needed, (store._where[records] & ADDRESS_MASK) >> _heap.OFFSET_BITS, store._size[records])
        return np.flatnonzero(heap.live < needed)


@pytest.mark.parametrize("codec", [name for name in ("gzip", "zstd", "rle-jit", "none") if name in CODECS])
def test_an_interrupt_at_any_point_of_a_write_frees_nothing_twice(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALLEST_SEGMENT", "LARGEST_SEGMENT"):
        monkeypatch.setattr(_heap, name, 8192)  # so that segments die and are moved all the time
    take = _heap.HostHeap.take_sparse_segment
    monkeypatch.setattr(_heap.HostHeap, "take_sparse_segment", lambda heap: take(heap, thoroughly=True))
    plain = np.stack([item(cell, 0) for cell in range(CELLS)])
    array = ca.compress(plain, item_ndim=1, codec=codec)
    interrupted = 0
    for nth in range(1, 2000):
        cells = [nth % CELLS, (5 * nth + 1) % CELLS]
        wanted = np.stack([item(cell, nth) for cell in cells])
        try:
            with Interruption(nth, interrupt) as interruption:
                array[cells] = wanted
            plain[cells] = wanted
        except KeyboardInterrupt:
            interrupted += 1
            for cell, new in zip(cells, wanted, strict=True):
                got = array.read(cell)
                assert np.array_equal(got, new) or np.array_equal(got, plain[cell]), interruption.where
                plain[cell] = got
        for step in range(4):  # which move what is left in segments that are mostly dead, and free them
            cell = (nth + 7 * step) % CELLS
            array[cell] = plain[cell] = item(cell, nth + step)
        np.testing.assert_array_equal(array.read(), plain, err_msg=interruption.where)
        assert not freed_twice(array).size, interruption.where
        if interruption.left > 0:
            break
    assert interrupted > 100


@pytest.mark.parametrize("is_shared", [False, True])
def test_an_interrupt_while_tables_grow_leaves_an_array_that_takes_writes(is_shared: bool) -> None:
    for nth in range(1, 2000):
        array = ca.zeros((600, 300), np.uint8, item_ndim=1, codec="gzip")
        array[:60] = 1
        array[:60] = np.arange(60)[:, None]
        kept = array.copy() if is_shared else None
        try:
            with Interruption(nth, interrupt, sources=(_cellstore.__file__,)) as interruption:
                array[60:400] = np.arange(60, 400)[:, None] % 251
        except KeyboardInterrupt:
            pass
        array[:] = np.arange(600)[:, None] % 251
        assert (array.read() == np.arange(600)[:, None] % 251).all(), interruption.where
        assert kept is None or (kept[:60].read() == np.arange(60)[:, None]).all()
        if interruption.left > 0:
            break
    assert nth > 40
