"""Playing the games, through the wrappers that SB3 puts around them, and keeping what comes out.

Each recording is made once. It is kept only if playing it gives what the environments gave, down to the strides.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from contextlib import chdir
from copy import deepcopy
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import vizdoom
from gymnasium.wrappers import DtypeObservation
from numpy.lib.format import open_memmap
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecTransposeImage

from benchmarks._streams import CACHE, Array, Stream


class Doom(gym.Env[Array, int]):
    """A scenario that ViZDoom ships: the screen in colour, and the mask of labelled objects as a fourth channel."""

    def __init__(self, scenario: str = "health_gathering", skip: int = 4) -> None:
        self.game, self.skip = vizdoom.DoomGame(), skip
        self.game.load_config(str(Path(vizdoom.scenarios_path, f"{scenario}.cfg")))
        self.game.set_window_visible(False)
        self.game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        self.game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        self.game.set_labels_buffer_enabled(True)
        buttons = self.game.get_available_buttons_size()
        self.moves = [[action >> button & 1 for button in range(buttons)] for action in range(2**buttons)]
        self.observation_space = gym.spaces.Box(0, 255, (120, 160, 4), np.uint8)
        self.action_space = gym.spaces.Discrete(len(self.moves))
        self.running = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if not self.running:
            self.game.set_seed(0 if seed is None else seed)
            self.game.init()
            self.running = True
        self.game.new_episode()
        return self.observe(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward = self.game.make_action(self.moves[action], self.skip)
        done = self.game.is_episode_finished()
        timeout = done and not self.game.is_player_dead()
        return self.observe(), reward, done and not timeout, timeout, {}

    def observe(self) -> Array:
        state = self.game.get_state()
        if state is None:  # the game shows nothing after an episode's last action; ViZDoom's own wrapper gives zeros
            return np.zeros((120, 160, 4), np.uint8)
        return np.dstack((state.screen_buffer, state.labels_buffer))

    def close(self) -> None:
        self.game.close()


def atari(game: str, **options: Any) -> VecEnv:
    """A game as in `NoFrameskip-v4`, which only some of the games are registered as; with options of ale-py's."""
    gym.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    options = {"frameskip": 1, "repeat_action_probability": 0.0} | options
    return VecTransposeImage(VecFrameStack(make_atari_env(f"ALE/{game}-v5", 4, seed=0, env_kwargs=options), 4))


def car_racing() -> VecEnv:
    return VecTransposeImage(VecFrameStack(make_vec_env("CarRacing-v3", n_envs=1, seed=0), 4))


def doom() -> VecEnv:
    return VecTransposeImage(make_vec_env(Doom, n_envs=1, seed=0))


def half_cheetah() -> VecEnv:
    wrapper = {"wrapper_class": DtypeObservation, "wrapper_kwargs": {"dtype": np.float32}}
    return make_vec_env("HalfCheetah-v5", n_envs=4, seed=0, **wrapper)


# How to make the environments, the frames that they stack, and the number of steps.
GAMES: dict[str, tuple[Callable[[], VecEnv], int, int]] = {
    "MsPacman": (lambda: atari("MsPacman"), 4, 10_000),
    "Pong": (lambda: atari("Pong"), 4, 10_000),
    "Breakout": (lambda: atari("Breakout"), 4, 10_000),
    "CarRacing": (car_racing, 4, 4_000),
    "ViZDoom": (doom, 1, 4_000),
    "HalfCheetah": (half_cheetah, 1, 25_000),
}
# What the benchmarks play: a recording, the stack to show it in, and the channels to show.
STREAMS: dict[str, tuple[str, int, slice]] = {
    "MsPacman": ("MsPacman", 4, slice(None)),
    "Pong": ("Pong", 4, slice(None)),
    "Breakout": ("Breakout", 4, slice(None)),
    "CarRacing": ("CarRacing", 1, slice(None)),
    "CarRacing x4": ("CarRacing", 4, slice(None)),
    "ViZDoom": ("ViZDoom", 1, slice(3)),
    "ViZDoom x4": ("ViZDoom", 4, slice(3)),
    "ViZDoom labels": ("ViZDoom", 1, slice(3, 4)),
    "HalfCheetah": ("HalfCheetah", 1, slice(None)),
}


