"""Buffers on a torch device: the same samples as SB3's own, in every bit, wherever observations lie."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import DictReplayBuffer, DictRolloutBuffer, ReplayBuffer, RolloutBuffer
from stable_baselines3.common.envs import SimpleMultiObsEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import compressed_array as ca
import compressed_array_sb3 as cab
from compressed_array.torch import DeviceArray
from compressed_array_sb3.gpu_buffers import (
    GpuDictReplayBuffer,
    GpuDictRolloutBuffer,
    GpuReplayBuffer,
    GpuRolloutBuffer,
)
from sb3_helpers.experience import DICT, SPACES, assert_same, play, seeded
from sb3_helpers.training_envs import balls

CODECS = ["auto", "delta", "rle", "zstd-3", "lz4-frame/1", "gzip1", "none"]
ACTIONS = spaces.Discrete(6)
MORE_SPACES = {
    **SPACES,
    "uint16": spaces.Box(0, 65535, (40, 40), np.uint16),
    "bool": spaces.Box(0, 1, (40, 40), np.bool_),
    "half": spaces.Box(-1, 1, (30, 30), np.float16),
}


def fill(stream: Any, *buffers: Any) -> None:
    for step in stream:
        for buffer in buffers:
            buffer.add(*step)


def assert_same_samples(stock: Any, ours: Any, stream: Any, env: Any = None) -> None:
    for number, step in enumerate(stream):
        fill([step], stock, ours)
        if number % 7 == 0:
            for batch in (1, 33):
                assert_same(seeded(number, ours.sample, batch, env=env), seeded(number, stock.sample, batch, env=env))


@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("space", MORE_SPACES)
def test_every_space(space: str, n_envs: int) -> None:
    args = (50 * n_envs, MORE_SPACES[space], ACTIONS, "cpu")
    stock, ours = ReplayBuffer(*args, n_envs=n_envs), GpuReplayBuffer(*args, n_envs=n_envs)
    assert isinstance(ours.observations, DeviceArray)
    assert_same_samples(stock, ours, play(MORE_SPACES[space], ACTIONS, n_envs, 130))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("space", ["stacked", "float image"])
def test_every_codec(codec: str, space: str) -> None:
    args = (200, SPACES[space], ACTIONS, "cpu")
    stock, ours = ReplayBuffer(*args, n_envs=4), GpuReplayBuffer(*args, n_envs=4, codec=codec)
    assert_same_samples(stock, ours, play(SPACES[space], ACTIONS, 4, 130))


@pytest.mark.parametrize("codec", [*CODECS, {"image": "rle", "state": "delta"}], ids=str)
def test_dict(codec: Any) -> None:
    args = (200, DICT, ACTIONS, "cpu")
    stock, ours = DictReplayBuffer(*args, n_envs=4), GpuDictReplayBuffer(*args, n_envs=4, codec=codec)
    assert_same_samples(stock, ours, play(DICT, ACTIONS, 4, 130))


@pytest.mark.parametrize("is_dict", [False, True])
def test_vec_normalize(is_dict: bool) -> None:
    space: Any = DICT if is_dict else SPACES["float image"]
    env = DummyVecEnv([lambda: SimpleMultiObsEnv()])
    env.observation_space = space
    normalizer = VecNormalize(env, norm_obs_keys=["state"] if is_dict else None)
    args = (100, space, ACTIONS, "cpu")
    kinds = (DictReplayBuffer, GpuDictReplayBuffer) if is_dict else (ReplayBuffer, GpuReplayBuffer)
    assert_same_samples(*(kind(*args, n_envs=2) for kind in kinds), play(space, ACTIONS, 2, 70), normalizer)


def rollout(space: Any, buffers: Any, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for buffer in buffers:
        buffer.reset()
    for step in play(space, ACTIONS, 4, steps, seed):
        value, log_prob = (torch.from_numpy(rng.normal(size=4).astype(np.float32)) for _ in range(2))
        for buffer in buffers:
            buffer.add(step.obs, step.action, step.reward, step.done, value, log_prob)
    for buffer in buffers:
        buffer.compute_returns_and_advantage(torch.zeros(4), np.zeros(4, bool))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("space", ["stacked", "dict", "vector", "discrete"])
def test_rollouts(codec: str, space: str) -> None:
    chosen = DICT if space == "dict" else SPACES[space]
    kinds = (DictRolloutBuffer, GpuDictRolloutBuffer) if space == "dict" else (RolloutBuffer, GpuRolloutBuffer)
    args = (40, chosen, ACTIONS, "cpu")
    buffers = kinds[0](*args, n_envs=4), kinds[1](*args, n_envs=4, codec=codec)
    for number in range(3):
        rollout(chosen, buffers, 40, number)
        for epoch, batch in enumerate((16, None, 17)):
            mine, theirs = (list(seeded(epoch, buffer.get, batch)) for buffer in reversed(buffers))
            for ours, stock in zip(mine, theirs, strict=True):
                assert_same(ours, stock)


def test_rollouts_do_not_add_up_in_memory() -> None:
    buffer = GpuRolloutBuffer(40, SPACES["stacked"], ACTIONS, "cpu", n_envs=4)
    held = []
    for number in range(30):
        rollout(SPACES["stacked"], [buffer], 40, number)
        list(buffer.get(32))
        held.append(buffer.memory_usage().stored)
    assert max(held[15:]) <= 1.3 * max(held[:15])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("how", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_buffer_that_was_saved_goes_on(codec: str, how: Any) -> None:
    """The predecessor's pickles could not be loaded."""
    args = (120, SPACES["stacked"], ACTIONS, "cpu")
    stock, ours = ReplayBuffer(*args, n_envs=2), GpuReplayBuffer(*args, n_envs=2, codec=codec)
    stream = play(SPACES["stacked"], ACTIONS, 2, 150)
    fill([next(stream) for _ in range(80)], stock, ours)
    back = how(ours)
    assert_same(seeded(1, back.sample, 40), seeded(1, stock.sample, 40))
    assert_same_samples(stock, back, stream)


