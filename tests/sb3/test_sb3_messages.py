"""What a buffer says when it is used wrongly, and what it says of itself."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import DictReplayBuffer, DictRolloutBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import compressed_array_sb3 as cab
from compressed_array.usage import size
from sb3_helpers.experience import DICT, SPACES, play

ACTIONS = spaces.Discrete(4)
STACKED = SPACES["stacked"]


@pytest.mark.parametrize(
    ("stock", "ours"),
    [
        (DictReplayBuffer, cab.CompressedDictReplayBuffer),
        (DictRolloutBuffer, cab.CompressedDictRolloutBuffer),
        (None, cab.CompressedReplayBuffer),
    ],
)
def test_the_wrong_class_raises_what_sb3_raises(stock: Any, ours: Any) -> None:
    for cls in (stock, ours):
        if cls is not None:
            with pytest.raises(AssertionError):
                cls(10, DICT if stock is None else STACKED, ACTIONS)
    with pytest.raises(cab.BufferOptionError, match="Dict in its name"):
        ours(10, DICT if stock is None else STACKED, ACTIONS)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cab.CompressedHerReplayBuffer(10, STACKED, ACTIONS, env=None), "'achieved_goal'.*CompressedReplayB"),
        (
            lambda: DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=cab.CompressedRolloutBuffer),
            "take CompressedReplayBuffer as their replay_buffer_class",
        ),
        (
            lambda: PPO("MlpPolicy", "CartPole-v1", rollout_buffer_class=cab.CompressedReplayBuffer, device="cpu"),
            "take CompressedRolloutBuffer as their rollout_buffer_class",
        ),
        (lambda: cab.CompressedReplayBuffer(10, STACKED, ACTIONS, codec={"image": "delta"}), "give one codec.*'delta'"),
        (lambda: cab.CompressedReplayBuffer(10, STACKED, ACTIONS, codec=None), "leave it out.*'none' keeps plain"),
        (lambda: cab.CompressedDictReplayBuffer(10, DICT, ACTIONS, codec={"image": None}), "None is no codec"),
        (lambda: cab.CompressedReplayBuffer(10, STACKED, ACTIONS, codec="delta_zstd"), "did you mean 'delta-zstd'"),
        (lambda: cab.CompressedReplayBuffer(-1, STACKED, ACTIONS), "at least 1, not -1"),
        (lambda: cab.CompressedRolloutBuffer(0, STACKED, ACTIONS), "at least 1, not 0"),
        (lambda: cab.CompressedReplayBuffer(1e6, STACKED, ACTIONS), r"as in int\(1000000.0\)"),
        (lambda: cab.CompressedReplayBuffer("9", STACKED, ACTIONS), "whole number of transitions, not '9'"),
    ],
)
def test_what_is_wrong_is_said_and_what_to_do(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("cls", [cab.CompressedReplayBuffer, cab.CompressedNStepReplayBuffer, cab.GpuReplayBuffer])
@pytest.mark.parametrize("codec", ["auto", "none"])
def test_nothing_to_sample_is_said(cls: Any, codec: str) -> None:
    buffer = cls(10, STACKED, ACTIONS, device="cpu", codec=codec)
    with pytest.raises(cab.BufferEmptyError, match=r"add\(\) transitions first"):
        buffer.sample(4)
    buffer.add(*next(play(STACKED, ACTIONS, 1, 1)))
    assert buffer.sample(4).observations.shape == (4, *STACKED.shape)
    with pytest.raises(ValueError, match="negative"):  # another mistake is not taken for this one
        buffer.sample(-1)


@pytest.mark.parametrize("codec", ["auto", "delta", "zstd-3", "none"])
@pytest.mark.parametrize("steps", [0, 1, 40])
@pytest.mark.parametrize("space", ["stacked", "vector", "discrete"])
def test_the_repr_says_how_much_smaller_or_larger(codec: str, steps: int, space: str) -> None:
    buffer = cab.CompressedReplayBuffer(50, SPACES[space], ACTIONS, codec=codec)
    for step in play(SPACES[space], ACTIONS, 1, steps):
        buffer.add(*step)
    usage, text = buffer.memory_usage(), repr(buffer)
    assert "(0.0x" not in text
    if usage.keys[""].codec == "plain":
        assert f"in a plain array of {size(usage.stored)}" in text
        assert "larger" not in text
    elif not steps:
        assert "none yet" in text
    elif usage.ratio > 1.05:
        assert f"{usage.ratio:.1f}x smaller" in text
    elif usage.ratio < 0.95:
        assert f"{1 / usage.ratio:.1f}x larger" in text
    assert (f"{usage.shared:,} shared: equal to another, and kept once" in text) == (usage.shared > 0)


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "progress.csv").read_text().splitlines()))


@pytest.mark.parametrize(("n_envs", "log_freq"), [(1, 40), (3, 40)])
def test_the_callback_counts_steps_as_total_timesteps_does(n_envs: int, log_freq: int, tmp_path: Path) -> None:
    env = make_vec_env("CartPole-v1", n_envs)
    options = {"learning_starts": 1000, "buffer_size": 500, "device": "cpu"}
    model = DQN("MlpPolicy", env, replay_buffer_class=cab.CompressedReplayBuffer, **options)
    looks: list[int] = []

    class Watched(cab.BufferStatsCallback):
        def _record(self) -> None:
            looks.append(self.num_timesteps)
            super()._record()

    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(120, callback=Watched(log_freq))
    model.logger.close()
    every = -(-log_freq // n_envs) * n_envs
    assert looks[:-1] == list(range(every, model.num_timesteps + 1, every))
    last = rows(tmp_path)[-1]
    assert int(last["time/total_timesteps"]) == looks[-1] == model.num_timesteps
    assert int(last["buffer/transitions"]) == model.replay_buffer.size() * n_envs


# Dividing images by 255


FLOATS = spaces.Box(0, 255, (3, 36, 36), np.float32)


@pytest.mark.parametrize("output", ["raw", "float"])
@pytest.mark.parametrize(
    "space", [FLOATS, spaces.Box(0, 255, (36, 36), np.float64), spaces.Box(0, 255, (64,), np.int16)]
)
def test_whatever_goes_from_0_to_255_is_divided(space: Any, output: str) -> None:
    options = {"normalize_images": True, "output_dtype": output, "device": "cpu"}
    obs = (np.arange(space.low.size) % 256).reshape(1, *space.shape).astype(space.dtype)
    buffer = cab.CompressedReplayBuffer(1, space, ACTIONS, **options)
    for _ in range(2):
        buffer.add(obs, obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
        samples = buffer.sample(2)  # twice the same, which is divided once
        for field in (samples.observations, samples.next_observations):
            np.testing.assert_array_equal(field.numpy(), np.repeat(obs, 2, 0).astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(buffer.reconstruct_obs(0, 0), obs[0])


def test_images_within_1_are_left_and_others_refused() -> None:
    space = spaces.Box(0, 1, (3, 36, 36), np.float32)
    buffer = cab.CompressedReplayBuffer(1, space, ACTIONS, normalize_images=True, device="cpu")
    obs = np.linspace(0, 1, 3 * 36 * 36, dtype=np.float32).reshape(1, 3, 36, 36)
    buffer.add(obs, obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    np.testing.assert_array_equal(buffer.sample(1).observations.numpy(), obs)
    for high in (np.inf, 1023):
        unknown = spaces.Box(0, high, (3, 36, 36), np.float32)
        with pytest.raises(cab.BufferOptionError, match="give the space those bounds"):
            cab.CompressedReplayBuffer(1, unknown, ACTIONS, normalize_images=True)
        parts = spaces.Dict({"depth": unknown})
        with pytest.raises(cab.BufferOptionError, match="images 'depth'"):
            cab.CompressedDictRolloutBuffer(1, parts, ACTIONS, normalize_images=True)
        cab.CompressedReplayBuffer(1, unknown, ACTIONS)


def test_what_vec_normalize_has_normalized_is_not_divided_too() -> None:
    class Normalized:
        norm_obs = True

        def normalize_obs(self, obs: Any) -> Any:
            return obs.astype(np.float32) - 100

        def normalize_reward(self, reward: Any) -> Any:
            return reward

    buffer = cab.CompressedReplayBuffer(1, FLOATS, ACTIONS, normalize_images=True, device="cpu")
    obs = np.full((1, 3, 36, 36), 130, np.float32)
    buffer.add(obs, obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    assert (buffer.sample(2, env=Normalized()).observations == 30).all()
    assert (buffer.sample(2, Normalized()).next_observations == 30).all()
