"""One replay buffer of ViZDoom in a process of its own: `python -m benchmarks._doom <see> <who> <codec> <transitions>`.

The last line it prints is JSON: the bytes that the buffer says it holds, and those that the process has grown by.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from zlib import crc32

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from compressed_array_sb3 import CompressedDictReplayBuffer
from compressed_array_sb3.training_utils.buffer_warmup import warm_up
from examples.eval_memory_saving import ENVS, OURS, THEIRS, make_replay, own_memory, said_by
from examples.train_vizdoom import make_env

WARM_UP, CHECKS = 512, 400
KEYS = {"rgb": (None,), "labels": (None,), "both": ("rgb", "labels")}


class Held:
    """Plays random actions, each held for a while, or nothing gets anywhere."""

    def __init__(self, env: VecEnv) -> None:
        assert isinstance(env.action_space, spaces.Discrete)
        self.rng, self.count = np.random.default_rng(0), int(env.action_space.n)
        self.actions = np.zeros(env.num_envs, np.int64)

    def predict(self, observation: Any, /, *, deterministic: bool) -> tuple[Any, None]:
        new = self.rng.integers(self.count, size=len(self.actions))
        self.actions = np.where(self.rng.random(len(new)) < 0.25, new, self.actions)
        return self.actions, None


class Checked:
    """Remembers checksums of some of the observations that are added to a buffer."""

    def __init__(self, buffer: Any, who: str, keys: tuple[Any, ...]) -> None:
        self.buffer, self.who, self.keys = buffer, who, keys
        self.add, buffer.add = buffer.add, self.remember
        rng = np.random.default_rng(1)
        # Not the first row: in the others' mode, the last step of all writes it as well.
        rows = rng.permutation(np.arange(1, buffer.buffer_size))[:CHECKS]
        self.chosen = {int(row): int(rng.integers(ENVS)) for row in rows}
        self.sums: dict[int, list[int]] = {}

    def remember(self, obs: Any, *others: Any) -> None:
        if (row := self.buffer.pos) in self.chosen and not self.buffer.full:
            env = self.chosen[row]
            parts = [obs if key is None else obs[key] for key in self.keys]
            self.sums[row] = [crc32(np.ascontiguousarray(part[env])) for part in parts]
        self.add(obs, *others)

    def check(self) -> None:
        assert self.sums.keys() == self.chosen.keys()
        for row, sums in self.sums.items():
            for key, expected in zip(self.keys, sums, strict=True):
                assert crc32(np.ascontiguousarray(self.held(row, self.chosen[row], key))) == expected, (row, key)

    def held(self, row: int, env: int, key: Any) -> Any:
        if self.who == THEIRS:
            return self.buffer.reconstruct_obs(row, env)
        return (self.buffer.observations if key is None else self.buffer.observations[key])[row, env]


def make(see: str, who: str, codec: str, env: VecEnv, steps: int) -> Any:
    assert isinstance(env.action_space, spaces.Discrete)
    if see != "both":
        return make_replay(who, codec, env.observation_space, env.action_space, steps)
    arguments = (steps * ENVS, env.observation_space, env.action_space, "cpu", ENVS)
    return CompressedDictReplayBuffer(*arguments, codec=codec)


def main() -> None:
    see, who, codec, transitions = sys.argv[1:]
    torch.set_num_threads(1)
    env = make_env(see, ENVS, seed=0)
    player = Held(env)
    small = make(see, who, codec, env, WARM_UP // ENVS)
    warm_up(small, ENVS, env, player)
    small.sample(64)
    before = own_memory()
    buffer = make(see, who, codec, env, int(transitions) // ENVS)
    checked = Checked(buffer, who, KEYS[see])
    warm_up(buffer, ENVS, env, player)
    real = own_memory(trim=False) - before
    checked.check()
    says = buffer.memory_usage().stored if who == OURS else said_by(who, [buffer.observations])
    env.close()
    print(json.dumps({"says": says, "real": real}))


if __name__ == "__main__":
    main()
