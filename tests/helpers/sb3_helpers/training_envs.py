"""Small games to train on, and the vectors of environments that play them. All of them repeat under one seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.envs import BitFlippingEnv, FakeImageEnv, SimpleMultiObsEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
)

SIDE = 36  # the smallest image that SB3's CNN takes
TRACE = 12  # positions in a vector, so that it is long enough to be compressed
PUSHES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
SPACES: dict[str, spaces.Space[Any]] = {
    "image": spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8),
    "vector": spaces.Box(-np.inf, np.inf, (2 * TRACE,), np.float32),
}


class Ball(gym.Env[Any, Any]):
    """A ball that is pushed about and should stay in the middle; at a wall, the episode terminates.

    :param sees: "image", "vector", or a tuple of these for a Dict
    """

    def __init__(self, sees: str | tuple[str, ...], continuous: bool = False) -> None:
        self.sees = sees
        is_dict = isinstance(sees, tuple)
        self.observation_space = spaces.Dict({key: SPACES[key] for key in sees}) if is_dict else SPACES[sees]
        self.action_space = spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.Discrete(len(PUSHES))
        self.background = np.random.default_rng(0).integers(0, 100, (SIDE, SIDE, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.speed = self.np_random.normal(0, 0.1, 2).astype(np.float32)
        self.trace = np.zeros((TRACE, 2), np.float32)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = action if isinstance(self.action_space, spaces.Box) else PUSHES[action]
        self.speed += 0.1 * push + self.np_random.normal(0, 0.02, 2).astype(np.float32)
        self.trace = np.vstack([self.trace[:1] + 0.5 * self.speed, self.trace[:-1]])
        distance = float(np.abs(self.trace[0]).max())
        return self._seen(), 1 - distance, distance > 1, False, {}

    def action_masks(self) -> np.ndarray:
        return PUSHES @ self.trace[0] < 0.5  # no push towards a wall that is near

    def _seen(self) -> Any:
        return {key: self._part(key) for key in self.sees} if isinstance(self.sees, tuple) else self._part(self.sees)

    def _part(self, key: str) -> np.ndarray:
        if key == "vector":
            return self.trace.reshape(-1).copy()
        image = self.background.copy()
        x, y = np.clip((self.trace[0] + 1) / 2 * (SIDE - 4), 0, SIDE - 4).astype(int)
        image[x : x + 4, y : y + 4] = 255
        return image


def together(make: Callable[[], gym.Env[Any, Any]], n_envs: int, start_method: str | None = None) -> VecEnv:
    """`n_envs` environments, in this process or in those of `start_method`."""
    makers = [lambda: Monitor(make())] * n_envs
    return SubprocVecEnv(makers, start_method) if start_method else DummyVecEnv(makers)


def balls(
    sees: str | tuple[str, ...] = "image",
    n_envs: int = 2,
    *,
    continuous: bool = False,
    limit: int = 8,
    start_method: str | None = None,
) -> VecEnv:
    """Balls whose episodes are truncated after `limit` steps, if they did not terminate before."""
    return together(partial(limited_ball, sees, continuous, limit), n_envs, start_method)


def limited_ball(sees: str | tuple[str, ...], continuous: bool, limit: int) -> gym.Env[Any, Any]:
    return TimeLimit(Ball(sees, continuous), limit)


def stacked_balls() -> VecEnv:
    return VecFrameStack(balls(), 4)


def normalized_balls(sees: str | tuple[str, ...] = "vector", continuous: bool = False) -> VecEnv:
    """Rewards and vectors are normalized, images are not."""
    env = balls(sees, continuous=continuous)
    if "image" in sees:
        env = VecTransposeImage(env)  # else SB3 puts it outside, and stores what is inside: images of another shape
    keys = ["vector"] if isinstance(sees, tuple) else None
    return VecNormalize(env, norm_obs=sees != "image", norm_obs_keys=keys)


def classic(name: str, n_envs: int = 1, limit: int | None = None) -> VecEnv:
    return together(partial(gym.make, name, max_episode_steps=limit), n_envs)


def bits(n_envs: int = 2, *, images: bool = False, continuous: bool = False) -> VecEnv:
    make = partial(BitFlippingEnv, 3, continuous, max_steps=5, image_obs_space=images)
    return together(make, n_envs)


def rooms() -> VecEnv:
    return together(SimpleMultiObsEnv, 1)


def masked() -> VecEnv:
    return together(partial(InvalidActionEnvDiscrete, dim=8, ep_length=10, n_invalid_actions=4), 1)


def noise() -> VecEnv:
    """Images that no codec makes smaller."""
    return together(seeded_noise, 1)


def seeded_noise() -> gym.Env[Any, Any]:
    env = FakeImageEnv(4, SIDE, SIDE)
    env.observation_space.seed(0)  # nobody else does, and its images are samples of the space
    return env


def atari(game: str, n_envs: int) -> VecEnv:
    gym.register_envs(ale_py)
    return VecFrameStack(make_atari_env(f"{game}NoFrameskip-v4", n_envs, seed=0), 4)