@pytest.mark.parametrize("codec", CODECS)
def test_frames_that_do_not_compress(codec: str) -> None:
    """The predecessor had no room for them, whatever its heap was given."""
    space = spaces.Box(0, 255, (3, 40, 40), np.uint8)
    stock, ours = ReplayBuffer(50, space, ACTIONS, "cpu"), GpuReplayBuffer(50, space, ACTIONS, "cpu", codec=codec)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (121, 1, 3, 40, 40)).astype(np.uint8)
    for obs, after in pairwise(frames):
        for buffer in (stock, ours):
            buffer.add(obs, after, np.zeros(1, int), np.zeros(1), np.zeros(1), [{}])
    assert_same(seeded(0, ours.sample, 64), seeded(0, stock.sample, 64))
    assert ours.memory_usage().stored < 1.6 * ours.memory_usage().raw


def test_what_the_predecessor_is_given() -> None:
    from compressed_array_sb3.gpu_buffers import find_gpu_buffer_dtypes, has_zstd
    from compressed_array_sb3.gpu_buffers.utils import estimate_total_heap_bytes, numpy_dtype_to_torch

    space = SPACES["stacked"]
    method = "zstd3" if has_zstd() else "rle"
    dtypes = find_gpu_buffer_dtypes(
        space.shape, elem_dtype=numpy_dtype_to_torch(space.dtype), compression_method=method
    )
    given = copy.deepcopy(dtypes)
    with pytest.warns(UserWarning, match="max_slot_bytes"):
        GpuReplayBuffer(20, space, ACTIONS, "cpu", max_slot_bytes=9000)
    buffer = GpuReplayBuffer(
        100,
        space,
        ACTIONS,
        device="cpu",
        n_envs=2,
        optimize_memory_usage=True,
        dtypes=dtypes,
        compression_method=method,
        normalize_images=True,
        output_dtype="float",
        buffer_device="cpu",
        heap_bytes=estimate_total_heap_bytes(100, 4 * 36 * 36) + 10_000_000,
    )
    assert dtypes == given  # it wrote into the caller's
    fill(play(space, ACTIONS, 2, 60), buffer)
    sample = buffer.sample(8).observations
    assert sample.dtype == torch.float32
    assert 0 <= float(sample.min()) <= float(sample.max()) <= 1
    assert buffer.observations.store.heap_bytes > 10_000_000


