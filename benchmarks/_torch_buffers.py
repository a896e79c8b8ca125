"""Replay buffers for training loops in plain torch: one in a process of its own, or its speed beside another.

    python -m benchmarks._torch_buffers held <stream> <contender> <times round>
    python -m benchmarks._torch_buffers speed <stream> <contender> <against> <times round>

The last line it prints is JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import _measure
from benchmarks._contenders import CONTENDERS, Contender
from benchmarks._streams import Array, Step, Stream

Pair = tuple[Array, Array]
OURS, SELECT = "ReplayBuffer ", "index_select"
LAZY, LISTED, STORAGE = "LazyTensorStorage", "CompressedListStorage", "CompressedStorage"
BY_LANES = f"{STORAGE} ndim=2"
CODECS = ("none", "delta", "delta-zstd", "auto")


def ends(step: Step) -> Pair:
    """Which episodes were terminated, and which truncated."""
    truncated = np.array([info["TimeLimit.truncated"] for info in step.infos])
    return step.done & ~truncated, truncated


def buffer_arguments(stream: Stream, rows: int, codec: str) -> dict[str, Any]:
    return {
        "buffer_size": rows,
        "num_envs": stream.envs,
        "obs_shape": stream.item_shape,
        "action_shape": stream.actions.shape[2:],
        "obs_dtype": stream.dtype,
        "action_dtype": stream.actions.dtype,
        "codec": None if codec == "none" else codec,
    }


class Buffer:
    """`ReplayBuffer`, or one that is made and filled like it."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        from compressed_array_torch import ReplayBuffer

        self.buffer = ReplayBuffer(**buffer_arguments(stream, rows, codec))
        self.sample: Callable[[int], Any] = self.buffer.get

    @property
    def stored(self) -> int:
        """The bytes of the observations, as the buffer counts them."""
        return self.buffer.memory_usage().stored

    def add(self, step: Step) -> None:
        terminated, truncated = ends(step)
        self.buffer.add(
            step.obs, step.action, step.reward, terminated=terminated, truncated=truncated, next_obs=step.next_obs
        )

    def pair(self, rows: Array, envs: Array) -> Pair:
        first, second = self.buffer._storage.both(torch.from_numpy(rows * self.buffer.num_envs + envs))
        return first.numpy(), second.numpy()


class Select:
    """No buffer: a dense tensor for each part of a transition, and a batch is an `index_select` of each."""

    def __init__(self, stream: Stream, rows: int) -> None:
        self.rows, self.envs, self.pos, count = rows, stream.envs, 0, rows * stream.envs
        kinds = [(stream.item_shape, stream.dtype)] * 2 + [(stream.actions.shape[2:], stream.actions.dtype)]
        kinds += [((), np.dtype(np.float32)), ((), np.dtype(bool)), ((), np.dtype(bool))]
        self.tensors = [torch.from_numpy(np.zeros((count, *shape), dtype)) for shape, dtype in kinds]

    def add(self, step: Step) -> None:
        first = self.pos * self.envs
        parts = (step.obs, step.next_obs, step.action, step.reward, *ends(step))
        for tensor, part in zip(self.tensors, parts, strict=True):
            tensor[first : first + self.envs] = torch.from_numpy(part)
        self.pos = (self.pos + 1) % self.rows

    def sample(self, batch: int) -> list[torch.Tensor]:
        which = torch.randint(len(self.tensors[0]), (batch,))
        return [tensor.index_select(0, which) for tensor in self.tensors]

    def pair(self, rows: Array, envs: Array) -> Pair:
        which = torch.from_numpy(rows * self.envs + envs)
        return self.tensors[0][which].numpy(), self.tensors[1][which].numpy()


class TorchRL:
    """TorchRL's buffer with the sampler that it has if nothing is said, on one of its storages or on ours.

    With `ndim` 2, ours is told which of the transitions that come together are of the same environment.
    """

    def __init__(self, stream: Stream, rows: int, storage: str, ndim: int = 1) -> None:
        import torchrl.data as rl
        from tensordict import TensorDict

        storages = {LAZY: rl.LazyTensorStorage, LISTED: rl.CompressedListStorage, STORAGE: compressed_storage}
        more = {"ndim": ndim} if ndim > 1 else {}
        self.lead = (1, stream.envs) if ndim > 1 else (stream.envs,)
        self.dictionary, self.is_listed = TensorDict, storage == LISTED
        # Its compressed storage keeps what is nested as it is, so that there the next observation has a flat name.
        self.after: Any = "next_obs" if self.is_listed else ("next", "obs")
        where = storages[storage](rows * stream.envs, **more)
        self.buffer = rl.ReplayBuffer(storage=where, sampler=rl.RandomSampler(), dim_extend=0)

    def add(self, step: Step) -> None:
        values = (step.obs, step.next_obs, step.action, step.reward, *ends(step))
        tensors = [torch.from_numpy(value).view(*self.lead, *value.shape[1:]) for value in values]
        self.buffer.extend(self.dictionary(dict(zip(self.fields, tensors, strict=True)), batch_size=self.lead))

    @property
    def fields(self) -> tuple[Any, ...]:
        return ("obs", self.after, "action", "reward", "terminated", "truncated")

    def sample(self, batch: int) -> Any:
        found = self.buffer.sample(batch)
        return tuple(found[field] for field in self.fields)

    def pair(self, rows: Array, envs: Array) -> Pair:
        which = (rows, envs) if len(self.lead) > 1 else (rows * self.lead[0] + envs,)
        if self.is_listed:
            items = [self.buffer[int(i)] for i in which[0]]
            obs, after = (np.stack([item[field].numpy() for item in items]) for field in self.fields[:2])
            return obs, after
        found = self.buffer.storage[tuple(map(torch.from_numpy, which))]
        return found["obs"].numpy(), found[self.after].numpy()


def compressed_storage(size: int, **options: Any) -> Any:
    from compressed_array_torch.torchrl import CompressedStorage

    return CompressedStorage(size, **options)


BUFFERS: dict[str, Callable[[Stream, int], Contender]] = {
    **{OURS + codec: partial(Buffer, codec=codec) for codec in CODECS},
    SELECT: Select,
    **{storage: partial(TorchRL, storage=storage) for storage in (LAZY, LISTED, STORAGE)},
    BY_LANES: partial(TorchRL, storage=STORAGE, ndim=2),
}
CONTENDERS.update(BUFFERS)  # for `_measure`, in this process: it then knows them beside those of other benchmarks

if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"held": _measure.held, "speed": _measure.speed}[what](*arguments)))
