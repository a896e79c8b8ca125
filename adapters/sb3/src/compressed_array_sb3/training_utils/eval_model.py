"""Evaluating a model on complete episodes, and reporting the outcome in two lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from compressed_array_sb3.training_utils._play import Predictor
from compressed_array_sb3.training_utils._recorder import Buffers, Recorder

__all__ = ["eval_model", "report"]


def eval_model(
    n_eps: int,
    eval_env: VecEnv,
    model: Predictor | None,
    close_env: bool = True,
    buffer: Buffers = None,
    *,
    deterministic: bool = True,
    progress_bar: bool = True,
) -> tuple[list[float], list[float]]:
    """Plays episodes. Returns the total reward of each, and the seconds that each buffer took to add them.

    Each environment plays its share of them, as in SB3's `evaluate_policy`.

    Args:
        n_eps: How many episodes.
        eval_env: What is played in.
        model: Anything that has `predict(obs, deterministic=...)`; None plays at random.
        close_env: Whether to close `eval_env` afterwards.
        buffer: A replay buffer, or several, to which all transitions are added as training would add them. If it is for
            fewer environments than there are, and divides their number, a step is added in parts. A recording (of
            `compressed_array_sb3.recording` or `compressed_array.recording`) gets what the first environment shows.
        deterministic: Whether the model takes the actions that it considers best.
        progress_bar: Whether to show a progress bar, if there is a terminal and tqdm is installed.

    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> returns, _ = eval_model(3, make_vec_env("CartPole-v1", seed=0), model=None)
    >>> len(returns)
    3
    """
    return Recorder(buffer, eval_env.num_envs).play(
        eval_env, model, n_eps, close_env=close_env, deterministic=deterministic, progress_bar=progress_bar
    )


def report(returns: Sequence[float]) -> str:
    """Returns a text with mean, deviation and quartiles of returns, as sb3-extra-buffers publishes them.

    Args:
        returns: The total reward of each episode, as `eval_model` returns them.

    >>> print(report([21, 21, 20, 21]))
    Evaluated 4 episodes, mean reward: 20.8 +/- 0.43
    Q1:   21 | Q2:   21 | Q3:   21 | Relative IQR: 0.01 | Min: 20 | Max: 21
    """
    if not len(returns):
        raise ValueError("there is nothing to report of no episodes")
    q1, q2, q3 = (float(quartile) for quartile in np.percentile(returns, [25, 50, 75]))
    spread = (q3 - q1) / q2 if q2 else float("nan")
    return (
        f"Evaluated {len(returns)} episodes, mean reward: {np.mean(returns):.1f} +/- {np.std(returns):.2f}\n"
        f"Q1: {round(q1):4d} | Q2: {round(q2):4d} | Q3: {round(q3):4d} | Relative IQR: {spread:.2f} | "
        f"Min: {round(min(returns))} | Max: {round(max(returns))}"
    )
