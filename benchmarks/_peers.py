"""Other libraries' replay memories, each in its own terms and in the mode that it documents for saving memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from benchmarks._streams import Array, Step, Stream

Pair = tuple[Array, Array]


def sb3_arguments(stream: Stream, rows: int, optimized: bool) -> dict[str, Any]:
    actions = stream.actions
    discrete = actions.dtype.kind == "i"
    low, high = (0, 255) if stream.dtype == np.uint8 else (-np.inf, np.inf)
    return {
        "buffer_size": rows * stream.envs,
        "observation_space": spaces.Box(low, high, stream.item_shape, stream.dtype.type),
        "action_space": spaces.Discrete(int(actions.max()) + 1) if discrete else spaces.Box(-1, 1, actions.shape[2:]),
        "n_envs": stream.envs,
        "optimize_memory_usage": optimized,
        "handle_timeout_termination": not optimized,  # SB3 does not do both
    }


class SB3:
    def __init__(self, stream: Stream, rows: int, optimized: bool) -> None:
        self.buffer = ReplayBuffer(**sb3_arguments(stream, rows, optimized))
        self.sample = self.buffer.sample

    def add(self, step: Step) -> None:
        self.buffer.add(*step)

    def pair(self, rows: Array, envs: Array) -> Pair:
        obs = self.buffer.observations
        if self.buffer.optimize_memory_usage:
            return obs[rows, envs], obs[(rows + 1) % self.buffer.buffer_size, envs]
        return obs[rows, envs], self.buffer.next_observations[rows, envs]


class Gather:
    """No buffer: rows of dense memory copied to memory that is there already, the least that a sample can take."""

    def __init__(self, stream: Stream, rows: int) -> None:
        self.rows, self.envs, self.pos = rows, stream.envs, 0
        self.obs, self.after = (np.zeros((rows * self.envs, *stream.item_shape), stream.dtype) for _ in range(2))
        self.out: dict[int, Pair] = {}

    def add(self, step: Step) -> None:
        row = slice(self.pos * self.envs, (self.pos + 1) * self.envs)
        self.obs[row], self.after[row] = step.obs, step.next_obs
        self.pos = (self.pos + 1) % self.rows

    def sample(self, batch: int) -> Pair:
        which = np.random.randint(0, len(self.obs), batch)  # noqa: NPY002  as SB3
        if batch not in self.out:
            self.out[batch] = (np.empty((batch, *self.obs.shape[1:]), self.obs.dtype), self.obs[:batch].copy())
        for dense, out in zip((self.obs, self.after), self.out[batch], strict=True):
            np.take(dense, which, 0, out, "clip")  # with any other mode it copies once more
        return self.out[batch]

    def pair(self, rows: Array, envs: Array) -> Pair:
        return self.obs[rows * self.envs + envs], self.after[rows * self.envs + envs]


class ExtraBuffers:
    """sb3-extra-buffers, in the mode that its own benchmark runs in."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        from sb3_extra_buffers.compressed import CompressedReplayBuffer, find_buffer_dtypes

        dtypes = find_buffer_dtypes(stream.item_shape, stream.dtype, codec)
        arguments = sb3_arguments(stream, rows, optimized=True)
        self.buffer = CompressedReplayBuffer(**arguments, dtypes=dtypes, compression_method=codec)
        self.sample = self.buffer.sample

    def add(self, step: Step) -> None:
        self.buffer.add(*step)

    def pair(self, rows: Array, envs: Array) -> Pair:
        read, size = self.buffer.reconstruct_obs, self.buffer.buffer_size
        obs = [read(row, env) for row, env in zip(rows, envs, strict=True)]
        after = [read((row + 1) % size, env) for row, env in zip(rows, envs, strict=True)]
        return np.stack(obs), np.stack(after)


class TorchRL:
    """Its compressed storage. Before Python 3.14 the codec that it calls zstd is zlib.

    The pinned release does not load its C++ extension with torch 2.13, and says so when it is imported. That is where
    its trees of priorities are, so `PrioritizedSampler` cannot be measured here; this storage does not need it.
    """

    def __init__(self, stream: Stream, rows: int) -> None:
        from tensordict import TensorDict
        from torchrl.data import CompressedListStorage, ReplayBuffer

        self.envs, self.dictionary = stream.envs, TensorDict
        self.buffer = ReplayBuffer(storage=CompressedListStorage(rows * stream.envs))

    def add(self, step: Step) -> None:
        # A nested ("next", "obs") would be stored uncompressed.
        fields = {
            "obs": torch.from_numpy(step.obs),
            "next_obs": torch.from_numpy(step.next_obs),
            "action": torch.from_numpy(step.action),
            "reward": torch.from_numpy(step.reward),
            "done": torch.from_numpy(step.done),
            "timeout": torch.tensor([info["TimeLimit.truncated"] for info in step.infos]),
        }
        self.buffer.extend(self.dictionary(fields, batch_size=[self.envs]))

    def sample(self, batch: int) -> Any:
        lazy = self.buffer.sample(batch)
        return tuple(lazy[field] for field in ("obs", "action", "next_obs", "done", "reward", "timeout"))

    def pair(self, rows: Array, envs: Array) -> Pair:
        items = [self.buffer[int(i)] for i in rows * self.envs + envs]
        return np.stack([item["obs"].numpy() for item in items]), np.stack([item["next_obs"].numpy() for item in items])


class Cpprb:
    """cpprb keeps one sequence of steps, so that each environment has a buffer, and gives its share of a batch."""

    def __init__(self, stream: Stream, rows: int) -> None:
        from cpprb import ReplayBuffer

        *sides, stacked = (*stream.item_shape[1:], stream.item_shape[0])
        fields = {
            "obs": {"shape": (*sides, stacked), "dtype": np.uint8},
            "act": {"dtype": np.int64},
            "rew": {"dtype": np.float32},
            "done": {"dtype": np.float32},
            "timeout": {"dtype": np.float32},
        }
        compact = {"next_of": "obs", "stack_compress": "obs"}
        self.buffers = [ReplayBuffer(rows, fields, **compact) for _ in range(stream.envs)]

    def add(self, step: Step) -> None:
        # Channel last, which is how the memory lies.
        obs, after = step.obs.transpose(0, 2, 3, 1), step.next_obs.transpose(0, 2, 3, 1)
        for env, buffer in enumerate(self.buffers):
            buffer.add(
                obs=obs[env],
                next_obs=after[env],
                act=step.action[env],
                rew=step.reward[env],
                done=step.done[env],
                timeout=step.infos[env]["TimeLimit.truncated"],
            )
            if step.done[env]:
                buffer.on_episode_end()

    def sample(self, batch: int) -> Any:
        parts = [buffer.sample(batch // len(self.buffers)) for buffer in self.buffers]
        return {field: torch.from_numpy(np.concatenate([part[field] for part in parts])) for field in parts[0]}

    def pair(self, rows: Array, envs: Array) -> Pair:
        found = [self.buffers[env]._encode_sample([row]) for row, env in zip(rows, envs, strict=True)]
        obs, after = (np.concatenate([f[field] for f in found]) for field in ("obs", "next_obs"))
        return obs.transpose(0, 3, 1, 2), after.transpose(0, 3, 1, 2)
