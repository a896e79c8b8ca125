"""Time in the buffer of one `train()` of SBX, with the stock buffer and with ours, in turns in one process.

    python -m benchmarks._sbx speed <case> [threads of torch]

SBX's own `train()` runs. What is timed of it is the one sample that it draws for all its gradient steps, and numpy() of
all fields as it calls that: caches and the allocator are then what training leaves them. The last line is JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv

import compressed_array_sbx as cax
from benchmarks._measure import in_turns
from compressed_array_sb3.training_utils.atari import make_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what SBX imports
    from sbx import DQN, SAC

ROUNDS, UPDATES, FRAMES, VECTORS = 21, 8, 10_000, 100_000
KEYS = spaces.Dict(
    {"observation": spaces.Box(-9, 9, (25,)), "a": spaces.Box(-9, 9, (3,)), "b": spaces.Box(-9, 9, (3,))}
)


class Case(NamedTuple):
    """What is sampled.

    :param fill: puts the same transitions into some buffers
    :param batch: of one gradient step
    """

    space: spaces.Space[Any]
    actions: spaces.Space[Any]
    fill: Callable[..., None]
    size: int
    batch: int
    gradient_steps: int

    @property
    def classes(self) -> tuple[type, type]:
        if isinstance(self.space, spaces.Dict):
            return DictReplayBuffer, cax.CompressedDictReplayBuffer
        return ReplayBuffer, cax.CompressedReplayBuffer


def play_pacman(*buffers: Any) -> None:
    env = make_env("MsPacmanNoFrameskip-v4", 1, vec_env_cls=DummyVecEnv, framestack=4, seed=0)
    rng, obs = np.random.default_rng(0), env.reset()
    for _ in range(FRAMES):
        action = rng.integers(9, size=1)
        after, reward, done, infos = env.step(action)
        last = after.copy()
        if done[0]:
            last[0] = infos[0]["terminal_observation"]
        for buffer in buffers:
            buffer.add(obs, last, action, reward, done, infos)
        obs = after


def draw_numbers(*buffers: Any) -> None:
    rng, space = np.random.default_rng(0), buffers[0].observation_space
    for _ in range(VECTORS):
        obs, after = (numbers(space, rng) for _ in range(2))
        step = rng.normal(size=(1, 6)).astype(np.float32), rng.normal(size=1), np.zeros(1, bool), [{}]
        for buffer in buffers:
            buffer.add(obs, after, *step)


def numbers(space: Any, rng: np.random.Generator) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: numbers(part, rng) for key, part in space.spaces.items()}
    return rng.normal(size=(1, *space.shape)).astype(np.float32)


IMAGES, VECTOR = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Box(-np.inf, np.inf, (17,), np.float32)
PUSHES = spaces.Box(-1, 1, (6,), np.float32)
CASES = {
    "DQN images 1": Case(IMAGES, spaces.Discrete(9), play_pacman, FRAMES, 32, 1),
    "DQN images 16": Case(IMAGES, spaces.Discrete(9), play_pacman, FRAMES, 32, 16),
    "SAC vectors 20": Case(VECTOR, PUSHES, draw_numbers, VECTORS, 256, 20),
    "SAC keys 20": Case(KEYS, PUSHES, draw_numbers, VECTORS, 256, 20),
}


def as_numpy(samples: Any, space: spaces.Space[Any]) -> list[Any]:
    """What SBX asks of a sample before JAX has it."""
    obs, after = samples.observations, samples.next_observations
    if isinstance(space, spaces.Dict):
        keys = list(space.keys())
        both = [np.concatenate([part[key].numpy() for key in keys], axis=1) for part in (obs, after)]
    else:
        both = [obs.numpy(), after.numpy()]
    actions = samples.actions.long() if both[0].dtype == np.uint8 else samples.actions
    return [*both, actions.numpy(), samples.dones.numpy().flatten(), samples.rewards.numpy().flatten()]


class Nothing(gym.Env[Any, Any]):
    """Spaces, for a model that is never to act."""

    def __init__(self, case: Case) -> None:
        self.observation_space, self.action_space = case.space, case.actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}


class Trained:
    """A model with a full buffer, whose `train()` says how long it was in it."""

    def __init__(self, case: Case, compressed: bool) -> None:
        self.case, self.spent = case, 0.0
        algorithm = DQN if isinstance(case.actions, spaces.Discrete) else SAC
        policy = "MultiInputPolicy" if isinstance(case.space, spaces.Dict) else "MlpPolicy"
        self.model: Any = algorithm(
            "CnnPolicy" if case.space is IMAGES else policy,
            Nothing(case),
            buffer_size=case.size,
            replay_buffer_class=case.classes[compressed],
            seed=0,
        )
        self.model.set_logger(configure(None, []))
        self.buffer = self.model.replay_buffer
        self._sample, self.buffer.sample = self.buffer.sample, self.sample

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        samples = self._sample(*args, **kwargs)
        as_numpy(samples, self.case.space)
        self.spent += time.perf_counter() - start
        return samples

    def train(self) -> float:
        """Seconds in the buffer."""
        self.spent = 0.0
        trains = max(1, UPDATES // self.case.gradient_steps)
        for _ in range(trains):
            self.model.train(gradient_steps=self.case.gradient_steps, batch_size=self.case.batch)
        return self.spent / trains


def speed(name: str, threads: str = "") -> dict[str, Any]:
    if threads:
        torch.set_num_threads(int(threads))
    case = CASES[name]
    stock, ours = (Trained(case, compressed) for compressed in (False, True))
    case.fill(stock.buffer, ours.buffer)
    for pair in zip(*(seeded(contender) for contender in (stock, ours)), strict=True):
        assert np.array_equal(*pair), f"{name}: another sample"
    return {"train": in_turns(ours.train, stock.train, ROUNDS)}


def seeded(contender: Trained) -> list[Any]:
    np.random.seed(0)  # noqa: NPY002 - what SB3 draws from
    return as_numpy(contender.sample(256), contender.case.space)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"speed": speed}[what](*arguments)))
