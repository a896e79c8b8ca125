"""What buffers of others get wrong when they keep frames once, each told as a test that ours does not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.arrays import assert_same
from core_helpers.streams import FRAME_CODECS, Stacked, Step, check_store, frames_stored, pair

RING, LANES = 40, 3


@pytest.fixture(params=FRAME_CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    """Each codec that keeps frames once."""
    return str(request.param)


def filled(codec: str, steps: list[Step]) -> tuple[tuple[Any, Any], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """A ring of observations and next observations, and the plain one that has no dedup at all."""
    items = steps[0].obs
    arrays = pair((RING, *items.shape), codec, items.ndim - 1)
    plains = np.zeros(arrays[0].shape, np.uint8), np.zeros(arrays[0].shape, np.uint8)
    for t, step in enumerate(steps):
        for which in range(2):
            arrays[which][t % RING] = step[which]
            plains[which][t % RING] = step[which]
    return arrays, plains


def test_terminal_observations_are_not_overwritten_by_the_next_episode(codec: str) -> None:
    """SB3's and CleanRL's optimize_memory_usage: the next add puts the first observation of the new episode there."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=5).steps(RING))
    (obs, next_obs), _ = filled(codec, steps)
    ends = [(t, lane) for t, step in enumerate(steps) for lane in np.flatnonzero(step.done)]
    assert len(ends) > 15
    for t, lane in ends:
        assert_same(next_obs[t, lane], steps[t].next_obs[lane])
        if t + 1 < RING:
            assert not np.array_equal(next_obs[t, lane], obs[t + 1, lane])


def test_next_obs_at_an_end_is_not_obs_itself(codec: str) -> None:
    """tianshou's ignore_obs_next: where an episode ends, the next observation is the last one again."""
    steps = list(Stacked(LANES, 1, (20, 20), episode=4).steps(RING))
    (obs, next_obs), plains = filled(codec, steps)
    for t, step in enumerate(steps):
        for lane in np.flatnonzero(step.done):
            assert not np.array_equal(obs[t, lane], next_obs[t, lane])
    assert_same(next_obs, plains[1])


def test_the_newest_step_has_its_own_next_obs_while_the_ring_goes_round(codec: str) -> None:
    """`obs[pos + 1]` of a full ring is the oldest step's; cpprb keeps its newest edge in a cache of its own."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=7).steps(3 * RING))
    items = steps[0].obs
    obs, next_obs = pair((RING, *items.shape), codec, 4 - 1)
    for t, step in enumerate(steps):
        obs[t % RING], next_obs[t % RING] = step.obs, step.next_obs
        assert_same(next_obs.read(t % RING), step.next_obs)
        assert_same(obs.read(t % RING), step.obs)
        if t >= RING - 1:  # and the oldest that is left is whole
            oldest = (t + 1) % RING
            assert_same(obs.read(oldest), steps[t + 1 - RING].obs)
            assert_same(next_obs.read(oldest), steps[t + 1 - RING].next_obs)


def test_a_stack_is_checked_and_not_believed(codec: str) -> None:
    """cpprb's stack_compress writes overlapping memory unverified: items that do not overlap change others."""
    rng = np.random.default_rng(0)
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=50).steps(RING))
    for t in range(3, RING, 4):  # what a wrapper with a bug, or a frame that was dropped, makes of a stack
        steps[t].obs[:, rng.integers(0, 4)] = rng.integers(0, 256, (20, 20))
        steps[t].next_obs[:, [0, 1]] = steps[t].next_obs[:, [1, 0]]
    arrays, plains = filled(codec, steps)
    for array, plain in zip(arrays, plains, strict=True):
        assert_same(array, plain)
    check_store(*arrays)


