"""What is quicker for a step of a buffer than for any other write, beside the way that all of them can take."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from compressed_array.codecs.delta import Delta
from compressed_array.torch import DeviceArray
from compressed_array.torch._coders.delta import BASES, KEY_EVERY, DeltaCoder, stretch_heads
from compressed_array.torch._frames import StoredFrames
from compressed_array.torch._lanes import DeviceLanes
from compressed_array.torch._pending import PendingSteps
from core_helpers.streams import Stacked
from device_helpers.device_streams import Twins, sweep


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("kind", ["calm", "noise"])
def test_steps_that_wait_are_stored_as_others_are(
    lanes: int, depth: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, waited = [], []
    add = PendingSteps.add
    monkeypatch.setattr(PendingSteps, "add", lambda self, *given: waited.append(1) or add(self, *given))
    for is_quick in (True, False):
        if not is_quick:
            monkeypatch.setattr(StoredFrames, "hold_back", lambda *_: None)
        twins = Twins("delta", 40, Stacked(lanes, depth, (1, 20, 20), kind, episode=37))
        twins.add(150)
        twins.check()
        store = twins.arrays[0].store
        sweep(store)
        stored.append((store.frames.table.taken, store.frames.live_nbytes))
        assert bool(waited) == is_quick
        waited.clear()
    (frames, live), (others, live_of_others) = stored
    assert frames == others, "every frame is there once, however it came"
    assert abs(live - live_of_others) <= live // 4 + 8 * 400  # other keys, so not the same changes


@pytest.mark.parametrize("order", ["in turn", "by lane", "shuffled", "another order of lanes"])
def test_frames_of_any_order_are_compared_with_their_own_bases(order: str) -> None:
    lanes, steps, rng = 3, 5, np.random.default_rng(0)
    coder = DeltaCoder(64, torch.device("cpu"), None)
    coder._grow(lanes)
    lane = np.tile(np.arange(lanes), steps)
    if order == "by lane":
        lane = np.sort(lane)
    elif order == "shuffled":
        lane = rng.permutation(lane)
    elif order == "another order of lanes":
        lane = np.tile([2, 0, 1], steps)
    turn = np.array([np.count_nonzero(lane[:i] == lane[i]) for i in range(len(lane))])
    head = stretch_heads(lane, turn)
    assert [lane.tolist().index(of) for of in lane] == head.tolist()
    coder._keys, coder._lane_rows, elements = (
        torch.from_numpy(rng.integers(0, 3, (n, coder.width))) for n in (lanes, lanes, len(lane))
    )
    differ = coder._differ(elements, lane, head, slice(0, len(lane)))
    assert differ.shape == (BASES, *elements.shape)
    for i, of in enumerate(lane):
        bases = coder._keys[of], elements[head[i]], coder._lane_rows[of], torch.zeros_like(elements[0])
        for base, found in zip(bases, differ[:, i], strict=True):
            assert torch.equal(found, elements[i] != base)


def test_stretches_begin_anew_after_so_many_frames() -> None:
    lane = np.array([0, 1] * (2 * KEY_EVERY))
    turn = np.arange(len(lane)) // 2
    expected = np.where(turn < KEY_EVERY, lane, 2 * KEY_EVERY + lane)
    np.testing.assert_array_equal(stretch_heads(lane, turn), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32, np.float64, np.complex64, bool])
def test_arrays_are_written_as_tensors_are(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    as_array, as_tensor = (DeviceArray((8, 2, 10, 10), dtype, item_ndim=2) for _ in range(2))
    for at in range(20):
        items = rng.integers(0, 2, (2, 10, 10)).astype(dtype)
        items = [items, items.transpose(0, 2, 1), items[:, ::-1], items[:, :, ::-1]][at % 4]
        as_array[at % 8] = items
        as_tensor[at % 8] = torch.from_numpy(np.ascontiguousarray(items))
        assert torch.equal(as_array[at % 8], torch.from_numpy(np.ascontiguousarray(items)))
    assert torch.equal(as_array[:], as_tensor[:])
    as_array[0] = np.ones((2, 10, 10), np.uint16 if dtype is np.uint8 else np.uint8)  # another dtype, so it is cast
    assert torch.equal(as_array[0], torch.ones((2, 10, 10), dtype=as_array.dtype))


def test_after_a_journey_lanes_begin_with_a_whole_item() -> None:
    """What lanes remember does not come along, as on the host: nobody could check it."""
    twins = Twins("delta", 60, Stacked(2, 4, (1, 20, 20), episode=100))
    twins.add(30)
    twins.arrays = pickle.loads(pickle.dumps(twins.arrays))
    store = twins.arrays[0].store
    assert store.frames.device_lanes.items is None, "they are compared on the host again"
    taken = store.frames.table.taken
    twins.add(10)
    twins.check()
    assert store.frames.table.taken - taken == 2 * (4 + 10), "four frames of each lane, and then one a step"


@pytest.mark.parametrize("codec", ["auto", "delta", "rle"])
@pytest.mark.parametrize("what", ["at rest", "after a failure", "never written"])
def test_stores_that_know_no_lanes_are_loaded_again(codec: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Delta(frame_width=1) if codec == "delta" else codec
    twins = Twins(given, 30, Stacked(2, 4, (1, 20, 20)))
    store = twins.arrays[0].store
    if what != "never written":
        twins.add(70)
    if what == "at rest":
        store.compact()
    elif what == "after a failure":
        with monkeypatch.context() as patch:
            patch.setattr(DeviceLanes, "locate_new_frames", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                twins.arrays[0][:1] = torch.full((1, 2, 4, 20, 20), 9, dtype=torch.uint8)
    twins.arrays = pickle.loads(pickle.dumps(twins.arrays))
    twins.check()
    twins.add(40)
    twins.check()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_numbers_go_into_dtypes_that_numpy_lacks(dtype: Any) -> None:
    array = DeviceArray((5, 2, 64), torch.bfloat16, item_ndim=1)
    for turn in range(100):
        array[turn % 5] = np.full((2, 64), turn % 7, dtype)
        assert torch.equal(array[turn % 5], torch.full((2, 64), turn % 7, dtype=torch.bfloat16))