def test_samples_are_on_their_device_and_the_books_are_right() -> None:
    buffer = GpuReplayBuffer(200, SPACES["stacked"], ACTIONS, "cpu", n_envs=2, buffer_device="cpu")
    fill(play(SPACES["stacked"], ACTIONS, 2, 150), buffer)
    usage = buffer.memory_usage()
    assert usage.transitions == 200
    assert usage.shared > 90
    assert usage.ratio > 2
    assert "delta" in repr(buffer)
    sample = buffer.sample(4)
    assert sample.observations.device == buffer.device
    changed = sample.observations.clone()
    fill(play(SPACES["stacked"], ACTIONS, 2, 150, seed=5), buffer)
    assert torch.equal(sample.observations, changed)


def test_bad_options_are_named() -> None:
    with pytest.raises(cab.BufferOptionError, match="Dict"):
        GpuReplayBuffer(10, DICT, ACTIONS)
    with pytest.raises(ca.UnknownCodecError):
        GpuReplayBuffer(10, SPACES["stacked"], ACTIONS, codec="zlib-ng")
    with pytest.raises(ca.UnsupportedOperationError, match="delta or zstd"):
        GpuReplayBuffer(10, SPACES["stacked"], ACTIONS, codec="delta-zstd")
    buffer, obs = GpuReplayBuffer(10, SPACES["stacked"], ACTIONS, n_envs=2), np.zeros((3, 4, 36, 36), np.uint8)
    with pytest.raises(cab.ObservationError, match="2 environment"):
        buffer.add(obs, obs, np.zeros(2), np.zeros(2), np.zeros(2), [{}] * 2)


# The usage section of sb3-extra-buffers' page on GPU buffers, as it stands there.
REPLAY_SAMPLE = """
import torch as th
from stable_baselines3 import DQN
from sb3_extra_buffers.gpu_buffers import GpuReplayBuffer, find_gpu_buffer_dtypes
from sb3_extra_buffers.gpu_buffers.utils import numpy_dtype_to_torch
device = "cuda" if th.cuda.is_available() else "cpu"
dtypes = find_gpu_buffer_dtypes(
    env.observation_space.shape,
    elem_dtype=numpy_dtype_to_torch(env.observation_space.dtype),
    compression_method="rle",
)
model = DQN(
    "CnnPolicy",
    env,
    replay_buffer_class=GpuReplayBuffer,
    replay_buffer_kwargs=dict(
        dtypes=dtypes,
        compression_method="rle",
        buffer_device=device,
        # heap_bytes=...,  # override if estimate_total_heap_bytes is too small
    ),
    device=device,
)
"""
ROLLOUT_SAMPLE = """
from sb3_extra_buffers.gpu_buffers import GpuRolloutBuffer, has_zstd
compression_method = "zstd" if has_zstd() else "rle"
dtypes = find_gpu_buffer_dtypes(obs_shape, compression_method=compression_method)
model = PPO(
    "CnnPolicy",
    env,
    rollout_buffer_class=GpuRolloutBuffer,
    rollout_buffer_kwargs=dict(
        dtypes=dtypes,
        compression_method=compression_method,
        buffer_device=device,
    ),
    device=device,
)
"""


def test_the_samples_of_the_predecessor_run() -> None:
    env = balls()
    names: dict[str, Any] = {"env": env, "obs_shape": env.observation_space.shape, "PPO": PPO}
    for sample, steps in ((REPLAY_SAMPLE, 150), (ROLLOUT_SAMPLE, 4096)):
        exec(sample.replace("sb3_extra_buffers", "compressed_array_sb3"), names)
        names["model"].n_epochs = 1
        names["model"].learn(steps)
        buffer = getattr(names["model"], "replay_buffer", None) or names["model"].rollout_buffer
        assert isinstance(buffer, (GpuReplayBuffer, GpuRolloutBuffer))
    env.close()
