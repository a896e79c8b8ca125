"""What fails in the middle changes nothing: not what was there, and not what comes after."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._stores.frames import engine_native, engine_numpy
from compressed_array._stores.frames.groups import MOST_GROUPS, Groups
from compressed_array._stores.frames.lanes import Lanes
from compressed_array._stores.frames.upkeep import Upkeep
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same


class Stack:
    """Four frames of noise, of which each item shows the last four."""

    def __init__(self, side: int) -> None:
        self._rng, self._side = np.random.default_rng(0), side
        self.frames = [self._new() for _ in range(4)]

    def _new(self) -> Any:
        return self._rng.integers(0, 256, (self._side, self._side)).astype(np.uint8)

    def push(self, count: int = 1) -> Any:
        self.frames = [*self.frames[count:], *(self._new() for _ in range(count))]
        return np.stack(self.frames)


def test_an_interrupt_between_a_new_segment_and_its_first_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    array = ca.zeros((400, 4, 40, 40), np.uint8, item_ndim=3, codec=Delta(8, stack_axis=0))
    plain, stack, interrupted = np.zeros(array.shape, np.uint8), Stack(40), []
    make_room = Upkeep.make_room

    def interrupt(upkeep: Upkeep, lane: int, engine: Any) -> None:
        lanes = upkeep._frames.lanes.table
        segment, count = int(lanes["segment"][lane]), int(lanes["count"][lane])
        make_room(upkeep, lane, engine)
        if 0 < count < 8 and lanes["segment"][lane] != segment and not interrupted:
            interrupted.append(lane)
            raise KeyboardInterrupt

    monkeypatch.setattr(Upkeep, "make_room", interrupt)
    for i in range(400):
        before = stack.frames
        item = stack.push(4 if i % 7 == 6 else 1)
        try:
            array[i] = item
        except KeyboardInterrupt:
            stack.frames = before
            item = stack.push()
            array[i] = item
        plain[i] = item
    assert interrupted
    assert_same(array, plain)


def test_no_memory_for_the_second_frame_of_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_native, "is_usable", lambda frames: False)
    array = ca.zeros((40, 4, 20, 20), np.uint8, item_ndim=3, codec=Delta(16, stack_axis=0))
    plain, stack, calls = np.zeros(array.shape, np.uint8), Stack(20), []
    encode = engine_numpy.encode_frame

    def fail(*arguments: Any) -> bytes:
        calls.append(1)
        if len(calls) == 6:
            raise MemoryError
        return encode(*arguments)

    monkeypatch.setattr(engine_numpy, "encode_frame", fail)
    plain[0] = array[0] = stack.push()
    before = stack.frames
    with pytest.raises(MemoryError):
        array[1] = stack.push(2)
    stack.frames = before
    for i in range(1, 8):
        plain[i] = item = stack.push()
        array[i] = item
    assert_same(array, plain)


def test_lanes_that_could_not_be_made_anew_are_the_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes((4,), 1, 4)
    lanes.grow(2)
    table, items = lanes.table, lanes.items
    monkeypatch.setattr(np, "arange", lambda *a: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        lanes.grow(300)
    assert lanes.table is table
    assert lanes.items is items


class Touch:
    """Asks an array something while others are not unpickled yet."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.nbytes = self.array.nbytes_stored
        self.array[0] = 0


def test_arrays_pickled_together_all_find_their_items(rng: np.random.Generator) -> None:
    one, two = rng.integers(0, 256, (2, 100, 40, 40)).astype(np.uint8)
    a = ca.zeros(one.shape, np.uint8, item_ndim=2, codec="delta")
    b = ca.zeros(one.shape, np.uint8, item_ndim=2, store=a.store)
    a[...], b[...] = one, two
    first, _, second = pickle.loads(pickle.dumps((a, Touch(a), b)))
    assert first.store is second.store
    assert_same(second, two)
    first[:50] = two[:50]
    assert_same(second, two)
    assert_same(first[50:], one[50:])


def test_a_small_copy_takes_only_its_own_groups_along(rng: np.random.Generator) -> None:
    array = ca.compress(rng.integers(0, 256, (400, 40, 40)).astype(np.uint8), item_ndim=2, codec="delta")
    data = pickle.dumps(array[:3].copy())
    assert len(data) < 30_000
    assert_same(pickle.loads(data), array[:3].read())


def test_references_of_an_earlier_layout_are_no_reason_to_refuse_a_file(tmp_path: Path) -> None:
    """A stack that is found and lost again leaves references of two sizes behind."""
    rng = np.random.default_rng(1)
    array = ca.zeros((3000, 4, 24, 24), np.uint8, item_ndim=3, codec="delta")
    stack, background = Stack(24), rng.integers(0, 256, (4, 24, 24)).astype(np.uint8)
    for i in range(3000):
        if i < 600:
            item = stack.push() if i % 2 else np.stack(stack.frames)
        else:
            item = background.copy()
            item[:, i % 24, :] = i % 251
        array[i] = item
    ca.save(tmp_path / "a.ca", array)
    assert_same(ca.load(tmp_path / "a.ca"), array.read())


def test_a_store_has_no_more_groups_than_numbers_can_say() -> None:
    groups = Groups()
    groups.table = np.broadcast_to(np.zeros((), groups.table.dtype), (MOST_GROUPS,))
    with pytest.raises(MemoryError, match="several stores"):
        groups.grow()


def test_bad_arguments_are_named() -> None:
    array = ca.zeros((40, 4, 8), np.uint8, item_ndim=2, codec="delta")
    with pytest.raises(TypeError, match=r"array\.store"):
        ca.zeros((40, 4, 8), np.uint8, item_ndim=2, store=array)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="either a codec or a store"):
        ca.zeros((40, 4, 8), np.uint8, item_ndim=2, codec="rle", store=array.store)
    with pytest.raises(ValueError, match="not one for items"):
        ca.zeros((40, 4, 9), np.uint8, item_ndim=2, store=array.store)
    with pytest.raises(TypeError):
        Delta(frame_width="x")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="two writable"):
        ca.read_pair(array, array, slice(2), out=(array, array))
