"""DQN on MsPacman and PPO on Pong with SB3's buffers and with ours, from the first step to the last: wall clock.

    python -m benchmarks.training [DQN] [PPO] [steps]

The two runs of a pair start from one seed and take turns of a few thousand steps in one process, so that a slow moment
of the machine falls on both. Their weights have to be the same in the end.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks._measure import busy_seconds
from benchmarks._report import BUSY, Figure, figures, finish
from compressed_array_sb3 import CompressedReplayBuffer, CompressedRolloutBuffer
from compressed_array_sb3.training_utils.atari import make_env

STEPS, TURN, LIMIT = 51_200, 2_560, 1.02


class Run:
    """One training, with the state of all random numbers it draws."""

    def __init__(self, algorithm: str, compressed: bool) -> None:
        self.model = dqn(compressed) if algorithm == "DQN" else ppo(compressed)
        self.untrained = self.weights()
        self.turns: list[float] = []
        self._keep()

    def turn(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002 - what SB3 draws from
        torch.set_rng_state(self._torch)
        start = time.perf_counter()
        self.model.learn(TURN, reset_num_timesteps=not self.turns)
        self.turns.append(time.perf_counter() - start)
        self._keep()

    def weights(self) -> list[torch.Tensor]:
        return [weight.clone() for weight in self.model.policy.state_dict().values()]

    def _keep(self) -> None:
        self._python, self._torch = random.getstate(), torch.get_rng_state()
        self._numpy: Any = np.random.get_state()  # noqa: NPY002


def dqn(compressed: bool, game: str = "MsPacman", seed: int = 0) -> BaseAlgorithm:
    """As the Atari settings of RL Zoo, with a buffer and a start that 50,000 steps are enough for."""
    return DQN(
        "CnnPolicy",
        make_env(f"{game}NoFrameskip-v4", 1, seed=seed),
        learning_rate=1e-4,
        buffer_size=20_000,
        learning_starts=2_000,
        batch_size=32,
        train_freq=4,
        target_update_interval=1_000,
        replay_buffer_class=CompressedReplayBuffer if compressed else None,
        seed=seed,
        device="cpu",
    )


def ppo(compressed: bool, game: str = "Pong", seed: int = 0) -> BaseAlgorithm:
    """As the Atari settings of RL Zoo, without their schedules: a shorter run is the beginning of a longer one."""
    return PPO(
        "CnnPolicy",
        make_env(f"{game}NoFrameskip-v4", 8, vec_env_cls=DummyVecEnv, seed=seed),
        learning_rate=2.5e-4,
        n_steps=128,
        batch_size=256,
        n_epochs=4,
        clip_range=0.1,
        ent_coef=0.01,
        rollout_buffer_class=CompressedRolloutBuffer if compressed else None,
        seed=seed,
        device="cpu",
    )


def compare(algorithm: str, steps: int) -> None:
    stock, ours = (Run(algorithm, compressed) for compressed in (False, True))
    began, busy, own = time.perf_counter(), busy_seconds(), time.process_time()
    for number in range(-(-steps // TURN)):
        for run in (stock, ours) if number % 2 else (ours, stock):
            run.turn()
        so_far = sum(ours.turns) / sum(stock.turns)
        print(f"  {algorithm} {(number + 1) * TURN:,} steps: {so_far:.3f}x", file=sys.stderr, flush=True)
    pairs = zip(ours.weights(), stock.weights(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs), f"{algorithm}: other weights"
    assert not all(torch.equal(*pair) for pair in zip(ours.weights(), ours.untrained, strict=True))
    total = sum(ours.turns) / sum(stock.turns)
    median = statistics.median(a / b for a, b in zip(ours.turns, stock.turns, strict=True))
    others = (busy_seconds() - busy - (time.process_time() - own)) / (time.perf_counter() - began)
    figures.append(Figure(algorithm, "auto", "wall clock of SB3's", total, "x", LIMIT, others > BUSY))
    figures.append(Figure(algorithm, "auto", "wall clock of SB3's, median turn", median, "x", busy=others > BUSY))
    seconds = f"{sum(stock.turns):9.1f} s{sum(ours.turns):11.1f} s"
    print(f"{algorithm:8}{len(ours.turns) * TURN:8,}{seconds}{total:9.3f}x{median:9.3f}x  same weights", flush=True)


def main() -> None:
    asked = [name for name in ("DQN", "PPO") if name in sys.argv] or ["DQN", "PPO"]
    steps = next((int(word) for word in sys.argv[1:] if word.isdigit()), STEPS)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; DQN MsPacman, PPO Pong, turns of {TURN:,} steps")
    print(f"{'':8}{'steps':>8}{'SB3':>11}{'compressed':>13}{'ratio':>10}{'median':>10}")
    for algorithm in asked:
        compare(algorithm, steps)
    finish("training", all_of_it=len(asked) == 2 and steps >= STEPS)


if __name__ == "__main__":
    main()
