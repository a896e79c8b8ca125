"""Real observations, played on the spot: what an agent with random actions sees of an Atari game."""

from __future__ import annotations

import ale_py
import gymnasium as gym
import numpy as np
import numpy.typing as npt

gym.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


def record(n: int, game: str = "ALE/MsPacman-v5", seed: int = 0) -> npt.NDArray[np.uint8]:
    """`n` observations one after the other, each the last four frames: (n, 4, 84, 84)."""
    env = gym.make(game, frameskip=1)
    env = gym.wrappers.AtariPreprocessing(env, frame_skip=4, screen_size=84)
    env = gym.wrappers.FrameStackObservation(env, 4)
    rng = np.random.default_rng(seed)
    observations = np.empty((n, 4, 84, 84), np.uint8)
    observation, _ = env.reset(seed=seed)
    for i in range(n):
        observations[i] = observation
        observation, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        if terminated or truncated:
            observation, _ = env.reset()
    env.close()
    return observations
