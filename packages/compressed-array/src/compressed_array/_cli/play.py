"""Observations of an environment that is played at random: what a buffer would be given.

Atari games are wrapped as they usually are: no-ops at the start, four frames skipped and the last two joined, 84 x 84
pixels, grey, four frames stacked. Others are played as `gymnasium.make` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compressed_array._cli.failures import DataError, MissingLibraryError, UsageError
from compressed_array._cli.output import progress
from compressed_array._cli.sources import Part

STACK, SIDE = 4, 84
ATARI = re.compile(r"NoFrameskip|Deterministic|^ALE/|-ram")


@dataclass(frozen=True)
class Game:
    """Steps of some environments: an array of (steps, envs, *shape) for each key, "" where there is only one."""

    parts: list[Part]
    wrappers: str
    actions: str  # the name of the action space's class


def play(env_id: str, envs: int, steps: int, seed: int, *, quiet: bool) -> Game:
    """Play `steps` steps in each of `envs` environments with random actions."""
    try:
        import gymnasium
    except ImportError:
        raise MissingLibraryError("--env", "gymnasium", "gymnasium") from None
    make, wrappers = _maker(gymnasium, env_id)
    try:
        made = [make() for _ in range(envs)]
    except (gymnasium.error.Error, ImportError) as error:
        raise UsageError(f"{env_id} cannot be made: {error}") from None
    try:
        actions = type(made[0].action_space).__name__
        arrays: dict[str, Any] = {}
        with progress(f"playing {env_id}", envs * steps, quiet=quiet) as advance:
            for number, env in enumerate(made):
                env.action_space.seed(seed + number)
                obs, _ = env.reset(seed=seed + number)
                for step in range(steps):
                    _keep(arrays, obs, step, number, (steps, envs))
                    obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
                    if terminated or truncated:
                        obs, _ = env.reset()
                    advance()
    finally:
        for env in made:
            env.close()
    return Game([Part(name, array, array.ndim - 2, "") for name, array in arrays.items()], wrappers, actions)


def _keep(arrays: dict[str, Any], obs: Any, step: int, env: int, grid: tuple[int, int]) -> None:
    for name, value in (obs if isinstance(obs, dict) else {"": obs}).items():
        if isinstance(value, (dict, tuple, str)):
            where = f" of {name!r}" if name else ""
            raise DataError(f"observations{where} are of type {type(value).__name__}; only arrays, and dicts of them")
        item = np.asarray(value)
        if name not in arrays:
            arrays[name] = np.zeros((*grid, *item.shape), item.dtype)
        arrays[name][step, env] = item


def _maker(gymnasium: Any, env_id: str) -> tuple[Callable[[], Any], str]:
    """What makes one environment, and what it is wrapped in."""
    has_games = True
    try:
        import ale_py

        gymnasium.register_envs(ale_py)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # which would announce itself on every start
    except ImportError:
        has_games = False
    try:
        spec = gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError) as error:
        if not has_games and ATARI.search(env_id):
            raise MissingLibraryError(env_id, "ale-py", "ale-py opencv-python-headless") from None
        raise UsageError(f"there is no environment {env_id!r}: {error}") from None
    if "ale_py" not in str(spec.entry_point) or spec.kwargs.get("obs_type") == "ram":
        return lambda: gymnasium.make(env_id), "none"
    return _atari(gymnasium, env_id)


def _atari(gymnasium: Any, env_id: str) -> tuple[Callable[[], Any], str]:
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformObservation

    try:
        import cv2  # noqa: F401  # which both kinds of wrappers need, and say so in a line that is hard to read
    except ImportError:
        raise MissingLibraryError(env_id, "OpenCV", "opencv-python-headless") from None
    try:
        from stable_baselines3.common.atari_wrappers import AtariWrapper
    except ImportError:
        AtariWrapper = None  # type: ignore[misc,assignment]  # noqa: N806

    def one() -> Any:
        env = gymnasium.make(env_id, frameskip=1)  # the wrappers skip frames
        if AtariWrapper is None:
            env = AtariPreprocessing(env, screen_size=SIDE, terminal_on_life_loss=True)
        else:
            env = AtariWrapper(env, screen_size=SIDE)
            flat = gymnasium.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
            env = TransformObservation(env, lambda frame: frame[..., 0], flat)
        return FrameStackObservation(env, STACK, padding_type="zero")

    by = "gymnasium's AtariPreprocessing" if AtariWrapper is None else "SB3's AtariWrapper"
    return one, f"{by}, {STACK} frames stacked"
