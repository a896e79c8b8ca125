"""Filling a replay buffer before training starts."""

from __future__ import annotations

from math import ceil

from stable_baselines3.common.vec_env import VecEnv

from compressed_array_sb3.training_utils._play import Predictor
from compressed_array_sb3.training_utils._recorder import Buffers, Recorder
from compressed_array_sb3.training_utils.eval_model import eval_model  # which users of sb3-extra-buffers import here

__all__ = ["eval_model", "warm_up"]


def warm_up(
    buffer: Buffers,
    n_envs: int,
    warmup_env: VecEnv,
    warmup_model: Predictor | None,
    warmup_episodes: int | None = None,
    mean_ep_len: float | None = None,
    *,
    close_env: bool = False,
    deterministic: bool = True,
    progress_bar: bool = True,
) -> tuple[list[float], list[float]]:
    """Lets a model play into a buffer. Returns the total reward of each episode, and the seconds that each buffer took.

    Args:
        buffer: A replay buffer, or several, as training would fill it.
        n_envs: The number of environments that the buffer is for. `warmup_env` may have a multiple of it: the steps of
            the first `n_envs` are then added first, and those of the next ones after them.
        warmup_env: What is played in; it stays open, since training goes on with it.
        warmup_model: Anything that has `predict(obs, deterministic=...)`; None plays at random.
        warmup_episodes: How many episodes; by default as many as fill the buffer.
        mean_ep_len: How many steps an episode is assumed to take, to compute that number beforehand; without it,
            playing stops when the buffer is full, in the middle of episodes.
        close_env: Whether to close `warmup_env` afterwards.
        deterministic: Whether the model takes the actions that it considers best.
        progress_bar: Whether to show a progress bar, if there is a terminal and tqdm is installed.

    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> from compressed_array_sb3 import CompressedReplayBuffer
    >>> env = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    >>> buffer = CompressedReplayBuffer(100, env.observation_space, env.action_space, device="cpu", n_envs=2)
    >>> _ = warm_up(buffer, 2, env, warmup_model=None)
    >>> buffer.full
    True
    """
    recorder = Recorder(buffer, warmup_env.num_envs)
    if not recorder.buffers:
        raise ValueError("there is no buffer to warm up")
    for one in recorder.buffers:
        if one.n_envs != n_envs:
            raise ValueError(f"n_envs={n_envs}, and the buffer is for {one.n_envs} environments")
    if warmup_episodes is None and mean_ep_len is not None:
        if mean_ep_len <= 0:
            raise ValueError(f"an episode does not take {mean_ep_len} steps")
        steps = max(buffer.buffer_size for buffer in recorder.buffers) * n_envs
        warmup_episodes = ceil(steps / mean_ep_len)
    return recorder.play(
        warmup_env,
        warmup_model,
        warmup_episodes,
        close_env=close_env,
        deterministic=deterministic,
        progress_bar=progress_bar,
    )
