"""Trainings of SBX with the stock buffer and with ours, from one seed, in turns: wall clock, and same parameters."""

from __future__ import annotations

import random
import statistics
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks._measure import busy_seconds
from compressed_array_sb3.training_utils.atari import make_env
from compressed_array_sbx import CompressedReplayBuffer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what SBX imports
    import jax
    from sbx import DQN, SAC

TURN = 1_000


class Run:
    """One training, with the state of all random numbers it draws."""

    def __init__(self, algorithm: str, compressed: bool) -> None:
        set_random_seed(0)
        self.model = MODELS[algorithm](CompressedReplayBuffer if compressed else None)
        self.turns: list[float] = []
        self._keep()

    def turn(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002 - what SB3 draws from
        start = time.perf_counter()
        self.model.learn(TURN, reset_num_timesteps=not self.turns)
        self.turns.append(time.perf_counter() - start)
        self._keep()

    def parameters(self) -> list[Any]:
        states = {name: value for name, value in vars(self.model.policy).items() if name.endswith("_state")}
        return [np.array(leaf) for leaf in jax.tree.leaves(states)]

    def _keep(self) -> None:
        self._python = random.getstate()
        self._numpy: Any = np.random.get_state()  # noqa: NPY002


def sac(buffer: Any) -> Any:
    options = {"buffer_size": 20_000, "train_freq": 20, "gradient_steps": 20, "learning_starts": 500}
    return SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=buffer, seed=0, **options)


def dqn(buffer: Any) -> Any:
    env = make_env("MsPacmanNoFrameskip-v4", 1, vec_env_cls=DummyVecEnv, framestack=4, seed=0)
    options = {"buffer_size": 10_000, "learning_starts": 1_000, "batch_size": 32}
    return DQN("CnnPolicy", env, replay_buffer_class=buffer, seed=0, **options)


MODELS = {"SAC": sac, "DQN": dqn}


class Outcome(NamedTuple):
    """Seconds of both, their ratio, the median of the ratios of turns, and how many cores others kept busy."""

    stock: float
    ours: float
    median: float
    others: float

    @property
    def ratio(self) -> float:
        return self.ours / self.stock


def compare(algorithm: str, steps: int) -> Outcome:
    stock, ours = (Run(algorithm, compressed) for compressed in (False, True))
    for run in (stock, ours):  # in the first turn programs are compiled, which takes either as long as it likes
        run.turn()
    began, busy, own = time.perf_counter(), busy_seconds(), time.process_time()
    for number in range(1, -(-steps // TURN)):
        for run in (stock, ours) if number % 2 else (ours, stock):
            run.turn()
        so_far = sum(ours.turns[1:]) / sum(stock.turns[1:])
        print(f"  {algorithm} {(number + 1) * TURN:,} steps: {so_far:.3f}x", file=sys.stderr, flush=True)
    others = (busy_seconds() - busy - (time.process_time() - own)) / (time.perf_counter() - began)
    for mine, theirs in zip(ours.parameters(), stock.parameters(), strict=True):
        assert np.array_equal(mine, theirs), f"{algorithm}: other parameters"
    pairs = list(zip(ours.turns, stock.turns, strict=True))[1:]
    return Outcome(
        sum(theirs for _, theirs in pairs),
        sum(mine for mine, _ in pairs),
        statistics.median(mine / theirs for mine, theirs in pairs),
        others,
    )
