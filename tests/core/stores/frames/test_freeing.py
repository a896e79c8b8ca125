"""Frames that nobody needs any more are freed: rings do not grow, arrays that are gone leave nothing behind."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import _heap
from core_helpers.arrays import assert_same
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, check_store, frames_stored, groups_in_use, pair

pytestmark = pytest.mark.long


@pytest.mark.parametrize("codec", FRAME_CODECS)
@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("kind", ["calm", "noise"])
def test_a_ring_that_goes_round_many_times_does_not_grow(codec: str, depth: int, kind: str) -> None:
    stream = Stacked(2, depth, (1, 20, 20) if depth > 1 else (20, 20), kind)
    items = stream.items()
    obs, next_obs = pair((100, *items.shape), codec, items.ndim - 1)
    groups, stored, frames = [], [], []
    for t, step in enumerate(stream.steps(1500)):
        obs[t % 100], next_obs[t % 100] = step.obs, step.next_obs
        if t >= 600 and t % 100 == 50:
            groups.append(groups_in_use(obs.store))
            stored.append(obs.store.nbytes)
            frames.append(frames_stored(obs.store))
    # Fewer is no growth: groups get longer where little changes.
    assert max(groups) <= 1.3 * groups[0] + 4
    assert max(stored) <= 1.3 * stored[0] + 2 * _heap.SMALLEST_SEGMENT
    # 100 steps of two lanes, a few frames more for each episode, and groups that are needed in part.
    assert max(frames) <= 2 * (100 + 100 // 11 * depth + 3 * 64)
    check_store(obs, next_obs)


@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_arrays_that_are_gone_leave_what_lanes_hold(codec: str) -> None:
    stream = Stacked(2, 1, (20, 20), "noise")
    obs, next_obs = pair((200, 2, 20, 20), codec, 2)
    for t, step in enumerate(stream.steps(200)):
        obs[t], next_obs[t] = step.obs, step.next_obs
    full = frames_stored(obs.store)
    plain = next_obs.read()
    del obs
    gc.collect()
    assert_same(next_obs, plain)
    assert frames_stored(next_obs.store) >= full - 2 * 64
    kept = next_obs[:1].copy()
    del next_obs
    gc.collect()
    assert groups_in_use(kept.store) <= 1 * 2 + 2 * 2  # what two cells need, and two groups a lane
    assert_same(kept, plain[:1])
    check_store(kept)


@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_a_store_at_rest_holds_its_items_and_nothing_else(codec: str) -> None:
    stream = Stacked(4, 4, (1, 40, 40), "calm", episode=60)
    array = ca.zeros((100, *stream.items().shape), np.uint8, item_ndim=3, codec=codec)
    stored = []
    for _ in range(30):  # as rollouts do
        plain = np.stack([step.obs for step in stream.steps(100)])
        for row, items in enumerate(plain):
            array[row] = items
        awake = array.store.nbytes
        array.store.compact()
        stored.append(array.store.nbytes)
        assert stored[-1] <= awake - 4 * plain[0, 0].nbytes  # the last item of each lane
        assert_same(array, plain)
        check_store(array)
        array = ca.CompressedArray(array.shape, np.uint8, item_ndim=3, store=array.store)
    # What was learnt to pack with (a dictionary) comes once.
    assert max(stored[15:]) <= 1.3 * max(stored[:15])
    assert groups_in_use(array.store) == 0


def test_zeros_over_everything_free_everything_but_what_lanes_hold() -> None:
    stream = Stacked(3, 4, (1, 20, 20))
    obs, next_obs = pair((80, 3, 4, 20, 20), "delta", 3)
    for t, step in enumerate(stream.steps(200)):
        obs[t % 80], next_obs[t % 80] = step.obs, step.next_obs
    obs[...] = 0
    check_store(obs, next_obs)
    next_obs[...] = 0
    assert groups_in_use(obs.store) <= 2 * 3
    check_store(obs, next_obs)


@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_random_overwrites_stay_bounded(codec: str, rng: np.random.Generator) -> None:
    """A group dies as a whole: where frames die in any order, groups get shorter instead of piling up."""
    screens = Screens(1, (24, 24), "busy")
    frames = np.stack([screens.next() for _ in range(80)])
    array = ca.zeros((400, 24, 24), np.uint8, codec=codec)
    plain = np.zeros(array.shape, np.uint8)
    for step in range(1500):
        rows = rng.integers(0, 400, 6)
        items = frames[rng.integers(0, 80, 6)]
        array[rows], plain[rows] = items, items
        if step % 250 == 249:
            assert_same(array, plain)
    assert frames_stored(array.store) <= 6 * 400
    check_store(array)


def test_groups_that_die_before_they_are_seen_to_are_not_packed_for_another() -> None:
    """A group that is full waits to be packed; if it dies meanwhile, its number may already be another group's."""
    pytest.importorskip("zstandard")
    frames = np.repeat(np.random.default_rng(0).integers(0, 9, (400, 20, 5), np.uint8), 4, 2)
    for level in (1, 2, 4, 8):
        for groups in (18, 25, 31, 36, 37, 38, 39):
            count = groups * level
            array = ca.zeros((400, 20, 20), np.uint8, codec=f"delta-zstd/{level}")
            for _ in range(2):
                for k in range(count):
                    array[k] = frames[k]
                check_store(array)
                assert_same(array[:count], frames[:count])
                array[...] = 0


def test_what_nobody_claims_of_a_pickled_store_is_freed_once() -> None:
    plain = np.stack([Screens(t, (20, 20)).next() for t in range(120)])
    both = pair((120, 20, 20), "delta", 2)
    both[0][...], both[1][...] = plain, plain[::-1]
    alone: Any = pickle.loads(pickle.dumps(both[0]))
    assert frames_stored(alone.store) <= 120 + 16
    check_store(alone)
    # The first that happens to it may be a release, of what was claimed: zeros are not written anywhere.
    for first in (slice(None), slice(0, 3), slice(10, 60)):
        back = pickle.loads(pickle.dumps(both[0]))
        back[first] = 0
        expected = plain.copy()
        expected[first] = 0
        assert_same(back, expected)
        check_store(back)
        back[:50] = plain[50:100]
        expected[:50] = plain[50:100]
        assert_same(back, expected)
        check_store(back)


def test_readers_keep_dead_groups_until_they_leave() -> None:
    stream = Stacked(1, 1, (20, 20), "noise")
    array = ca.zeros((50, 1, 20, 20), np.uint8, item_ndim=2, codec="delta")
    plain = np.zeros(array.shape, np.uint8)
    for t in range(50):
        plain[t] = stream.step().obs
        array[t] = plain[t]
    numbers = array.cells.numbers.reshape(-1).copy()
    out = np.zeros((50, 400), np.uint8)
    with array.store.epochs.reading():
        for t in range(300):
            array[t % 50] = stream.step().obs
        array.store.read(numbers, out)
        assert_same(out.reshape(plain.shape), plain)
    check_store(array)


@pytest.mark.parametrize("segment", [4096, 64 * 1024])
def test_sparse_segments_are_moved_together(segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell in ten stays for ever, among others that come and go."""
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", segment)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", 4 * segment)
    stream = Stacked(2, 1, (20, 20), "noise")
    array = ca.zeros((300, 2, 20, 20), np.uint8, item_ndim=2, codec="delta/2")
    plain = np.zeros(array.shape, np.uint8)
    for t in range(3000):
        at = t % 300
        if t < 300 or at % 10:
            items = stream.step().obs
            array[at], plain[at] = items, items
    assert_same(array, plain)
    assert array.store.nbytes <= 3 * plain.nbytes
    check_store(array)
