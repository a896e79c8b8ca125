"""What SB3's own tests ask of its buffers, asked of ours."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.envs import BitFlippingEnv, SimpleMultiObsEnv
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import compressed_array_sb3 as cab

REPLAYS = [cab.CompressedReplayBuffer, cab.CompressedDictReplayBuffer, cab.CompressedHerReplayBuffer]
ROLLOUTS = [cab.CompressedRolloutBuffer, cab.CompressedDictRolloutBuffer]
STEPS = 100


class Counting(gym.Env[Any, Any]):
    """Observations that say which step they are of, in images; rewards that do, too."""

    def __init__(self, as_dict: bool) -> None:
        image = spaces.Box(0, 255, (1, 20, 20), np.uint8)
        self.as_dict = as_dict
        self.observation_space = spaces.Dict({"image": image}) if as_dict else image
        self.action_space = spaces.Box(-1, 1, (2,), np.float64)
        self.step_number = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.step_number = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        return self._observe(), float(self.step_number), self.step_number >= 9, False, {}

    def _observe(self) -> Any:
        image = np.full((1, 20, 20), self.step_number, np.uint8)
        return {"image": image} if self.as_dict else image


def is_dict(cls: type) -> bool:
    return "Dict" in cls.__name__


def replay_of(cls: type, steps: int) -> tuple[Any, VecNormalize]:
    """A buffer with that many steps in it, and statistics of them."""
    if cls is cab.CompressedHerReplayBuffer:
        env = VecNormalize(DummyVecEnv([lambda: BitFlippingEnv(n_bits=20, max_steps=9)]), norm_obs=False)
        buffer = cls(STEPS, env.observation_space, env.action_space, env=env, device="cpu", codec="delta")
    else:
        env = VecNormalize(DummyVecEnv([lambda: Counting(is_dict(cls))]))
        # Not the environment's own space, in which VecNormalize puts what it makes of the images.
        buffer = cls(STEPS, Counting(is_dict(cls)).observation_space, env.action_space, device="cpu")
    env.reset()
    obs = env.get_original_obs()
    for _ in range(steps):
        action = np.array([env.action_space.sample()])
        _, _, done, infos = env.step(action)
        after = env.get_original_obs()
        buffer.add(obs, after, action, env.get_original_reward(), done, infos)
        obs = after
    return buffer, env


@pytest.mark.parametrize("cls", REPLAYS[:2])
def test_samples_are_normalized_when_they_are_asked_for_so(cls: type) -> None:
    buffer, env = replay_of(cls, STEPS)
    plain, normalized = buffer.sample(50, env=None), buffer.sample(50, env=env)
    raw, scaled = ((s.observations["image"] if is_dict(cls) else s.observations) for s in (plain, normalized))
    assert (raw.dtype, scaled.dtype) == (torch.uint8, torch.float32)
    assert float(raw.float().mean()) > 2
    assert abs(float(scaled.mean())) < 1
    # A reward is divided by what the returns vary by.
    assert normalized.rewards.max() < plain.rewards.max() / 2


@pytest.mark.parametrize("cls", REPLAYS)
def test_samples_are_on_the_device_and_of_the_type(cls: type) -> None:
    buffer, _ = replay_of(cls, STEPS)
    samples = buffer.sample(50)
    assert type(samples) is (ReplayBufferSamples if cls is cab.CompressedReplayBuffer else DictReplayBufferSamples)
    for value in samples:
        for tensor in value.values() if isinstance(value, dict) else [value]:
            assert tensor is None or (tensor.device.type, len(tensor)) == ("cpu", 50)
    assert samples.rewards.shape == samples.dones.shape == (50, 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int64])
@pytest.mark.parametrize("cls", [*REPLAYS[:2], *ROLLOUTS])
def test_dtypes(cls: type, dtype: Any) -> None:
    box = spaces.Box(0, 100, (30,), dtype)
    space = spaces.Dict({"image": box}) if is_dict(cls) else box
    buffer = cls(STEPS, space, spaces.Box(-1, 1, (2,), np.float64), device="cpu")
    held = buffer.observations["image"] if is_dict(cls) else buffer.observations
    assert held.dtype == dtype
    # SB3 keeps actions of a replay as float32, and those of a rollout unchanged.
    assert buffer.actions.dtype == (np.float32 if cls in REPLAYS else np.float64)


def test_a_larger_number_of_environments_makes_a_shorter_buffer() -> None:
    box = spaces.Box(0, 100, (30,), np.uint8)
    assert cab.CompressedReplayBuffer(100, box, spaces.Discrete(2), n_envs=3).observations.shape == (33, 3, 30)
    assert cab.CompressedReplayBuffer(2, box, spaces.Discrete(2), n_envs=3).observations.shape == (1, 3, 30)


def test_a_subclass_of_ours_is_a_buffer_too() -> None:
    class Own(cab.CompressedRolloutBuffer):
        def __init__(self, *args: Any, extra: int = 0, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.extra = extra

    model = A2C("MlpPolicy", "CartPole-v1", rollout_buffer_class=Own, rollout_buffer_kwargs={"extra": 7}, device="cpu")
    model.learn(50)
    assert model.rollout_buffer.extra == 7


def test_several_keys_train() -> None:
    model = A2C(
        "MultiInputPolicy", SimpleMultiObsEnv(), rollout_buffer_class=cab.CompressedDictRolloutBuffer, device="cpu"
    )
    model.learn(50)
    assert set(model.rollout_buffer.observations) == {"img", "vec"}


GAMMA, N = 0.9, 3


def n_step(ends: dict[int, str], size: int = 10, steps: int = 10) -> cab.CompressedNStepReplayBuffer:
    """Steps that are rewarded with 1 and show their number; some end an episode, or a time limit does."""
    buffer = cab.CompressedNStepReplayBuffer(
        size, spaces.Box(0, 255, (70,), np.uint8), spaces.Discrete(2), device="cpu", n_steps=N, gamma=GAMMA
    )
    for number in range(steps):
        obs, after = (np.full((1, 70), value, np.uint8) for value in (number, number + 1))
        end = ends.get(number)
        info = {"TimeLimit.truncated": end == "timeout"}
        buffer.add(obs, after, np.zeros(1), np.ones(1), np.array([end is not None]), [info])
    return buffer


@pytest.mark.parametrize(
    ("ends", "where", "summed", "done"),
    [
        ({}, 2, 3, 0),  # three rewards, and the value of what comes then
        ({3: "end"}, 2, 2, 1),  # the second is the last of its episode
        ({3: "timeout"}, 2, 2, 0),  # which a time limit has cut, so that there would have been more
        ({2: "end"}, 2, 1, 1),
        ({}, 9, 1, 0),  # the newest: what lies behind it is not yet there
        ({}, 8, 2, 0),
    ],
)
def test_n_step_returns(ends: dict[int, str], where: int, summed: int, done: int) -> None:
    samples = n_step(ends)._get_samples(np.array([where]))
    assert float(samples.rewards) == pytest.approx(sum(GAMMA**i for i in range(summed)))
    assert float(samples.dones) == done
    assert float(samples.discounts) == pytest.approx(GAMMA**summed)
    assert (samples.observations == where).all()
    assert (samples.next_observations == where + summed).all()


def test_n_step_returns_go_round_the_ring_but_not_past_the_newest() -> None:
    buffer = n_step({}, size=10, steps=14)  # the newest is 13, in row 3
    samples = buffer._get_samples(np.array([9, 2]))
    np.testing.assert_array_equal(samples.observations[:, 0], [9, 12])
    np.testing.assert_array_equal(samples.next_observations[:, 0], [12, 14])
