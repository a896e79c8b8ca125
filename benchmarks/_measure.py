"""One contender in a process of its own: what it holds and whether it holds it right, or its speed beside another.

    python -m benchmarks._measure held <stream> <contender> <times round> [steady]
    python -m benchmarks._measure speed <stream> <contender> <against> <times round>

The last line it prints is JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._contenders import CONTENDERS, WRONG_AT_ENDS, Contender
from benchmarks._held import private_bytes
from benchmarks._ours import Small
from benchmarks._recordings import stream as open_stream
from benchmarks._streams import Step, Stream

WARM_UP, CHECKS = 1_024, 300
WRITE_ROUNDS, WRITES = 21, 200
READ_ROUNDS, READS = 41, {32: 20, 256: 5}


class Filled:
    """A contender with a full ring, and the steps that would come next."""

    def __init__(self, name: str, stream: Stream, rows: int) -> None:
        self.memory: Contender = CONTENDERS[name](stream, rows)
        self.steps: Iterator[Step] = stream.play()
        for step in islice(self.steps, rows):
            self.memory.add(step)

    def write(self) -> float:
        """Seconds for one step. Only `add` counts, on observations that were just made, as in training."""
        spent = 0.0
        for step in islice(self.steps, WRITES):
            start = time.perf_counter()
            self.memory.add(step)
            spent += time.perf_counter() - start
        return spent / WRITES

    def read(self, batch: int) -> float:
        """Seconds for one batch."""
        start = time.perf_counter()
        for _ in range(READS[batch]):
            self.memory.sample(batch)
        return (time.perf_counter() - start) / READS[batch]


def check(name: str, memory: Contender, stream: Stream, rows: int) -> None:
    """Random transitions, and ends of episodes; nobody is small or fast by being wrong."""
    rng = np.random.default_rng(0)
    ends = np.argwhere(stream.dones)
    # Not the first row and the last: one that holds the next observation in the row after has no room for both.
    which = np.stack((rng.integers(1, rows - 1, CHECKS), rng.integers(0, stream.envs, CHECKS)), 1)
    which = np.concatenate((which, ends[rng.permutation(len(ends))[:CHECKS]]))
    obs, after = memory.pair(*which.T)
    for i, (row, env) in enumerate(which):
        true_obs, true_after = stream.at(row % stream.steps, env)
        assert np.array_equal(obs[i], true_obs), f"{name}: another obs at {row}, {env}"
        if name in WRONG_AT_ENDS and stream.dones[row % stream.steps, env]:
            continue
        assert np.array_equal(after[i], true_after), f"{name}: another next_obs at {row}, {env}"


class Times(NamedTuple):
    """Medians: of our seconds, and of the ratio to theirs in the same round, as a machine's speed drifts.

    `others` is how many cores other processes kept busy. Beside them a ratio means little: who uses threads waits more.
    """

    ours: float
    ratio: float
    others: float


def in_turns(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> Times:
    times: list[tuple[float, float]] = []
    began, busy, own = time.perf_counter(), busy_seconds(), time.process_time()
    for turn in range(rounds + 1):
        # Whoever comes second finds the caches warm, so they take turns at that too.
        if turn % 2:
            first = ours()
            times.append((first, theirs()))
        else:
            first = theirs()
            times.append((ours(), first))
    others = busy_seconds() - busy - (time.process_time() - own)
    counted = times[1:]  # the first warms up
    medians = statistics.median(a for a, _ in counted), statistics.median(a / b for a, b in counted)
    return Times(*medians, others / (time.perf_counter() - began))


def busy_seconds() -> float:
    """What all cores together have spent working."""
    user, nice, system, _idle, _waiting, irq, soft_irq, *_ = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    return sum(map(int, (user, nice, system, irq, soft_irq))) / os.sysconf("SC_CLK_TCK")


def steady_allocator() -> None:
    """Keep glibc at the thresholds that it starts with: what is large goes back to the system when it is freed.

    Left to itself it raises them with use, and then keeps free memory, which for some contenders is most of it.
    """
    trim_threshold, mmap_threshold = -1, -3  # as malloc.h numbers them
    for option in (trim_threshold, mmap_threshold):
        ctypes.CDLL(None).mallopt(option, 128 * 1024)


def held(name: str, contender: str, times_round: str, allocator: str = "") -> dict[str, Any]:
    if allocator == "steady":
        steady_allocator()
    stream = open_stream(name)
    return held_of(stream, contender, stream.steps * int(times_round))


def held_of(stream: Stream, contender: str, rows: int) -> dict[str, Any]:
    """The bytes that this process grew by, those of them that are no observations, and what the contender counts."""
    # Libraries, compiled kernels and scratch memory come with the first writes and reads. They do not grow with what is
    # held, so they belong in what was there before; the small one stays alive, so that its memory is not taken over.
    small = Filled(contender, stream, WARM_UP)
    small.read(256)
    gc.collect()
    # Memory that is free but still the process's would be filled without the process growing.
    ctypes.CDLL(None).malloc_trim(0)
    small.write()
    before = private_bytes()
    small.steps = iter(())  # the step that it has in its hands makes room for the next one's
    filled = Filled(contender, stream, rows)
    gc.collect()
    found = {"held": private_bytes() - before, "small": Small(stream, rows).nbytes}
    found["stored"] = getattr(filled.memory, "stored", 0)
    check(contender, filled.memory, stream, rows)
    return found


def speed(name: str, contender: str, against: str, times_round: str) -> dict[str, Any]:
    stream = open_stream(name)
    ours = Filled(contender, stream, stream.steps * int(times_round))
    theirs = Filled(against, stream, stream.steps)
    found = {"write": in_turns(ours.write, theirs.write, WRITE_ROUNDS)}
    for batch in READS:
        found[f"read {batch}"] = in_turns(partial(ours.read, batch), partial(theirs.read, batch), READ_ROUNDS)
    return found


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"held": held, "speed": speed}[what](*arguments)))
