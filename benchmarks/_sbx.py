"""Time in the buffer of one `train()` of SBX, with the stock buffer and with ours, in turns in one process.

    python -m benchmarks._sbx speed <case> [threads of torch]

What is timed is the one sample that SBX draws for all its gradient steps, and numpy() of all fields as SBX calls it.
The last line it prints is JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

import compressed_array_sbx as cax
from benchmarks._measure import in_turns
from compressed_array_sb3.training_utils.atari import make_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what SBX imports
    import sbx  # noqa: F401 - so that the process is one that trains, with all its threads and what they allocate

ROUNDS, FRAMES, VECTORS = 41, 10_000, 100_000
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


def speed(name: str, threads: str = "") -> dict[str, Any]:
    if threads:
        torch.set_num_threads(int(threads))
    case = CASES[name]
    stock, ours = (made(case.size, case.space, case.actions, "cpu") for made in case.classes)
    case.fill(stock, ours)
    number = case.batch * case.gradient_steps
    times = max(1, 4096 // number)

    def in_buffer(buffer: Any) -> float:
        start = time.perf_counter()
        for _ in range(times):
            as_numpy(buffer.sample(number), case.space)
        return (time.perf_counter() - start) / times

    for pair in zip(*(seeded(buffer, number, case.space) for buffer in (stock, ours)), strict=True):
        assert np.array_equal(*pair), f"{name}: another sample"
    return {"train": in_turns(lambda: in_buffer(ours), lambda: in_buffer(stock), ROUNDS)}


def seeded(buffer: Any, number: int, space: spaces.Space[Any]) -> list[Any]:
    np.random.seed(0)  # noqa: NPY002 - what SB3 draws from
    return as_numpy(buffer.sample(number), space)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"speed": speed}[what](*arguments)))
