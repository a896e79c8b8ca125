"""Windows of steps that follow each other: one buffer in a process of its own, or its speed beside another.

    python -m benchmarks._sequences held <stream> <contender> <times round>
    python -m benchmarks._sequences speed <stream> <contender> <against>

The last line it prints is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks import _measure
from benchmarks._contenders import CONTENDERS, Contender
from benchmarks._measure import READ_ROUNDS, WRITE_ROUNDS, Filled, in_turns
from benchmarks._recordings import STREAMS
from benchmarks._recordings import stream as open_stream
from benchmarks._streams import Array, Step, Stream
from benchmarks._torch_buffers import Buffer, buffer_arguments, ends

LENGTH, WINDOWS, READS = 64, 16, 5
OURS, GATHER, SELECT = "SequenceReplayBuffer ", "numpy's gather", "torch's index_select"
CODECS = ("delta", "delta-zstd", "auto", "none")
FRAMES, STACKS = "MsPacman frames", "MsPacman"
STREAMS[FRAMES] = ("MsPacman", 1, slice(None))  # as world models store them, not in stacks


class Windows(Buffer):
    """`SequenceReplayBuffer`, of which `sample` takes as many windows as make a number of steps."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        from compressed_array_torch import SequenceReplayBuffer

        self.buffer = SequenceReplayBuffer(**buffer_arguments(stream, rows, codec), length=LENGTH)
        self.sample = lambda steps: self.buffer.get(steps // LENGTH)


class Dense:
    """No buffer: a dense array for each part of a step, and the last next observation, gathered by position."""

    def __init__(self, stream: Stream, rows: int, gather: Callable[[Array, Array], Array]) -> None:
        self.rows, self.envs, self.pos, self.gather = rows, stream.envs, 0, gather
        self.rng = np.random.default_rng(0)
        self.begins = np.ones(self.envs, bool)
        kinds = [(stream.item_shape, stream.dtype)] * 2 + [(stream.actions.shape[2:], stream.actions.dtype)]
        kinds += [((), np.dtype(np.float32)), *[((), np.dtype(bool))] * 3]
        self.arrays = [np.zeros((rows * self.envs, *shape), dtype) for shape, dtype in kinds]

    def add(self, step: Step) -> None:
        first = self.pos * self.envs
        parts = (step.next_obs, step.obs, step.action, step.reward, *ends(step), self.begins)
        for array, part in zip(self.arrays, parts, strict=True):
            array[first : first + self.envs] = part
        self.begins, self.pos = step.done, (self.pos + 1) % self.rows

    def sample(self, steps: int) -> list[torch.Tensor]:
        count = steps // LENGTH
        # Any window but those over the seam, of whole episodes or not.
        starts = (self.pos + self.rng.integers(0, self.rows - LENGTH, count)) * self.envs
        starts += self.rng.integers(0, self.envs, count)
        places = (starts[:, None] + np.arange(LENGTH) * self.envs) % len(self.arrays[0])
        after, *rest = self.arrays
        parts = [self.gather(after, places[:, -1]), *(self.gather(array, places) for array in rest)]
        return [torch.from_numpy(part) for part in parts]

    def pair(self, rows: Array, envs: Array) -> tuple[Array, Array]:
        after, obs, *_ = self.arrays
        return obs[rows * self.envs + envs], after[rows * self.envs + envs]


def select(array: Array, places: Array) -> Array:
    found = torch.from_numpy(array).index_select(0, torch.from_numpy(places.reshape(-1)))
    return found.view(*places.shape, *array.shape[1:]).numpy()


SEQUENCES: dict[str, Callable[[Stream, int], Contender]] = {
    **{OURS + codec: partial(Windows, codec=codec) for codec in CODECS},
    GATHER: partial(Dense, gather=lambda array, places: array[places]),
    SELECT: partial(Dense, gather=select),
}
CONTENDERS.update(SEQUENCES)  # for `_measure`, in this process


def read(filled: Filled) -> float:
    """Seconds for one batch."""
    start = time.perf_counter()
    for _ in range(READS):
        filled.memory.sample(WINDOWS * LENGTH)
    return (time.perf_counter() - start) / READS


def speed(name: str, contender: str, against: str) -> dict[str, Any]:
    stream = open_stream(name)
    ours, theirs = (Filled(who, stream, stream.steps) for who in (contender, against))
    return {
        "write": in_turns(ours.write, theirs.write, WRITE_ROUNDS),
        "read": in_turns(partial(read, ours), partial(read, theirs), READ_ROUNDS),
    }


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"held": _measure.held, "speed": speed}[what](*arguments)))
