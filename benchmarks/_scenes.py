"""Streams that show what a codec has to cope with: games, played on the spot, and cameras and masks, made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
import numpy.typing as npt

from benchmarks._recordings import random_action
from benchmarks._streams import CACHE

Array = npt.NDArray[Any]
# Games for which nothing was ever tuned, beside three that all the other benchmarks play.
GAMES = ("MsPacman", "Pong", "Breakout", "Seaquest", "SpaceInvaders", "Enduro", "Riverraid", "RoadRunner", "BattleZone")
GAMES += ("VideoPinball", "Alien", "DemonAttack", "Asteroids", "StarGunner", "Atlantis", "Qbert")


def play(env: gym.Env[Any, Any], count: int) -> Array:
    """What is seen by one who holds random actions for a while."""
    rng, frames = np.random.default_rng(0), []
    observation, _ = env.reset(seed=0)
    action = random_action(rng, env.action_space)
    for _ in range(count):
        frames.append(np.array(observation))
        if rng.random() < 0.25:
            action = random_action(rng, env.action_space)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    env.close()
    return np.stack(frames)


def video(game: str, count: int) -> Array:
    import ale_py

    gym.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return play(gym.make(f"ALE/{game}-v5"), count)


def stacks(game: str, count: int) -> Array:
    from benchmarks._atari import record

    return record(count, f"ALE/{game}-v5")


def doom(scenario: str, count: int, height: int, labels: bool) -> Array:
    """The screen of ViZDoom, or the mask of its objects, at some height; made smaller as wrappers do it."""
    from benchmarks._recordings import Doom, vizdoom

    env = Doom(scenario)
    env.game.set_screen_resolution(vizdoom.ScreenResolution.RES_320X240)
    shape, how = (height * 4 // 3, height), cv2.INTER_NEAREST if labels else cv2.INTER_AREA
    rng, frames = np.random.default_rng(0), []
    env.reset(seed=0)
    action = 0
    while len(frames) < count:
        state = env.game.get_state()
        frames.append(cv2.resize(state.labels_buffer if labels else state.screen_buffer, shape, interpolation=how))
        if rng.random() < 0.25:
            action = int(rng.integers(len(env.moves)))
        env.game.make_action(env.moves[action], env.skip)
        if env.game.is_episode_finished():
            env.game.new_episode()
    env.close()
    return np.stack(frames)


def texture(rng: np.random.Generator, height: int, width: int) -> Array:
    """Something like a photograph: detail of every size, the larger the stronger; from 0 to 1."""
    total = np.zeros((height, width))
    for size in (4, 8, 16, 32, 64):
        coarse = rng.standard_normal((max(height // size, 2), max(width // size, 2)))
        total += size * cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    total -= total.min()
    return total / total.max()


def camera(side: int, channels: int, count: int, noise: float, dtype: str = "u1", speed: float = 1.5) -> Array:
    """A camera that sweeps over a texture, or does not move, with a sensor that adds noise."""
    rng, top = np.random.default_rng(0), np.iinfo(dtype).max
    scene = np.stack([texture(rng, 3 * side, 3 * side) for _ in range(channels)], axis=-1)
    frames = np.empty((count, side, side, channels), dtype)
    for i in range(count):
        y, x = side * (1 + np.sin(i * speed / 50) / 2), side * (1 + np.cos(i * speed / 37) / 2)
        shift = np.array([[1, 0, -x], [0, 1, -y]])
        seen = cv2.warpAffine(scene, shift, (side, side), flags=cv2.INTER_LINEAR).reshape(frames[0].shape)
        frames[i] = np.clip(np.rint((0.15 + 0.7 * seen) * top + noise * rng.standard_normal(seen.shape)), 0, top)
    return frames if channels > 1 else frames[..., 0]


def masks(height: int, width: int, count: int, objects: int) -> Array:
    """Objects with bent outlines that move, turn and bounce: what a segmentation gives."""
    rng = np.random.default_rng(0)
    place, speed = rng.random((objects, 2)) * (height, width), 1.5 * rng.standard_normal((objects, 2))
    radius, bent = rng.integers(4, max(5, height // 5), objects), 0.35 * rng.random((objects, 4))
    y, x = np.mgrid[:height, :width]
    frames = np.zeros((count, height, width), np.uint8)
    for i in range(count):
        place += speed
        speed = np.where((place < 0) | (place > (height, width)), -speed, speed)
        for k in range(objects):
            dy, dx = y - place[k, 0], x - place[k, 1]
            turn = np.arctan2(dy, dx)
            outline = radius[k] * (1 + sum(bent[k, m] * np.cos((m + 1) * turn + i / 9) for m in range(4)))
            frames[i][dy**2 + dx**2 < outline**2] = k + 1
    return frames


SCENES: dict[str, Callable[[], Array]] = {
    **{
        f"video {game}": lambda game=game: video(game, 2000)
        for game in ("MsPacman", "Seaquest", "Enduro", "RoadRunner")
    },
    "CarRacing": lambda: play(gym.make("CarRacing-v3"), 2000),
    **{f"Doom {h}": lambda h=h: doom("health_gathering", 1500, h, False) for h in (60, 120, 240)},
    **{f"Doom labels {h}": lambda h=h: doom("deadly_corridor", 3000, h, True) for h in (60, 120, 240)},
    "masks 64": lambda: masks(64, 64, 4000, 6),
    "masks 128": lambda: masks(128, 128, 2000, 12),
    "camera grey 84": lambda: camera(84, 1, 3000, 2),
    "camera grey 84 still": lambda: camera(84, 1, 3000, 2, speed=0),
    "camera colour 64": lambda: camera(64, 3, 2000, 3),
    "camera colour 128": lambda: camera(128, 3, 1000, 1),
    "depth 16 bit 128": lambda: camera(128, 1, 1000, 20, "u2"),
    "HalfCheetah": lambda: play(gym.make("HalfCheetah-v5"), 6000).astype(np.float32),
    "LunarLander": lambda: play(gym.make("LunarLander-v3"), 6000),
    **{f"Atari {game}": lambda game=game: stacks(game, 8000) for game in GAMES},
}


def scene(name: str) -> Array:
    """A stream, (count, ...): made once, and kept where `nox` keeps what can be made again."""
    file = Path(CACHE, "scenes", f"{name}.npy")
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {name}", flush=True)
        unfinished = file.with_suffix(".unfinished.npy")
        np.save(unfinished, SCENES[name]())
        unfinished.rename(file)
    return np.load(file, mmap_mode="r")
