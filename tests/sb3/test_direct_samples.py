"""Samples that are read at once: where they are, where not, and that they are SB3's own."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

import compressed_array_sb3 as cab
from sb3_helpers.experience import SPACES, assert_same, play, seeded

IMAGES, ACTIONS = SPACES["stacked"], spaces.Box(-1, 1, (2,), np.float32)


def filled(cls: Any, n_envs: int = 4, **options: Any) -> Any:
    buffer = cls(50 * n_envs, IMAGES, ACTIONS, n_envs=n_envs, **options)
    for step in play(IMAGES, ACTIONS, n_envs, 70):
        buffer.add(*step)
    return buffer


def assert_same_as_stock(ours: Any, stock: Any) -> None:
    for seed in range(5):
        assert_same(seeded(seed, ours.sample, 33), seeded(seed, stock.sample, 33))


@pytest.mark.parametrize("n_envs", [1, 4])
def test_random_numbers_are_drawn_as_sb3_draws_them(n_envs: int) -> None:
    ours, stock = filled(cab.CompressedReplayBuffer, n_envs), filled(ReplayBuffer, n_envs)
    after = [seeded(3, lambda b=buffer: (b.sample(9), np.random.random())[1]) for buffer in (ours, stock)]  # noqa: NPY002 - SB3's
    assert ours._direct is not None
    assert after[0] == after[1]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_read_arrays_of_their_own(copied: Any) -> None:
    ours, stock = filled(cab.CompressedReplayBuffer), filled(ReplayBuffer)
    ours.sample(3)
    other = copied(ours)
    assert other._direct is None or copied is copy.copy
    ours.rewards = ours.rewards + 1
    ours.reset()
    del ours
    assert_same_as_stock(other, stock)


@pytest.mark.parametrize("field", ["actions", "rewards", "dones", "timeouts"])
def test_a_field_that_is_replaced_or_changed(field: str) -> None:
    ours, stock = filled(cab.CompressedReplayBuffer), filled(ReplayBuffer)
    for change in (lambda part: part + 1, lambda part: np.asfortranarray(part), lambda part: part.astype(np.float64)):
        ours.sample(3)
        for buffer in (ours, stock):
            setattr(buffer, field, change(getattr(buffer, field)))
        assert_same_as_stock(ours, stock)
    getattr(ours, field)[...] = 0
    getattr(stock, field)[...] = 0
    assert_same_as_stock(ours, stock)


@pytest.mark.parametrize("name", ["to_torch", "_normalize_obs", "_normalize_reward", "_get_samples"])
def test_methods_of_a_subclass_are_asked(name: str) -> None:
    asked = []

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return getattr(super(Own, self), name)(*args, **kwargs)

    class Own(cab.CompressedReplayBuffer):
        pass

    setattr(Own, name, method)
    own, stock = filled(Own), filled(ReplayBuffer)
    assert_same_as_stock(own, stock)
    assert asked
    assert own._direct is None or name == "_get_samples"


def test_what_is_not_read_at_once() -> None:
    for cls in (cab.CompressedNStepReplayBuffer, cab.GpuReplayBuffer):
        buffer = filled(cls)
        buffer.sample(3)
        assert buffer._direct is None
    plain = filled(cab.CompressedReplayBuffer, codec="none")
    plain.sample(3)
    assert plain._direct is None


def test_tensors_are_the_callers_to_change() -> None:
    ours, stock = filled(cab.CompressedReplayBuffer), filled(ReplayBuffer)
    samples = ours.sample(33)
    for part in samples[:5]:
        part.zero_() if part.dtype != torch.bool else part.logical_not_()
    del samples
    assert_same_as_stock(ours, stock)


@pytest.mark.parametrize("cls", [cab.CompressedReplayBuffer, cab.CompressedPrioritizedReplayBuffer])
def test_a_reset_frees_what_was_sampled(cls: Any) -> None:
    fresh, sampled = filled(cls), filled(cls)
    sampled.sample(3)
    assert sampled._direct is not None
    for buffer in (fresh, sampled):
        buffer.reset()
    assert sampled.observations.store.nbytes == fresh.observations.store.nbytes


@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize(
    "rows",
    [
        np.array([40, 45], np.uint8),
        np.array([40, 45], np.uint64),
        np.array([3, -1, -50]),
        [3],
        [3, 4],
        np.array([7]),
        np.array([], np.int64),
    ],
    ids=str,
)
def test_rows_of_any_kind(rows: Any, n_envs: int) -> None:
    ours, stock = filled(cab.CompressedReplayBuffer, n_envs), filled(ReplayBuffer, n_envs)
    for seed in range(3):
        assert_same(seeded(seed, ours._get_samples, rows), seeded(seed, stock._get_samples, rows))
    assert seeded(5, after_a_sample, ours, rows) == seeded(5, after_a_sample, stock, rows)


def after_a_sample(buffer: Any, rows: Any) -> float:
    buffer._get_samples(rows)
    return float(np.random.random())  # noqa: NPY002 - what SB3 draws from


@pytest.mark.parametrize("wrong", [[50], [-51], [0, 2**40]])
def test_rows_that_are_not_there(wrong: list[int]) -> None:
    ours = filled(cab.CompressedReplayBuffer)
    with pytest.raises(IndexError):
        ours._get_samples(np.array(wrong))


def test_a_buffer_that_is_given_another_device_or_method() -> None:
    ours = filled(cab.CompressedReplayBuffer)
    ours.sample(3)
    ours.device = torch.device("meta")
    assert ours.sample(3).rewards.device.type == "meta"
    own = filled(cab.CompressedReplayBuffer)
    own.to_torch = lambda array, copy=True: torch.tensor(array, dtype=torch.float64)
    assert own.sample(3).rewards.dtype == torch.float64


@pytest.mark.parametrize("codec", ["zstd-3", "gzip1", "delta", "auto"])
def test_a_pickle_of_any_codec_is_sampled(codec: str) -> None:
    ours, stock = filled(cab.CompressedReplayBuffer, codec=codec), filled(ReplayBuffer)
    ours.sample(3)
    assert_same_as_stock(pickle.loads(pickle.dumps(ours)), stock)


@pytest.mark.parametrize("cls", [cab.CompressedReplayBuffer, cab.CompressedPrioritizedReplayBuffer])
def test_a_method_that_a_buffer_is_given_between_samples(cls: Any) -> None:
    buffer = filled(cls)
    assert buffer.sample(3).rewards.dtype == torch.float32
    assert buffer._direct is not None
    buffer.to_torch = lambda array, copy=True: torch.tensor(array, dtype=torch.float64)
    assert buffer.sample(3).rewards.dtype == torch.float64
    buffer._normalize_reward = lambda reward, env=None: 0 * reward + 7
    assert (buffer.sample(3).rewards == 7).all()
    del buffer.to_torch, buffer._normalize_reward
    samples = buffer.sample(3)
    assert samples.rewards.dtype == torch.float32
    assert (samples.rewards != 7).any()
    assert buffer._direct is not None
