"""PPO or DQN in ViZDoom, which sees colours, a semantic segmentation, or both as a Dict, with a compressed buffer.

    pip install -e "packages/compressed-array[fast,video]" -e "adapters/sb3[progress]" vizdoom
    python -m examples.train_vizdoom --see labels                     # or rgb, or both
    python -m examples.train_vizdoom --see both --algorithm dqn --video doom.gif
    python -m examples.train_vizdoom --see labels --smoke             # some seconds

A deathmatch of 256 x 144 pixels, of which ViZDoom says for each what it belongs to. At the end the model is evaluated,
and the buffer says what it holds; it fails if that is not less than half of SB3's for colours, a third for both, and a
twentieth for a segmentation. With `--compare`, and with `--smoke`, it trains once more with SB3's own buffer, and fails
unless both end with the same weights, bit for bit.
"""

from __future__ import annotations

import argparse
import time
from contextlib import chdir
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import vizdoom
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage
from vizdoom.gymnasium_wrapper.base_gymnasium_env import VizdoomEnv

from compressed_array.recording import CompressedRecordBuffer
from compressed_array.recording.gymnasium import RecordEpisodes
from compressed_array_sb3 import (
    CompressedDictReplayBuffer,
    CompressedDictRolloutBuffer,
    CompressedReplayBuffer,
    CompressedRolloutBuffer,
)
from compressed_array_sb3.training_utils.eval_model import eval_model, report

