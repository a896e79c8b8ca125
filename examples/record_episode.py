"""Plays MsPacman, records it compressed, writes the first game as a GIF, and compares the memory with raw frames.

    pip install -e "packages/compressed-array[fast,video]" -e "adapters/sb3[atari,progress]"
    python -m examples.record_episode
    python -m examples.record_episode --smoke    # some seconds

It fails unless every frame comes back bit for bit, from memory and from a file, in less than a hundredth of its bytes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import ale_py
import gymnasium
import numpy as np
from tqdm import tqdm

from compressed_array import recording
from compressed_array.recording import CompressedRecordBuffer
from compressed_array.recording.gymnasium import RecordEpisodes


def play(game: CompressedRecordBuffer, steps: int, seed: int) -> tuple[list[np.ndarray], float]:
    """Plays at random. Returns the pictures that were to be seen before each step, and the seconds that it took."""
    gymnasium.register_envs(ale_py)
    env = RecordEpisodes(gymnasium.make("ALE/MsPacman-v5", render_mode="rgb_array"), game)
    env.action_space.seed(seed)
    env.reset(seed=seed)
    pictures, start = [], time.perf_counter()
    for _ in tqdm(range(steps), "steps", disable=None):
        pictures.append(env.render())
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    seconds = time.perf_counter() - start
    env.close()
    return pictures, seconds


def check(game: CompressedRecordBuffer, pictures: list[np.ndarray]) -> None:
    """Fails unless all pictures are in the recording as they were."""
    at = 0
    for episode in game.episodes():
        for frame in episode.iter_frames():
            assert np.array_equal(frame, pictures[at]), f"step {at} was recorded wrongly"
            at += 1
    assert at == len(pictures)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=6_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, default=Path("mspacman.gif"), help="the video: .gif, or .mp4")
    options.add_argument("--smoke", action="store_true", help="a short run")
    given = options.parse_args()
    steps = 1_500 if given.smoke else given.steps

    game = CompressedRecordBuffer()
    pictures, seconds = play(game, steps, given.seed)
    check(game, pictures)
    file = given.out.with_suffix(".rec")
    game.save(file)
    check(recording.load(file), pictures)
    episode = game.episode(0)
    episode.save_video(given.out, fps=15)
    raw, stored = sum(picture.nbytes for picture in pictures), game.nbytes_stored
    print(f"{steps:,} steps in {game.n_episodes} games, played in {seconds:.1f} s")
    print(f"{given.out.name}: {given.out.stat().st_size / 1e6:.2f} MB, the {len(episode)} steps of the first game")
    print(f"  raw frames   {raw / 1e6:9.2f} MB")
    print(f"  {file.name:<12} {file.stat().st_size / 1e6:9.2f} MB")
    print(f"  recording    {stored / 1e6:9.2f} MB, {100 * stored / raw:.2f} %, with rewards and actions")
    assert stored < raw / 100, "the recording is larger than a hundredth of the frames"


if __name__ == "__main__":
    main()
