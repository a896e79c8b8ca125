"""One buffer with observations on a torch device, in a process of its own, beside SB3's and a dense tensor.

    python -m benchmarks._devices speed <contender>

The last line it prints is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks._contenders import REFERENCE
from benchmarks._measure import READ_ROUNDS, READS, WRITE_ROUNDS, WRITES, Filled, in_turns
from benchmarks._ours import Small
from benchmarks._peers import sb3_arguments
from benchmarks._recordings import stream as open_stream
from benchmarks._streams import Stream

GAME = "MsPacman"
GPU = "GpuReplayBuffer "
HOST = "CompressedReplayBuffer delta"
RUNS = "extra-buffers rle"
CONTENDERS = [REFERENCE, HOST, *(GPU + codec for codec in ("none", "delta", "rle", "zstd-3")), RUNS]


class Kernels(TorchDispatchMode):
    """Counts operations that a GPU would have to launch something for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not (func.is_view or str(func).startswith(("aten.empty", "aten.detach", "aten.lift")))
        return func(*args, **(kwargs or {}))


class OnDevice:
    """A buffer whose observations are on a device, as a contender."""

    def __init__(self, stream: Stream, rows: int, codec: str) -> None:
        from compressed_array_sb3.gpu_buffers import GpuReplayBuffer

        arguments = sb3_arguments(stream, rows, optimized=False)
        self.buffer = GpuReplayBuffer(**arguments, codec=codec, buffer_device="cpu")
        self.worst = 0.0

    def add(self, step: Any) -> None:
        self.buffer.add(*step)

    def note_peak(self) -> None:
        """How much the heaps have taken of what they may: one and a half of what lives, and a segment."""
        store = self.buffer.observations.store
        if store is not None and store.frames is not None:
            heaps = [heap for heap, _, _ in store.frames.coder.heaps()]
            segments = sum(max((s.rows for s in h._segments if s), default=0) * h.row_nbytes for h in heaps)
            live = sum(heap.live_rows * heap.row_nbytes for heap in heaps)
            self.worst = max(self.worst, sum(heap.nbytes for heap in heaps) / (1.5 * live + segments))


class Runs:
    """What sb3-extra-buffers has for a device: functions for run lengths in raw memory, and no buffer around them.

    Its default dtypes can be written and not read: torch does not promote uint16. It counts places in bytes and takes
    them for numbers of elements, so that only two dtypes of one size do not overwrite each other; int32 is the smallest
    that torch repeats by. What it counts is said to be stored; it spans four times that. So it is a short ring.
    """

    rows, dtypes = 500, (torch.int32, torch.int32)

    def __init__(self, stream: Stream) -> None:
        from sb3_extra_buffers.gpu_buffers.compression_methods import compression_methods
        from sb3_extra_buffers.gpu_buffers.raw_buffer import RawBuffer

        self.codec = compression_methods.COMPRESSION_METHOD_MAP["rle"]
        self.item_shape, self.small = stream.item_shape, Small(stream, self.rows)
        # Room for twice as many: it gives memory out again without asking whether it is in use.
        size = 2 * self.rows * stream.envs * int(np.prod(self.item_shape)) * 4
        self.memory = RawBuffer(4 * size)
        self.memory.size = size
        self.places: list[list[tuple[int, int, int]]] = [[] for _ in range(self.rows)]

    def add(self, step: Any) -> None:
        flat = torch.from_numpy(np.ascontiguousarray(step.obs)).flatten(1)
        self.places[self.small.pos] = [self.codec.compress(item, self.memory, *self.dtypes) for item in flat]
        self.small.add(step)

    def read(self, rows: Any, envs: Any) -> torch.Tensor:
        size = {"size": int(np.prod(self.item_shape))}
        places = [self.places[row % self.rows][env] for row, env in zip(rows, envs, strict=True)]
        items = [self.codec.decompress(self.memory, *place, *self.dtypes, size) for place in places]
        return torch.stack(items).to(torch.uint8).view(-1, *self.item_shape)


def make(contender: str, stream: Stream) -> tuple[Any, Callable[[Any, Any], Any], dict[str, Any]]:
    """A full buffer, what reads its observations, and what is known about it."""
    rows = stream.steps
    if contender == RUNS:
        filled = Filled.__new__(Filled)
        filled.memory, filled.steps = Runs(stream), stream.play()
        for step in islice(filled.steps, Runs.rows):
            filled.memory.add(step)
        return filled, filled.memory.read, {"stored": filled.memory.memory.ptr * rows / Runs.rows}
    if not contender.startswith(GPU):
        filled = Filled(contender, stream, rows)
        buffer = filled.memory.buffer
        stored = buffer.observations.nbytes if contender == REFERENCE else buffer.memory_usage().stored
        return filled, lambda i, e: torch.from_numpy(buffer.observations[i, e]), {"stored": stored}
    filled = Filled.__new__(Filled)
    filled.memory, filled.steps = OnDevice(stream, rows, contender.removeprefix(GPU)), stream.play()
    for number, step in enumerate(islice(filled.steps, rows)):
        filled.memory.add(step)
        if number % 50 == 0:
            filled.memory.note_peak()
    observations = filled.memory.buffer.observations
    known = {"stored": filled.memory.buffer.memory_usage().stored, "peak": filled.memory.worst}
    with Kernels() as read:
        observations[np.arange(256), np.arange(256) % stream.envs]
    with Kernels() as add:
        for step in islice(filled.steps, WRITES):
            filled.memory.add(step)
    known |= {"kernels of a read": read.count, "kernels of an add": add.count / WRITES}
    return filled, lambda i, e: observations[i, e], known


def speed(contender: str) -> dict[str, Any]:
    stream = open_stream(GAME)
    rng = np.random.default_rng(0)
    filled, read, found = make(contender, stream)
    theirs = Filled(REFERENCE, stream, stream.steps)
    dense = torch.from_numpy(np.asarray(theirs.memory.buffer.observations))

    def reading(fetch: Callable[[Any, Any], Any], batch: int) -> float:
        start = time.perf_counter()
        for _ in range(READS[batch]):
            rows, envs = rng.integers(0, stream.steps, batch), rng.integers(0, stream.envs, batch)
            fetch(rows, envs)
        return (time.perf_counter() - start) / READS[batch]

    def gather(rows: Any, envs: Any) -> torch.Tensor:
        return dense[torch.from_numpy(rows), torch.from_numpy(envs)]

    if contender.startswith(GPU) or contender == RUNS:  # what was read is what was added
        first, end = (0, Runs.rows) if contender == RUNS else (stream.steps // 2, stream.steps - 1)
        rows, envs = rng.integers(first, end, 300), rng.integers(0, stream.envs, 300)
        for got, row, env in zip(read(rows, envs).numpy(), rows, envs, strict=True):
            assert np.array_equal(got, stream.at(row, env)[0]), f"another observation at {row}, {env}"
    found["write"] = in_turns(filled.write, theirs.write, WRITE_ROUNDS)
    for batch in READS:
        found[f"read {batch}"] = in_turns(partial(reading, read, batch), partial(reading, gather, batch), READ_ROUNDS)
    return found


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"speed": speed}[what](*arguments)))
