"""Observations of an environment that is played at random: what a buffer would be given.

Atari games are wrapped as they usually are: no-ops at the start, four frames skipped and the last two joined, 84 x 84
pixels, grey, four frames stacked. Others are played as `gymnasium.make` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from compressed_array._cli.failures import DataError, MissingLibraryError, UsageError
from compressed_array._cli.output import progress
from compressed_array._cli.sources import Part

STACK, SIDE, NOOPS = 4, 84, 30
ATARI = re.compile(r"NoFrameskip|Deterministic|^ALE/|-ram")


@dataclass(frozen=True)
class Game:
    """Steps of some environments: an array of (steps, envs, *shape) for each key, "" where there is only one."""

    parts: list[Part]
    wrappers: str
    actions: str  # the name of the action space's class
    env_id: str
    is_atari: bool
    is_for_sb3: bool  # whether its wrappers take the game


def play(env_id: str, envs: int, steps: int, seed: int, *, quiet: bool) -> Game:
    """Plays `steps` steps in each of `envs` environments with random actions."""
    try:
        import gymnasium
    except ImportError:
        raise MissingLibraryError("--env", "gymnasium", "gymnasium") from None
    try:
        make, wrappers, is_for_sb3 = _maker(gymnasium, env_id)
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
    parts = [Part(name, array, array.ndim - 2, "") for name, array in arrays.items()]
    return Game(parts, wrappers or "none", actions, env_id, is_atari=bool(wrappers), is_for_sb3=is_for_sb3)


def _keep(arrays: dict[str, Any], obs: Any, step: int, env: int, grid: tuple[int, int]) -> None:
    for name, value in (obs if isinstance(obs, dict) else {"": obs}).items():
        if isinstance(value, (dict, tuple, str)):
            where = f" of {name!r}" if name else ""
            raise DataError(f"observations{where} are of type {type(value).__name__}; only arrays, and dicts of them")
        item = np.asarray(value)
        if name not in arrays:
            arrays[name] = np.zeros((*grid, *item.shape), item.dtype)
        arrays[name][step, env] = item


def _maker(gymnasium: Any, env_id: str) -> tuple[Callable[[], Any], str, bool]:
    """Returns what makes one environment, what an Atari game is wrapped in, and whether SB3 can play it."""
    has_games = True
    try:
        import ale_py

        gymnasium.register_envs(ale_py)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # which would announce itself on every start
    except ImportError:
        has_games = False
    module, _, name = env_id.rpartition(":")  # as gymnasium.make takes it: a module that registers it, and its name
    try:
        if module:
            import_module(module)
        spec = gymnasium.spec(name)
    except (gymnasium.error.Error, ImportError) as error:
        if not has_games and ATARI.search(env_id):
            raise MissingLibraryError(env_id, "ale-py", "ale-py opencv-python-headless") from None
        raise UsageError(f"there is no environment {env_id!r}: {error}") from None
    if "ale_py" not in str(spec.entry_point) or spec.kwargs.get("obs_type") == "ram":
        return lambda: gymnasium.make(env_id), "", True
    return _atari(gymnasium, env_id)


def _atari(gymnasium: Any, env_id: str) -> tuple[Callable[[], Any], str, bool]:
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformObservation

    try:
        import cv2  # noqa: F401  # which both kinds of wrappers need, and say so in a line that is hard to read
    except ImportError:
        raise MissingLibraryError(env_id, "OpenCV", "opencv-python-headless") from None
    with closing(gymnasium.make(env_id)) as env:
        has_noop = env.unwrapped.get_action_meanings()[0] == "NOOP"
    sb3_wrapper: Any = None
    if has_noop:  # SB3's does not take Backgammon, in which every action does something
        with suppress(ImportError):
            from stable_baselines3.common.atari_wrappers import AtariWrapper

            sb3_wrapper = AtariWrapper

    def one() -> Any:
        env = gymnasium.make(env_id, frameskip=1)  # the wrappers skip frames
        if sb3_wrapper is None:
            noops = NOOPS if has_noop else 0
            env = AtariPreprocessing(env, noop_max=noops, screen_size=SIDE, terminal_on_life_loss=True)
        else:
            env = sb3_wrapper(env, screen_size=SIDE)
            flat = gymnasium.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
            env = TransformObservation(env, lambda frame: frame[..., 0], flat)
        return FrameStackObservation(env, STACK, padding_type="zero")

    by = "gymnasium's AtariPreprocessing" if sb3_wrapper is None else "SB3's AtariWrapper"
    return one, f"{by}, {STACK} frames stacked", has_noop
