"""Small games to train on, and the vectors of environments that play them. All of them repeat under one seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ale_py
import gymnasium as gym
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

from sb3_helpers.ball import SIDE, limited_ball


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
    env.observation_space.seed(0)  # nothing else seeds it, and its images are samples of the space
    return env


def atari(game: str, n_envs: int) -> VecEnv:
    gym.register_envs(ale_py)
    return VecFrameStack(make_atari_env(f"{game}NoFrameskip-v4", n_envs, seed=0), 4)