def test_a_stack_at_the_start_of_an_episode_has_no_frames_of_the_last(codec: str) -> None:
    """Buffers that keep single frames and stack them when sampling reach back over the reset."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=3).steps(RING))
    (obs, _), plains = filled(codec, steps)
    starts = [(t + 1, lane) for t, step in enumerate(steps[:-1]) for lane in np.flatnonzero(step.done)]
    for t, lane in starts:
        assert not obs[t, lane][:3].any()
    assert_same(obs, plains[0])


def test_several_environments_that_end_at_different_times(codec: str) -> None:
    """cpprb's dedup knows one stream; here each lane is its own, whenever it ends."""
    stream = Stacked(8, 4, (1, 20, 20), episode=9)
    steps = list(stream.steps(RING))
    assert len({int(step.done.sum()) for step in steps}) > 1
    arrays, plains = filled(codec, steps)
    for array, plain in zip(arrays, plains, strict=True):
        assert_same(array, plain)
    frames = RING * 8 + sum(4 * int(step.done.sum()) for step in steps) + 4 * 8
    # What was written before it was found how items are stacked was stored as it came.
    assert frames_stored(arrays[0].store) <= 1.3 * frames


def test_any_sample_of_any_cells_is_right(codec: str) -> None:
    """No cell may not be sampled: DiffCompressDRL, TorchRL's compact_obs and Dopamine have such, or NaN in them."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=6).steps(2 * RING + 7))
    arrays, plains = filled(codec, steps)
    rng = np.random.default_rng(0)
    for size in (1, 32, 256):
        key = rng.integers(0, RING, size), rng.integers(0, LANES, size)
        for got, plain in zip(ca.read_pair(*arrays, key), plains, strict=True):
            assert_same(got, plain[key])


def test_n_steps_ahead_is_as_exact_as_one(codec: str) -> None:
    """SB3 and cpprb refuse their dedup together with n-step returns: the next obs is then that of another row."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=6).steps(RING))
    arrays, plains = filled(codec, steps)
    ahead = (np.arange(RING) + 2) % RING
    assert_same(arrays[1][ahead], plains[1][ahead])


def test_goals_are_relabelled_without_touching_others(codec: str) -> None:
    """Hindsight replay rewrites cells that share frames with their neighbours."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), episode=6).steps(RING))
    arrays, plains = filled(codec, steps)
    for t in range(0, RING, 5):
        for which in range(2):
            arrays[which][t, 1, -1] = 200 + which
            plains[which][t, 1, -1] = 200 + which
    for array, plain in zip(arrays, plains, strict=True):
        assert_same(array, plain)


def test_an_overwritten_cell_is_not_read_from_a_cache(codec: str) -> None:
    """sb3-extra-buffers' reconstruct_obs keeps the old frame after the ring went round."""
    steps = list(Stacked(LANES, 1, (20, 20)).steps(2 * RING))
    (obs, _), _ = filled(codec, steps[:RING])
    before = obs.read(0)
    obs[0] = steps[RING].obs
    assert_same(obs.read(0), steps[RING].obs)
    assert not np.array_equal(before, obs.read(0))


def test_frames_of_every_brightness_and_size_come_back(codec: str) -> None:
    """sb3-extra-buffers: runs longer than their counter made 65,536 wrong pixels of a frame of one value."""
    array = ca.zeros((40, 300, 300), np.uint8, codec=codec)
    plain = np.zeros(array.shape, np.uint8)
    for t in range(40):
        plain[t] = 6 * t
        array[t] = plain[t]
    assert_same(array, plain)


def test_a_buffer_that_was_pickled_has_no_garbage_of_the_other(codec: str) -> None:
    """Saved together they keep what they share once; each alone holds no more than its own."""
    steps = list(Stacked(LANES, 4, (1, 20, 20), "noise").steps(RING))
    arrays, plains = filled(codec, steps)
    together, alone = len(pickle.dumps(arrays)), len(pickle.dumps(arrays[0]))
    assert together < 1.2 * alone
    for got, plain in zip(pickle.loads(pickle.dumps(arrays)), plains, strict=True):
        assert_same(got, plain)
