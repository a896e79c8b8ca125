"""Small tasks that SBX's algorithms take, and vectors of them. All repeat under one seed."""

from __future__ import annotations

import gymnasium as gym
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecNormalize

from sb3_helpers.ball import limited_ball


def balls(sees: str | tuple[str, ...] = "image", n_envs: int = 2, *, continuous: bool = False) -> VecEnv:
    """Episodes are truncated after a few steps, if they did not terminate before."""
    return DummyVecEnv([lambda: Monitor(limited_ball(sees, continuous, 8))] * n_envs)


def stacked_balls() -> VecEnv:
    return VecFrameStack(balls(), 4)


def normalized_balls(sees: str | tuple[str, ...] = "vector", continuous: bool = True) -> VecEnv:
    keys = [key for key in sees if key != "image"] if isinstance(sees, tuple) else None
    return VecNormalize(balls(sees, continuous=continuous), norm_obs_keys=keys)


def pendulum() -> VecEnv:
    return DummyVecEnv([lambda: Monitor(gym.make("Pendulum-v1", max_episode_steps=30))])


def bits() -> VecEnv:
    return DummyVecEnv([lambda: Monitor(BitFlippingEnv(3, continuous=True, max_steps=5))] * 2)
