"""The same stream and the same seed give what the stock buffers give, as tensors and as SBX converts them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import (
    DictReplayBuffer,
    DictRolloutBuffer,
    NStepReplayBuffer,
    ReplayBuffer,
    RolloutBuffer,
)
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

import compressed_array_sb3 as cab
import compressed_array_sbx as cax
from compressed_array.torch import DeviceArray
from sb3_helpers.experience import DICT, SPACES, assert_same, play, seeded
from sbx_helpers.normalizing import normalizing
from sbx_helpers.spaces import BOX, DISCRETE, VECTORS

MIXED = spaces.Dict({"a": VECTORS["near"], "b": spaces.Box(-np.inf, np.inf, (3,), np.float64)})
KEYS = {"vectors": VECTORS, "mixed": MIXED, "images": DICT}
CODECS = ["auto", "delta", "zstd-3", "none"]


def converted(samples: Any, space: Any) -> list[Any]:
    """What SBX makes of a sample before JAX has it."""
    obs, after = samples.observations, samples.next_observations
    if isinstance(obs, dict):
        keys = list(space.keys())
        if space is not DICT:
            obs, after = (np.concatenate([part[key].numpy() for key in keys], axis=1) for part in (obs, after))
        else:
            obs, after = ([part[key].numpy() for key in keys] for part in (obs, after))
    else:
        obs, after = obs.numpy(), after.numpy()
    rest = samples.dones.numpy().flatten(), samples.rewards.numpy().flatten(), samples.actions.long().numpy()
    return [obs, after, *rest, None if samples.discounts is None else samples.discounts.numpy().flatten()]


def assert_same_arrays(ours: Any, stock: Any) -> None:
    if isinstance(stock, list):
        for mine, theirs in zip(ours, stock, strict=True):
            assert_same_arrays(mine, theirs)
    elif stock is None:
        assert ours is None
    else:
        assert (ours.dtype, ours.shape) == (stock.dtype, stock.shape)
        assert ours.tobytes() == stock.tobytes()


def assert_same_samples(stock: Any, ours: Any, stream: Any, env: Any = None) -> None:
    """Fill two buffers with one stream and sample both as it goes."""
    for number, step in enumerate(stream):
        stock.add(*step)
        ours.add(*step)
        if number % 7 == 0:
            for batch in (1, 33):
                mine = seeded(number, ours.sample, batch, env=env)
                theirs = seeded(number, stock.sample, batch, env=env)
                assert_same(mine, theirs)
                space = stock.observation_space
                assert_same_arrays(converted(mine, space), converted(theirs, space))


@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("space", SPACES)
def test_every_space(space: str, n_envs: int) -> None:
    args = (50 * n_envs, SPACES[space], DISCRETE, "cpu", n_envs)
    assert_same_samples(
        ReplayBuffer(*args), cax.CompressedReplayBuffer(*args), play(SPACES[space], DISCRETE, n_envs, 130)
    )


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str) -> None:
    args = (200, SPACES["stacked"], DISCRETE, "cpu", 4)
    ours = cax.CompressedReplayBuffer(*args, codec=codec)
    assert_same_samples(ReplayBuffer(*args), ours, play(SPACES["stacked"], DISCRETE, 4, 130))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keys", KEYS)
def test_dict(keys: str, codec: str) -> None:
    args = (200, KEYS[keys], BOX, "cpu", 4)
    ours = cax.CompressedDictReplayBuffer(*args, codec=codec)
    assert_same_samples(DictReplayBuffer(*args), ours, play(KEYS[keys], BOX, 4, 130))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_n_step(n_steps: int) -> None:
    args, options = (200, SPACES["stacked"], DISCRETE, "cpu", 4), {"n_steps": n_steps, "gamma": 0.9}
    ours = cax.CompressedNStepReplayBuffer(*args, **options)
    assert_same_samples(NStepReplayBuffer(*args, **options), ours, play(SPACES["stacked"], DISCRETE, 4, 130))


@pytest.mark.parametrize("keys", KEYS)
def test_n_step_of_a_dict_is_the_sb3_adapters(keys: str) -> None:
    args, options = (200, KEYS[keys], BOX, "cpu", 4), {"n_steps": 3, "gamma": 0.9}
    stock, ours = (package.CompressedDictNStepReplayBuffer(*args, **options) for package in (cab, cax))
    assert_same_samples(stock, ours, play(KEYS[keys], BOX, 4, 130))


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize("codec", CODECS)
def test_her(strategy: str, codec: str) -> None:
    env = DummyVecEnv([lambda: BitFlippingEnv(n_bits=40, continuous=False, max_steps=12)] * 2)
    options = {"n_envs": 2, "goal_selection_strategy": strategy, "copy_info_dict": True, "env": env, "device": "cpu"}
    args = (120, env.observation_space, env.action_space)
    stock, ours = HerReplayBuffer(*args, **options), cax.CompressedHerReplayBuffer(*args, **options, codec=codec)
    rng, obs = np.random.default_rng(0), env.reset()
    for number in range(120):
        action = rng.integers(40, size=2)
        after, reward, done, infos = env.step(action)
        for buffer in (stock, ours):
            buffer.add(dict(obs), dict(after), action, reward, done, infos)
        obs = after
        if number > 20 and number % 5 == 0:
            mine, theirs = seeded(number, ours.sample, 33), seeded(number, stock.sample, 33)
            assert_same(mine, theirs)
            mine.next_observations["desired_goal"].zero_()  # is not the observations' goal as well
            assert_same(mine.observations, theirs.observations)


@pytest.mark.parametrize("kind", ["box", "dict", "n-step"])
def test_vec_normalize(kind: str) -> None:
    space = VECTORS if kind == "dict" else SPACES["vector"]
    stock_class, ours_class = {
        "box": (ReplayBuffer, cax.CompressedReplayBuffer),
        "dict": (DictReplayBuffer, cax.CompressedDictReplayBuffer),
        "n-step": (NStepReplayBuffer, cax.CompressedNStepReplayBuffer),
    }[kind]
    args = (200, space, BOX, "cpu", 4)
    assert_same_samples(stock_class(*args), ours_class(*args), play(space, BOX, 4, 130), env=normalizing(space, 4))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["box", "dict"])
def test_rollouts(kind: str, codec: str) -> None:
    space = DICT if kind == "dict" else SPACES["stacked"]
    stock_class, ours_class = (
        (DictRolloutBuffer, cax.CompressedDictRolloutBuffer)
        if kind == "dict"
        else (RolloutBuffer, cax.CompressedRolloutBuffer)
    )
    args = (20, space, DISCRETE, "cpu")
    stock, ours = stock_class(*args, n_envs=2), ours_class(*args, n_envs=2, codec=codec)
    assert_same_rollouts(stock, ours, space)


def assert_same_rollouts(stock: Any, ours: Any, space: Any) -> None:
    rng = np.random.default_rng(0)
    stream = play(space, DISCRETE, 2, 60)
    for number in range(3):
        stock.reset(), ours.reset()
        for _ in range(20):
            step, values = next(stream), torch.from_numpy(rng.normal(size=(2, 2)).astype(np.float32))
            for buffer in (stock, ours):
                buffer.add(step.obs, step.action[:, None], step.reward, step.done, *values)
        for buffer in (stock, ours):
            buffer.compute_returns_and_advantage(torch.zeros(2), np.zeros(2, bool))
        for batch in (7, 16, None):
            mine, theirs = seeded(number, ours.get, batch), seeded(number, stock.get, batch)
            for one, other in zip(mine, theirs, strict=True):
                assert_same(one, other)


@pytest.mark.parametrize("codec", ["auto", "none", "rle"])
@pytest.mark.parametrize("kind", ["box", "dict"])
def test_on_a_device(kind: str, codec: str) -> None:
    space = DICT if kind == "dict" else SPACES["stacked"]
    classes = {
        "box": (ReplayBuffer, cax.GpuReplayBuffer, RolloutBuffer, cax.GpuRolloutBuffer),
        "dict": (DictReplayBuffer, cax.GpuDictReplayBuffer, DictRolloutBuffer, cax.GpuDictRolloutBuffer),
    }[kind]
    args = (100, space, DISCRETE, "cpu", 2)
    assert_same_samples(classes[0](*args), classes[1](*args, codec=codec), play(space, DISCRETE, 2, 80))
    stock, ours = (made(20, space, DISCRETE, "cpu", n_envs=2) for made in classes[2:])
    assert_same_rollouts(stock, ours, space)


@pytest.mark.parametrize("codec", ["auto", "none"])
def test_n_steps_on_a_device(codec: str) -> None:
    args, options = (100, SPACES["stacked"], DISCRETE, "cpu", 2), {"n_steps": 3, "gamma": 0.9}
    ours = cax.GpuNStepReplayBuffer(*args, codec=codec, **options)
    assert_same_samples(NStepReplayBuffer(*args, **options), ours, play(SPACES["stacked"], DISCRETE, 2, 80))
    assert isinstance(ours.observations, DeviceArray)


@pytest.mark.parametrize("is_normalized", [False, True])
def test_n_steps_of_keys_on_a_device(is_normalized: bool) -> None:
    args, options = (100, DICT, BOX, "cpu", 3), {"n_steps": 3, "gamma": 0.9}
    env = normalizing(DICT, 3) if is_normalized else None
    ours = cax.GpuDictNStepReplayBuffer(*args, buffer_device="cpu", **options)
    theirs = cax.CompressedDictNStepReplayBuffer(*args, **options)
    assert_same_samples(theirs, ours, play(DICT, BOX, 3, 80), env)
    batches = []
    for buffer in (ours, theirs):
        buffer.rng = np.random.default_rng(0)
        batches.append(buffer.sample_jax(20, env))
    for mine, same in zip(*map(jax.tree.leaves, batches), strict=True):
        assert np.array_equal(mine, same)
