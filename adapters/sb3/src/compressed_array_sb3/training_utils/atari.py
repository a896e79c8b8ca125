"""Vectorized Atari environments, preprocessed as SB3 does it. Needs the extra `atari`."""

from __future__ import annotations

from typing import Any

import gymnasium
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack, VecTransposeImage

__all__ = ["make_env"]


def make_env(
    env_id: str,
    n_envs: int,
    vec_env_cls: type[DummyVecEnv] | type[SubprocVecEnv] = SubprocVecEnv,
    framestack: int | None = 4,
    seed: int | None = None,
    **kwargs: Any,
) -> VecEnv:
    """Returns games with SB3's `AtariWrapper`, their frames stacked, channels first.

    Args:
        env_id: A game such as "MsPacmanNoFrameskip-v4" or "ALE/Pong-v5".
        n_envs: How many games are played at a time.
        vec_env_cls: What runs the games; a single one is always run in this process.
        framestack: Frames in an observation; None or 1 for the newest alone.
        seed: What the games are seeded with.
        kwargs: Options of the game, such as `render_mode` or `max_num_frames_per_episode`.

    >>> env = make_env("PongNoFrameskip-v4", n_envs=1)
    >>> env.observation_space.shape
    (4, 84, 84)
    >>> env.close()
    """
    try:
        import ale_py
    except ImportError as error:
        raise ImportError("Atari games need ale-py: pip install 'compressed-array-sb3[atari]'") from error
    gymnasium.register_envs(ale_py)
    # A game that does not exist is noticed here, where its error can be read, and not in a process that dies of it.
    gymnasium.spec(env_id)
    # The name of the module, because a worker that is started afresh has not imported it.
    name = env_id if ":" in env_id else f"ale_py:{env_id}"
    env = make_atari_env(
        name,
        n_envs=n_envs,
        seed=seed,
        env_kwargs=kwargs,
        vec_env_cls=DummyVecEnv if n_envs == 1 else vec_env_cls,
    )
    if framestack is not None and framestack > 1:
        env = VecFrameStack(env, n_stack=framestack)
    return VecTransposeImage(env)