SIZE = (144, 256)
BUTTONS = ["ATTACK", "SPEED", "MOVE_RIGHT", "MOVE_LEFT", "MOVE_BACKWARD", "MOVE_FORWARD", "TURN_RIGHT", "TURN_LEFT"]
# Kinds of objects, as ViZDoom calls them; the first two have no name there, and the last is all the rest.
CLASSES = ("wall", "floor or ceiling", "Self", "Player", "Monster", "Projectile", "Explosive", "Weapon", "Ammo")
CLASSES += ("Health", "Armor", "Powerup", "Key", "SFX", "Gibs", "other")
# A picture's range, by 255 of which SB3 divides what it sees.
SHADES = {name: np.uint8(255 * i // (len(CLASSES) - 1)) for i, name in enumerate(CLASSES)}
# How many times less than SB3's a buffer holds at the least.
LEAST_RATIO = {"rgb": 2, "labels": 20, "both": 3}
BUFFERS: dict[tuple[str, bool], type] = {
    ("ppo", False): CompressedRolloutBuffer,
    ("ppo", True): CompressedDictRolloutBuffer,
    ("dqn", False): CompressedReplayBuffer,
    ("dqn", True): CompressedDictReplayBuffer,
}


class Doom(gym.Wrapper[Any, Any, Any, Any]):
    """A scenario that ViZDoom ships, of which `see` is seen: "rgb", "labels", or "both"."""

    def __init__(self, see: str, scenario: str = "deathmatch", skip: int = 4, render_mode: str | None = None) -> None:
        game = VizdoomEnv(
            str(Path(vizdoom.scenarios_path, f"{scenario}.cfg")),
            frame_skip=skip,
            max_buttons_pressed=1,
            render_mode=render_mode,
            available_buttons=BUTTONS,
            screen_resolution=f"RES_{SIZE[1]}X{SIZE[0]}",
            screen_format="RGB24",
            labels_buffer_enabled=True,
        )
        super().__init__(game)
        kinds = {"rgb": spaces.Box(0, 255, (*SIZE, 3), np.uint8), "labels": spaces.Box(0, 255, (*SIZE, 1), np.uint8)}
        self.see = see
        self.observation_space = spaces.Dict(kinds) if see == "both" else kinds[see]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with chdir(gettempdir()):  # the game starts with the first reset, and leaves files where it is started
            observation, info = self.env.reset(seed=seed, options=options)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        # ViZDoom calls a game that ran out of time terminated as well, and then SB3 would not see the timeout.
        return self._seen(observation), reward, terminated and not truncated, truncated, info

    def _seen(self, observation: dict[str, Any]) -> Any:
        if self.see == "rgb":
            return observation["screen"]
        labels = self._classes(observation["labels"])
        return {"rgb": observation["screen"], "labels": labels} if self.see == "both" else labels

    def _classes(self, numbers: Any) -> Any:
        """The class of each pixel, where ViZDoom has the numbers of single objects."""
        state = self.unwrapped.state
        shades = np.full(256, SHADES["other"])
        shades[0], shades[1] = SHADES["wall"], SHADES["floor or ceiling"]
        for label in state.labels if state is not None else ():  # there is none after the last step
            shades[label.value] = SHADES.get(label.object_category, SHADES["other"])
        return shades[numbers]


def make_env(see: str, n_envs: int, seed: int) -> VecEnv:
    """Environments for SB3. Each runs its game in a process of its own, so no other is needed."""
    return VecTransposeImage(make_vec_env(Doom, n_envs=n_envs, seed=seed, env_kwargs={"see": see}))


def train(given: argparse.Namespace, stock: bool = False) -> tuple[BaseAlgorithm, float]:
    """A model after its training, and the seconds that took."""
    env = make_env(given.see, given.envs, given.seed)
    is_dict = isinstance(env.observation_space, spaces.Dict)
    buffer = None if stock else BUFFERS[given.algorithm, is_dict]
    options: dict[str, Any] = {"seed": given.seed, "device": given.device}
    policy = "MultiInputPolicy" if is_dict else "CnnPolicy"
    model: BaseAlgorithm
    if given.algorithm == "ppo":
        options |= {
            "n_steps": given.rollout,
            "batch_size": 64,
            "n_epochs": 1 if given.smoke else 3,
            "rollout_buffer_class": buffer,
        }
        model = PPO(policy, env, **options)
    else:
        options |= {"buffer_size": given.buffer_size, "learning_starts": given.steps // 4, "train_freq": 8}
        model = DQN(policy, env, **options, replay_buffer_class=buffer)
    start = time.perf_counter()
    model.learn(given.steps, progress_bar=True)
    seconds = time.perf_counter() - start
    env.close()
    return model, seconds


def watch(model: BaseAlgorithm, see: str, file: Path, steps: int, seed: int) -> None:
    """Write a game to a video, the screen beside ViZDoom's labels."""
    recording = CompressedRecordBuffer()
    env = RecordEpisodes(Doom(see, render_mode="rgb_array"), recording)
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        action, _ = model.predict(observation, deterministic=True)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    env.close()
    recording.episode(0).save_video(file, fps=35 / 4)  # the game has 35 frames a second, of which one in four is seen
    print(f"{file}: a game of {len(recording)} steps")


def parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--see", choices=LEAST_RATIO, default="both")
    options.add_argument("--algorithm", choices=("ppo", "dqn"), default="ppo")
    options.add_argument("--steps", type=int, default=100_000)
    options.add_argument("--envs", type=int, default=4)
    options.add_argument("--rollout", type=int, default=1_024, help="steps of each environment, for PPO")
    options.add_argument("--buffer-size", type=int, default=100_000, help="transitions, for DQN")
    options.add_argument("--games", type=int, default=8, help="to evaluate the model with")
    options.add_argument("--video", type=Path, help="write a game to this file: .gif, .mp4")
    options.add_argument("--device", default="auto")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--compare", action="store_true", help="train with SB3's own buffer too, and compare weights")
    options.add_argument("--smoke", action="store_true", help="a tiny run, with --compare on a CPU")
    given = options.parse_args()
    if given.smoke:
        given.steps, given.envs, given.rollout, given.buffer_size, given.games = 128, 2, 64, 128, 0
        given.device, given.compare = "cpu", True
    return given


def main() -> None:
    given = parse()
    model, seconds = train(given)
    print(f"{given.algorithm.upper()} that sees {given.see}: {given.steps:,} steps in {seconds:.0f} s")
    if given.compare:
        stock, seconds = train(given, stock=True)
        print(f"with SB3's own buffer: {seconds:.0f} s")
        weights, others = model.policy.state_dict(), stock.policy.state_dict()
        assert all(torch.equal(weights[name], others[name]) for name in others), "the weights are not the same"
        print(f"the {sum(weight.numel() for weight in others.values()):,} weights are the same, bit for bit")
    if given.games:
        env = make_env(given.see, min(given.envs, given.games), given.seed + 1)
        print(report(eval_model(given.games, env, model)[0]))
    if given.video:
        watch(model, given.see, given.video, 30 if given.smoke else 2_000, given.seed + 2)
    buffer: Any = model.rollout_buffer if given.algorithm == "ppo" else model.replay_buffer
    print(repr(buffer))
    ratio = buffer.memory_usage().ratio
    least = LEAST_RATIO[given.see]
    assert ratio > least, f"it holds a {ratio:.1f}th of what SB3 would, and not less than a {least}th"


if __name__ == "__main__":
    main()
