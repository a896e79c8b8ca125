"""A frame that is there already is not stored again, and what is the same is a matter of bytes, not of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array.codecs.delta import Delta
from core_helpers.arrays import assert_same, random_bits
from core_helpers.streams import Stacked, check_store, frames_stored, pair

STACK = Delta(stack_axis=0, frame_width=1)


def frames(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (count, 20, 20)).astype(np.uint8)


def test_next_obs_that_comes_back_as_obs_costs_nothing() -> None:
    obs, next_obs = pair((50, 2, 20, 20), "delta", 2)
    items = frames(102).reshape(51, 2, 20, 20)
    for t in range(50):
        obs[t] = items[t]
        before = frames_stored(obs.store)
        next_obs[t] = items[t + 1]
        assert frames_stored(obs.store) == before + 2
        if t < 49:
            obs[t + 1] = items[t + 1]
            assert frames_stored(obs.store) == before + 2
    assert_same(obs, items[:-1])
    assert_same(next_obs, items[1:])
    assert obs.cells.numbers[1:].tolist() == next_obs.cells.numbers[:-1].tolist()
    check_store(obs, next_obs)


def test_an_item_that_stays_the_same_costs_nothing() -> None:
    array = ca.zeros((40, 20, 20), np.uint8, codec="delta")
    array[0] = frames(1)[0]
    for t in range(1, 40):
        array[t] = frames(1)[0]
    assert frames_stored(array.store) == 1
    assert len(np.unique(array.cells.numbers)) == 1


@pytest.mark.parametrize("new", [0, 1, 2, 3, 4])
def test_a_stack_costs_the_frames_that_are_new(new: int) -> None:
    screens = frames(8)
    array = ca.zeros((40, 4, 20, 20), np.uint8, codec=STACK)
    array[0] = screens[:4]
    assert frames_stored(array.store) == 4
    array[1] = screens[new : new + 4]
    assert frames_stored(array.store) == 4 + new
    assert_same(array[:2], np.stack([screens[:4], screens[new : new + 4]]))
    check_store(array)


def test_a_reset_of_a_stack_of_four_costs_four() -> None:
    screens, zero = frames(30), np.zeros((20, 20), np.uint8)
    array = ca.zeros((40, 4, 20, 20), np.uint8, codec=STACK)
    for t in range(10):
        array[t] = screens[t : t + 4]
    assert frames_stored(array.store) == 13
    array[10] = np.stack([zero, zero, zero, screens[20]])
    assert frames_stored(array.store) == 17
    array[11] = np.stack([zero, zero, screens[20], screens[21]])
    assert frames_stored(array.store) == 18


def test_every_frame_of_an_episode_is_stored_once() -> None:
    """With next_obs, true terminal observations and blank frames after a reset: exactly the frames there are."""
    stream = Stacked(1, 4, (1, 20, 20), episode=10)
    obs, next_obs = pair((100, 1, 4, 20, 20), STACK, 3)
    for t, step in enumerate(stream.steps(100)):
        obs[t], next_obs[t] = step.obs, step.next_obs
    episodes = 10
    assert frames_stored(obs.store) == episodes * (4 + 10)
    check_store(obs, next_obs)


def test_lanes_do_not_disturb_each_other() -> None:
    """Each stream is compared with itself, whatever is written between two of its steps."""
    screens = frames(300).reshape(3, 100, 20, 20)
    array = ca.zeros((90, 3, 4, 20, 20), np.uint8, item_ndim=3, codec=STACK)
    order = np.random.default_rng(0).permuted(np.repeat(np.arange(3), 90))
    at = [0, 0, 0]
    for lane in order.tolist():
        t = at[lane]
        array[t, lane] = screens[lane, t : t + 4]
        at[lane] += 1
    assert frames_stored(array.store) == 3 * (89 + 4)
    for lane in range(3):
        assert_same(array[:, lane], np.stack([screens[lane, t : t + 4] for t in range(90)]))


@pytest.mark.parametrize("shape", [(10, 10), (3,)])
def test_equal_values_of_other_bytes_are_other_frames(shape: tuple[int, ...]) -> None:
    zero = np.zeros(shape, np.float32)
    minus = -zero
    quiet, payload = zero.copy(), zero.copy()
    quiet.view(np.uint32)[...] = 0x7FC00000
    payload.view(np.uint32)[...] = 0x7FC00001
    items = np.stack([zero, minus, zero, quiet, payload, quiet, minus])
    array = ca.zeros((64, *shape), np.float32, codec="delta")
    for t, item in enumerate(items):
        array[t] = item
    assert frames_stored(array.store) == 7
    for t in (2, 1, 3, 4):
        array[10] = items[t]
        array[11] = items[t]
        assert_same(array[10:12], np.stack([items[t]] * 2))
    assert_same(array[:7], items)


def test_minus_zero_in_a_stack_is_no_shift() -> None:
    screens = np.zeros((6, 10, 10), np.float32)
    screens[:, 0, 0] = np.arange(6)
    array = ca.zeros((40, 4, 10, 10), np.float32, codec=STACK)
    array[0] = screens[:4]
    changed = screens[1:5].copy()
    changed[1, 5, 5] = -0.0
    array[1] = changed
    assert frames_stored(array.store) == 8  # equal for ==, and not the same
    assert_same(array[1], changed)


@pytest.mark.parametrize("dtype", ["?", "<u2", ">f8", "<c8", "<M8[s]", "<U2", "S3", "V5"])
def test_dedup_of_other_dtypes(dtype: str, rng: np.random.Generator) -> None:
    items = random_bits((60, 30), np.dtype(dtype), rng)
    obs, next_obs = pair((59, 30), "delta", 1, dtype)
    for t in range(59):
        obs[t], next_obs[t] = items[t], items[t + 1]
    assert frames_stored(obs.store) <= 60
    assert_same(obs, items[:-1])
    assert_same(next_obs, items[1:])


def test_small_vectors_cost_half_with_next_obs() -> None:
    vectors = np.random.default_rng(0).normal(size=(6_001, 17)).astype(np.float32)
    obs, next_obs = pair((6_000, 17), "auto", 1, np.float32)
    for t in range(0, 6_000, 4):
        for k in range(t, t + 4):
            obs[k], next_obs[k] = vectors[k], vectors[k + 1]
    assert frames_stored(obs.store) == 6_001
    stored = obs.store.nbytes + obs.cells.numbers.nbytes + next_obs.cells.numbers.nbytes
    assert stored < 0.6 * (obs.nbytes + next_obs.nbytes)
    assert_same(next_obs[::777], vectors[1::777][: len(vectors[1::777])])
