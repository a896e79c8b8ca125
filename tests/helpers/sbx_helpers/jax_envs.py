"""Small tasks that SBX's algorithms take, and vectors of them. All repeat under one seed."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecNormalize

SIDE = 36  # the smallest image that SBX's CNN takes
TRACE = 12  # positions in a vector
SPACES: dict[str, spaces.Space[Any]] = {
    "image": spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8),
    "trace": spaces.Box(-np.inf, np.inf, (2 * TRACE,), np.float32),
    "place": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "long": spaces.Box(-np.inf, np.inf, (2 * TRACE * 6,), np.float32),
}


class Puck(gym.Env[Any, Any]):
    """A puck that is pushed about and should stay in the middle; at a wall, the episode terminates.

    :param sees: a key of `SPACES`, or a tuple of keys for a Dict
    """

    def __init__(self, sees: str | tuple[str, ...], continuous: bool) -> None:
        self.sees = sees
        is_dict = isinstance(sees, tuple)
        self.observation_space = spaces.Dict({key: SPACES[key] for key in sees}) if is_dict else SPACES[sees]
        self.action_space = spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.Discrete(4)
        self.background = np.random.default_rng(0).integers(0, 100, (SIDE, SIDE, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.speed = self.np_random.normal(0, 0.1, 2).astype(np.float32)
        self.trace = np.zeros((TRACE, 2), np.float32)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_box = isinstance(self.action_space, spaces.Box)
        push = action if is_box else np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)[action]
        self.speed += 0.1 * push + self.np_random.normal(0, 0.02, 2).astype(np.float32)
        self.trace = np.vstack([self.trace[:1] + 0.5 * self.speed, self.trace[:-1]])
        distance = float(np.abs(self.trace[0]).max())
        return self._seen(), 1 - distance, distance > 1, False, {}

    def _seen(self) -> Any:
        return {key: self._part(key) for key in self.sees} if isinstance(self.sees, tuple) else self._part(self.sees)

    def _part(self, key: str) -> np.ndarray:
        if key == "image":
            image = self.background.copy()
            x, y = np.clip((self.trace[0] + 1) / 2 * (SIDE - 4), 0, SIDE - 4).astype(int)
            image[x : x + 4, y : y + 4] = 255
            return image
        parts = {"trace": self.trace, "place": self.trace[0], "long": np.tile(self.trace, (6, 1))}
        return parts[key].reshape(-1).copy()


def limited(sees: str | tuple[str, ...], continuous: bool) -> gym.Env[Any, Any]:
    return Monitor(TimeLimit(Puck(sees, continuous), 8))


def pucks(sees: str | tuple[str, ...] = "image", n_envs: int = 2, *, continuous: bool = False) -> VecEnv:
    """Episodes are truncated after a few steps, if they did not terminate before."""
    return DummyVecEnv([partial(limited, sees, continuous)] * n_envs)


def stacked_pucks() -> VecEnv:
    return VecFrameStack(pucks(), 4)


def normalized_pucks(sees: str | tuple[str, ...] = "trace", continuous: bool = True) -> VecEnv:
    keys = [key for key in sees if key != "image"] if isinstance(sees, tuple) else None
    return VecNormalize(pucks(sees, continuous=continuous), norm_obs_keys=keys)


def pendulum() -> VecEnv:
    return DummyVecEnv([lambda: Monitor(gym.make("Pendulum-v1", max_episode_steps=30))])


def bits() -> VecEnv:
    return DummyVecEnv([lambda: Monitor(BitFlippingEnv(3, continuous=True, max_steps=5))] * 2)