ALONE = " alone"  # behind a stream's name: of the first environment only


def stream(name: str) -> Stream:
    game, stack, channels = STREAMS[name.removesuffix(ALONE)]
    folder = CACHE / game
    if not folder.exists():
        record(game, folder)
    return Stream(folder, stack, channels, 1 if name.endswith(ALONE) else None)


def record(game: str, folder: Path) -> None:
    print(f"recording {game}", flush=True)
    unfinished = folder.with_name(f"{game} unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    record_to(unfinished, *GAMES[game])
    unfinished.rename(folder)


def record_to(folder: Path, make: Callable[[], VecEnv], stack: int, steps: int) -> None:
    with TemporaryDirectory() as elsewhere, chdir(elsewhere):  # some games leave files where they are played
        env = make()
        digest, strides = play_and_keep(env, stack, steps, folder)
        env.close()
    again = 0
    for step in islice(Stream(folder, stack).play(), steps):
        again = checksum(again, step.obs, step.next_obs)
        assert step.obs.strides == step.next_obs.strides == strides
    assert again == digest, "the recording does not give what the environments gave"


def play_and_keep(env: VecEnv, stack: int, steps: int, folder: Path) -> tuple[int, tuple[int, ...]]:
    """Play with random actions, and say what came out: a checksum, and the strides of every observation."""
    rng = np.random.default_rng(0)
    obs = env.reset()
    strides, digest, channels = obs.strides, 0, obs.shape[1] // stack
    shape = (steps + 1, *np.moveaxis(obs[:, -channels:], 1, -1).shape)
    frames = open_memmap(folder / "frames.npy", "w+", obs.dtype, shape)
    action = np.stack([random_action(rng, env.action_space) for _ in range(env.num_envs)])
    ends, actions, rewards, dones, timeouts = [], [], [], [], []
    for t in range(steps):
        frames[t] = np.moveaxis(obs[:, -channels:], 1, -1)
        # An action is held for a while, or nothing gets anywhere.
        for i in np.flatnonzero(rng.random(env.num_envs) < 0.25):
            action[i] = random_action(rng, env.action_space)
        new, reward, done, infos = env.step(action)
        # What SB3's off-policy algorithms do before they add.
        next_obs = deepcopy(new)
        for i in np.flatnonzero(done):
            next_obs[i] = infos[i]["terminal_observation"]
            ends.append(np.moveaxis(next_obs[i, -channels:], 0, -1).copy())
        assert obs.strides == next_obs.strides == strides
        digest = checksum(digest, obs, next_obs)
        actions.append(action.copy())
        rewards.append(reward.copy())
        dones.append(done.copy())
        timeouts.append([info.get("TimeLimit.truncated", False) for info in infos])
        obs = new
    frames[steps] = np.moveaxis(obs[:, -channels:], 1, -1)
    np.save(folder / "ends.npy", np.array(ends, obs.dtype).reshape(len(ends), *shape[2:]))
    for name, kept in (("actions", actions), ("rewards", rewards), ("dones", dones), ("timeouts", timeouts)):
        np.save(folder / f"{name}.npy", np.array(kept))
    return digest, strides


def random_action(rng: np.random.Generator, space: gym.Space[Any]) -> Array:
    if isinstance(space, gym.spaces.Discrete):
        return np.asarray(rng.integers(space.n))
    assert isinstance(space, gym.spaces.Box)
    return rng.uniform(space.low, space.high).astype(space.dtype)


def checksum(before: int, *arrays: Array) -> int:
    for array in arrays:
        before = zlib.crc32(np.ascontiguousarray(array), before)
    return before
