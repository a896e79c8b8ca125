"""What priorities cost, beside uniform samples from the same buffer: `nox -s bench -- prioritized`.

Sampling and updating is a batch with its weights, and errors for all of it. Adds are compared with a buffer without
priorities, and a gradient step with SB3's DQN on one. Times are ratios in one process, in turns. `!` marks those taken
while others kept the machine busy; a missed target is said and not raised. `results/prioritized.csv` is written if
nothing is marked.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger

from benchmarks._measure import READ_ROUNDS, READS, WRITE_ROUNDS, WRITES, in_turns
from benchmarks._peers import sb3_arguments
from benchmarks._recordings import ALONE, stream
from benchmarks._report import BUSY, finish, speed, time_figures
from benchmarks._streams import Step, Stream
from compressed_array_sb3 import CompressedPrioritizedReplayBuffer, CompressedReplayBuffer, PrioritizedDQN

GAME, VECTORS = "MsPacman", "HalfCheetah"
STREAMS = (GAME, GAME + ALONE, VECTORS, VECTORS + ALONE)
LIMIT = 1.3
NOT_KNOWN = [math.nan, math.nan, 0.0]


class Filled:
    """A full ring with priorities that are all different, and the steps that would come next."""

    def __init__(self, made_from: Stream, kind: type[CompressedReplayBuffer]) -> None:
        self.buffer: Any = kind(**sb3_arguments(made_from, made_from.steps, optimized=False))
        self.steps: Iterator[Step] = made_from.play()
        for step in islice(self.steps, made_from.steps):
            self.buffer.add(*step)
        self.errors = {batch: torch.rand(batch, generator=torch.Generator().manual_seed(0)) for batch in READS}

    def add(self) -> float:
        """Seconds for one step."""
        spent = 0.0
        for step in islice(self.steps, WRITES):
            start = time.perf_counter()
            self.buffer.add(*step)
            spent += time.perf_counter() - start
        return spent / WRITES

    def by_priority(self, batch: int) -> None:
        samples = self.buffer.sample(batch)
        self.buffer.update_priorities(samples.indices, self.errors[batch])

    def uniform(self, batch: int) -> None:
        CompressedReplayBuffer.sample(self.buffer, batch)


def seconds(call: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


class Shown(gym.Env[Any, Any]):
    """Spaces without a game: all that a gradient step needs of one."""

    def __init__(self, of: Any) -> None:
        self.observation_space, self.action_space = of.observation_space, gym.spaces.Discrete(4)


def learner(algorithm: type[DQN], buffer: Any) -> Callable[[], None]:
    """A gradient step on batches of 32, of values of actions that are all one."""
    policy = "CnnPolicy" if len(buffer.observation_space.shape) == 3 else "MlpPolicy"
    model = algorithm(policy, Shown(buffer), buffer_size=1, device="cpu", seed=0)
    model.set_logger(Logger(None, []))
    model.replay_buffer = buffer
    buffer.actions = np.zeros((*buffer.actions.shape[:2], 1), np.int64)
    return partial(model.train, gradient_steps=1, batch_size=32)


def measured(name: str) -> dict[str, Any]:
    ours, plain = (Filled(stream(name), k) for k in (CompressedPrioritizedReplayBuffer, CompressedReplayBuffer))
    found: dict[str, Any] = {"add": in_turns(ours.add, plain.add, WRITE_ROUNDS)}
    for batch, times in READS.items():
        both = (partial(seconds, partial(way, batch), times) for way in (ours.by_priority, ours.uniform))
        found[f"sample and update {batch}"] = in_turns(*both, READ_ROUNDS)
    steps = learner(PrioritizedDQN, ours.buffer), learner(DQN, plain.buffer)
    found["gradient step"] = in_turns(*(partial(seconds, step, 3) for step in steps), WRITE_ROUNDS)
    return found


def main() -> None:
    for name in (GAME, VECTORS):
        stream(name)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    print(f"medians of {READ_ROUNDS} rounds of samples and {WRITE_ROUNDS} of adds and gradient steps; times in us\n")
    print(f"{'':22}{'sample, update 32':>15}{'... 256':>14}{'add':>15}{'gradient step':>17}")
    of = {f"sample and update {batch}": "a uniform sample's" for batch in READS}
    of |= {"add": "one without priorities", "gradient step": "DQN's"}
    for name in STREAMS:
        found, line = speed("prioritized", name), f"{name:22}"
        for measure, whose in of.items():
            times = {measure: found.get(measure, NOT_KNOWN)}
            limit = LIMIT if measure.startswith("sample") else 0.0
            line += time_figures(name, "CompressedPrioritizedReplayBuffer", whose, times, {measure: limit}) + " "
        print(line.rstrip(), flush=True)
    finish("prioritized", all_of_it=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["speed"]:
        print(json.dumps(measured(sys.argv[2])))
    else:
        main()
