"""Watches a model play an Atari game: on the screen, or as a video where there is none.

    pip install -e "packages/compressed-array[fast,video]" -e "adapters/sb3[atari,progress]"
    python -m examples.watch_atari --algorithm ppo --game Pong --model ppo-Pong.zip
    python -m examples.watch_atari --game MsPacman --video game.mp4     # a video in any case; at random without a model
    python -m examples.watch_atari --smoke                              # seconds

Every picture is recorded, compressed, until the game is over; the video is made from the recording. It fails unless the
recording takes less than a twentieth of the bytes of its pictures, and gives each of the last thousand back as it was.
A game of MsPacman at random, 619 steps with its video, took eleven seconds of one core.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3 import DQN, PPO
from tqdm import tqdm

from compressed_array.recording import CompressedRecordBuffer
from compressed_array_sb3.training_utils.atari import make_env

ALGORITHMS: dict[str, Any] = {"ppo": PPO, "dqn": DQN}
FPS = 15  # a game has 60 frames in a second, and a step takes four


def has_screen() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def play(env: Any, model: Any, game: CompressedRecordBuffer, steps: int) -> tuple[list[float], deque[np.ndarray]]:
    """Plays until a game is over, or for some steps; returns the scores, and the last pictures as they were."""
    scores: list[float] = []
    last: deque[np.ndarray] = deque(maxlen=1_000)
    obs = env.reset()
    for _ in tqdm(range(steps), "steps", disable=None):
        # On a screen it draws itself, and what the model sees is recorded.
        picture = obs[0, -1].copy() if env.render_mode == "human" else env.render()
        action = [env.action_space.sample()] if model is None else model.predict(obs, deterministic=True)[0]
        obs, rewards, _, infos = env.step(action)
        # Not where a life was lost, which the preprocessing tells as a done.
        is_over = "episode" in infos[0]
        game.add(picture, rewards[0], action[0], done=is_over)
        last.append(picture)
        if is_over:
            scores.append(infos[0]["episode"]["r"])
            break
    return scores, last


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--algorithm", choices=ALGORITHMS, default="ppo", help="what the model was trained by")
    options.add_argument("--model", type=Path, help="a file of train_atari; without it, actions are random")
    options.add_argument("--game", default="Pong", help="Pong, MsPacman, or any other that ale-py has")
    options.add_argument("--steps", type=int, default=10_000, help="after which a game is left")
    options.add_argument("--framestack", type=int, default=4, help="frames in an observation")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--video", type=Path, help=".mp4 or .gif; where there is no screen, such as Pong.mp4")
    options.add_argument("--smoke", action="store_true", help="120 steps, as a video")
    given = options.parse_args()
    if given.smoke:
        given.steps, given.video = 120, given.video or Path(f"{given.game}.mp4")
    video = given.video or (None if has_screen() else Path(f"{given.game}.mp4"))

    mode = "human" if video is None else "rgb_array"
    env = make_env(f"{given.game}NoFrameskip-v4", 1, framestack=given.framestack, seed=given.seed, render_mode=mode)
    env.action_space.seed(given.seed)
    model = None if given.model is None else ALGORITHMS[given.algorithm].load(given.model, device="cpu")
    game = CompressedRecordBuffer()
    scores, last = play(env, model, game, given.steps)
    env.close()
    print(
        f"{given.model or 'random actions'} in {given.game}: {f'score {scores[0]:,.0f}' if scores else 'not over yet'}"
    )

    episode = game.episode(0)
    for frame, picture in zip(episode.frames[-len(last) :], last, strict=True):
        assert np.array_equal(frame, picture), "a picture was recorded wrongly"
    raw, stored = len(game) * last[-1].nbytes, game.nbytes_stored
    # A picture is kept whole now and then, which weighs more in a short recording.
    assert stored < raw / (10 if given.smoke else 20), f"{stored:,} bytes of {raw:,}"
    if video is not None:
        episode.save_video(video, fps=FPS, picture=lambda frame: frame.repeat(3, 0).repeat(3, 1))
        print(f"saved as {video}, {len(episode) / FPS:.0f} s, {video.stat().st_size / 1e6:.2f} MB")
    share = f"{100 * stored / raw:.2f} %"
    print(f"{len(game):,} pictures of {raw / 1e6:,.2f} MB in {stored / 1e6:.2f} MB ({share}), with rewards and actions")


if __name__ == "__main__":
    main()
