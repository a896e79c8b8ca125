"""The heap on a device: it grows and shrinks by itself, never takes much more than lives, and never loses anything."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array.torch import DeviceArray, TorchHeap
from compressed_array.torch import _heap as heaps
from core_helpers.streams import Stacked
from device_helpers.device_streams import CODECS, Twins, sweep

CPU = torch.device("cpu")
CODED = [codec for codec in CODECS if codec != "none"]


@given(st.data())
def test_records_come_back_wherever_they_are(data: st.DataObject) -> None:
    heap = TorchHeap([(torch.int32, ()), (torch.uint8, (3,))], CPU)
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    records: list[tuple[int, int, torch.Tensor]] = []
    for size in data.draw(st.lists(st.integers(0, 5000), min_size=1, max_size=12)):
        values = torch.from_numpy(rng.integers(0, 2**31, size).astype(np.int32))
        more = torch.from_numpy(rng.integers(0, 256, (size, 3)).astype(np.uint8))
        if size:
            records.append((heap.append([values, more]), size, values))
    picked = [records[i] for i in rng.integers(0, len(records), 20)] if records else []
    start, length = (torch.tensor([record[k] for record in picked], dtype=torch.int64) for k in (0, 1))
    gathering = heap.gathering(start, length)
    owner, columns = heap.gather(gathering, gathering.rows.tolist())
    for k, (_, _, values) in enumerate(picked):
        assert torch.equal(columns[0][owner == k], values)
    assert heap.nbytes >= heap.used_rows * heap.row_nbytes


def stored(twins: Twins) -> Any:
    store = twins.arrays[0].store
    assert store is not None
    return store


@pytest.mark.parametrize("codec", CODED)
@pytest.mark.parametrize("kind", ["calm", "noise"])
def test_memory_never_exceeds_what_lives_by_much(codec: str, kind: str) -> None:
    twins = Twins(codec, 300, Stacked(2, 4, (1, 40, 40), kind, episode=60))
    store, peaks = None, []
    for _ in range(60):
        twins.add(20)
        store = stored(twins)
        theirs = [held.heap for held in store.frames.coder.heaps()]
        taken = sum(heap.nbytes for heap in theirs)
        segments = sum(max((s.rows for s in heap._segments if s), default=0) * heap.row_nbytes for heap in theirs)
        found = store.frames._new_sweep().needed_of
        live = sum(int(needed.rows.sum()) * heap.row_nbytes for heap, needed in zip(theirs, found, strict=True))
        peaks.append(taken)
        assert taken <= 1.5 * live + segments + 2 * heaps.SMALLEST_SEGMENT
    assert max(peaks[30:]) <= 1.6 * max(peaks[:30]) + heaps.SMALLEST_SEGMENT
    twins.check()


@pytest.mark.parametrize("codec", CODED)
def test_zeros_over_everything_give_the_memory_back(codec: str) -> None:
    twins = Twins(codec, 300, Stacked(2, 4, (1, 40, 40), "noise"))
    twins.add(300)
    full = stored(twins).nbytes
    for array, plain in zip(twins.arrays, twins.plains, strict=True):
        array[...] = torch.zeros((), dtype=torch.uint8)
        plain.zero_()
    twins.arrays[0].compact()
    sweep(stored(twins))
    assert stored(twins).nbytes < full / 4
    twins.check()
    twins.add(50)
    twins.check()


def test_an_array_that_is_gone_is_not_held() -> None:
    twins = Twins("delta", 300, Stacked(2, 4, (1, 40, 40), "noise"))
    twins.add(300)
    twins.arrays[0][...] = torch.zeros((), dtype=torch.uint8)
    store, full = stored(twins), stored(twins).nbytes
    del twins.arrays[1]
    gc.collect()
    store.compact()
    sweep(store)
    assert store.nbytes < full / 4


@pytest.mark.parametrize("codec", CODED)
def test_random_overwrites_do_not_pile_up(codec: str) -> None:
    rng = np.random.default_rng(0)
    array = DeviceArray((200, 30, 30), torch.uint8, codec=codec)
    plain = torch.zeros(array.shape, dtype=torch.uint8)
    sizes = []
    for _ in range(120):
        rows = rng.choice(200, 20, replace=False)
        items = torch.from_numpy(rng.integers(0, 4, (20, 30, 30)).astype(np.uint8))
        array[rows], plain[rows] = items, items
        sizes.append(array.nbytes_stored)
    assert torch.equal(array[:], plain)
    assert max(sizes[60:]) <= 1.5 * max(sizes[:60])


def test_a_sweep_leaves_little_garbage() -> None:
    rng = np.random.default_rng(0)
    array = DeviceArray((4000, 1600), torch.uint8)
    plain = torch.from_numpy(rng.integers(0, 256, (4000, 1600)).astype(np.uint8))
    array[...] = plain
    gone = rng.permutation(4000)[:1800]
    array[gone] = torch.zeros((), dtype=torch.uint8)
    plain[gone] = 0
    store = array.store
    assert store is not None
    sweep(store)
    heaps_there = [held.heap for held in store.frames.coder.heaps()]
    live = sum(heap.live_rows * heap.row_nbytes for heap in heaps_there)
    assert sum(heap.nbytes for heap in heaps_there) <= 1.5 * live
    assert torch.equal(array[:], plain)


def test_a_limit_holds_before_it_is_known_how_items_are_stacked() -> None:
    array = DeviceArray((10, 4, 40000), torch.uint8, item_ndim=1, heap_bytes=300_000)
    rng = np.random.default_rng(0)
    failed = 0
    for step in range(60):
        try:
            array[step % 10] = torch.from_numpy(rng.integers(0, 256, (4, 40000)).astype(np.uint8))
        except ca.HeapFullError:
            failed += 1
    assert failed > 20
    assert array.nbytes_stored < 1_500_000
    for row in range(10):
        array[row] = torch.zeros(4, 40000, dtype=torch.uint8)
    assert not array[:].any()


@pytest.mark.parametrize("codec", CODED)
def test_a_full_heap_says_so_and_loses_nothing(codec: str) -> None:
    twins = Twins(codec, 300, Stacked(2, 1, (40, 40), "noise"), heap_bytes=300_000)
    before = [plain.clone() for plain in twins.plains], twins.at

    def fill() -> None:
        nonlocal before
        for _ in range(300):
            before = [plain.clone() for plain in twins.plains], twins.at
            twins.add(1)

    with pytest.raises(ca.HeapFullError, match="heap_bytes"):
        fill()
    # The row that failed was not written, or, of the next observations, not in full; all others are as they were.
    rows = [row for row in range(300) if row != before[1]]
    for array, plain in zip(twins.arrays, before[0], strict=True):
        assert torch.equal(array[rows], plain[rows])
    for array in twins.arrays:
        array[...] = torch.zeros((), dtype=torch.uint8)
        assert not array[:].any()
    array = twins.arrays[0]
    array[0] = torch.ones(2, 40, 40, dtype=torch.uint8)  # there is room again
    assert array[0].all()


@pytest.mark.parametrize("codec", CODED)
def test_a_ring_goes_on_under_a_cap_that_holds_it(codec: str) -> None:
    """The predecessor's heap overwrote payloads when it was compacted in the middle of a write."""
    free = Twins(codec, 16, Stacked(2, 4, (1, 20, 20)))
    free.add(100)
    cap = 4 * sum(held.heap.nbytes for held in stored(free).frames.coder.heaps())
    twins = Twins(codec, 16, Stacked(2, 4, (1, 20, 20)), heap_bytes=cap)
    for _ in range(100):
        twins.add(7)
        twins.check()


def test_max_slot_bytes_is_deprecated_and_caps_all_slots() -> None:
    with pytest.warns(UserWarning, match="heap_bytes"):
        array = DeviceArray((10, 2, 100, 100), item_ndim=2, max_slot_bytes=5000)
    assert array.store is not None
    assert array.store.heap_bytes == 100_000


@pytest.mark.parametrize("codec", CODED)
def test_bytes_are_those_of_all_tensors_there_are(codec: str) -> None:
    """What a device's allocator would count: every tensor that is reachable, by its whole storage."""
    twins = Twins(codec, 100, Stacked(2, 4, (1, 40, 40)))
    twins.add(150)
    store = stored(twins)
    found: dict[int, int] = {}
    seen: set[int] = set()

    def walk(thing: Any) -> None:
        if id(thing) in seen:
            return
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(thing, (list, tuple)):
            for part in thing:
                walk(part)
        elif isinstance(thing, dict):
            for part in thing.values():
                walk(part)
        elif type(thing).__module__.startswith("compressed_array.torch"):
            walk(vars(thing))

    walk(store)
    assert sum(found.values()) == store.nbytes
