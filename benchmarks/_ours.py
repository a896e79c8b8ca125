"""Our replay memories: arrays with all that SB3 holds beside the observations, and the buffer of the SB3 adapter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import compressed_array as ca
from benchmarks._streams import Array, Step, Stream

Pair = tuple[Array, Array]


class Small:
    """All of a transition but the observations, held and sampled as SB3 does it."""

    def __init__(self, stream: Stream, rows: int) -> None:
        self.rows, self.envs, self.pos = rows, stream.envs, 0
        self.width = int(np.prod(stream.actions.shape[2:]))
        self.actions = np.zeros((rows, self.envs, self.width), stream.actions.dtype)
        self.rewards, self.dones, self.timeouts = (np.zeros((rows, self.envs), np.float32) for _ in range(3))

    def add(self, step: Step) -> None:
        self.actions[self.pos] = np.array(step.action.reshape(self.envs, self.width))
        self.rewards[self.pos] = np.array(step.reward)
        self.dones[self.pos] = np.array(step.done)
        self.timeouts[self.pos] = np.array([info.get("TimeLimit.truncated", False) for info in step.infos])
        self.pos = (self.pos + 1) % self.rows

    def which(self, batch: int) -> Pair:
        return np.random.randint(0, self.rows, batch), np.random.randint(0, self.envs, batch)  # noqa: NPY002  as SB3

    def take(self, rows: Array, envs: Array) -> tuple[torch.Tensor, ...]:
        dones = (self.dones[rows, envs] * (1 - self.timeouts[rows, envs])).reshape(-1, 1)
        rewards = self.rewards[rows, envs].reshape(-1, 1)
        return torch.tensor(self.actions[rows, envs, :]), torch.tensor(dones), torch.tensor(rewards)

    @property
    def nbytes(self) -> int:
        return self.actions.nbytes + self.rewards.nbytes + self.dones.nbytes + self.timeouts.nbytes


class Ours:
    """Two arrays on one store."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        self.small = Small(stream, rows)
        shape, items = (rows, stream.envs, *stream.item_shape), len(stream.item_shape)
        self.obs = ca.CompressedArray(shape, stream.dtype, item_ndim=items, codec=codec)
        self.after = ca.CompressedArray(shape, stream.dtype, item_ndim=items, store=self.obs.store)

    @property
    def stored(self) -> int:
        """The bytes of the observations, as the arrays count them."""
        return self.obs.store.nbytes + self.obs.cells.numbers.nbytes + self.after.cells.numbers.nbytes

    def add(self, step: Step) -> None:
        self.obs[self.small.pos] = step.obs
        self.after[self.small.pos] = step.next_obs
        self.small.add(step)

    def sample(self, batch: int) -> Any:
        rows, envs = self.small.which(batch)
        obs, after = ca.read_pair(self.obs, self.after, (rows, envs))
        return torch.from_numpy(obs), torch.from_numpy(after), *self.small.take(rows, envs)

    def pair(self, rows: Array, envs: Array) -> Pair:
        obs, after = ca.read_pair(self.obs, self.after, (rows, envs))
        return obs, after


class Buffer:
    """`CompressedReplayBuffer`, which stands in for SB3's."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        from benchmarks._peers import sb3_arguments
        from compressed_array_sb3 import CompressedReplayBuffer

        self.buffer = CompressedReplayBuffer(**sb3_arguments(stream, rows, optimized=False), codec=codec)
        self.sample = self.buffer.sample

    @property
    def stored(self) -> int:
        """The bytes of the observations, as the buffer counts them."""
        return self.buffer.memory_usage().stored

    def add(self, step: Step) -> None:
        self.buffer.add(*step)

    def pair(self, rows: Array, envs: Array) -> Pair:
        return self.buffer.observations[rows, envs], self.buffer.next_observations[rows, envs]


class Deduped:
    """What a user could build: each distinct frame once in a plain compressed array, and numbers that make stacks."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        self.small, self.stream, self.written = Small(stream, rows), stream, 0
        # Which frames are the same is known beforehand, so that finding it costs this contender nothing.
        self.known, self.first = stream.distinct
        shape = (len(self.first), stream.channels, *stream.item_shape[1:])
        self.frames = ca.CompressedArray(shape, stream.dtype, item_ndim=3, codec=codec)
        self.numbers = np.zeros((2, rows, stream.envs, stream.stack), np.int32)

    @property
    def stored(self) -> int:
        """The bytes of the observations, as the arrays count them."""
        return self.frames.nbytes_stored + self.numbers.nbytes

    def add(self, step: Step) -> None:
        self.numbers[:, self.small.pos] = numbers = self.known[:, self.small.pos]
        for new in range(self.written, numbers.max() + 1):
            self.frames[new] = self.stream.frame(int(self.first[new]))
            self.written = new + 1
        self.small.add(step)

    def sample(self, batch: int) -> Any:
        rows, envs = self.small.which(batch)
        obs, after = map(torch.from_numpy, self.pair(rows, envs))
        return obs, after, *self.small.take(rows, envs)

    def pair(self, rows: Array, envs: Array) -> Pair:
        frames = self.frames.read(self.numbers[:, rows, envs])
        obs, after = frames.reshape(2, len(rows), *self.stream.item_shape)
        return obs, after
