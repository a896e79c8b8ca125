"""Frames that nothing can shrink, beside numpy itself: `python -m benchmarks._noise held|speed`, a process for each.

The last line it prints is JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import compressed_array as ca
from benchmarks._held import private_bytes
from benchmarks._measure import in_turns

FRAMES, WARM_UP, BATCH, ROUNDS = 20_480, 1_024, 256, 31
SHAPE = (84, 84)


def fill(frames: int, rng: np.random.Generator) -> ca.CompressedArray:
    array = ca.CompressedArray((frames, *SHAPE), np.uint8, item_ndim=2, codec="auto")
    for start in range(0, frames, BATCH):
        array[start : start + BATCH] = noise(rng)
    return array


def noise(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (BATCH, *SHAPE), np.uint8)


def writer(array: Any, rng: np.random.Generator) -> Callable[[], float]:
    at = 0

    def write() -> float:
        nonlocal at
        batch = noise(rng)
        start = time.perf_counter()
        array[at : at + BATCH] = batch
        spent = time.perf_counter() - start
        at = (at + BATCH) % FRAMES
        return spent

    return write


def reader(array: Any, rng: np.random.Generator) -> Callable[[], float]:
    def read() -> float:
        which = rng.integers(0, FRAMES, BATCH)
        start = time.perf_counter()
        array[which]
        return time.perf_counter() - start

    return read


def held() -> dict[str, Any]:
    small = fill(WARM_UP, np.random.default_rng(0))
    small[np.arange(BATCH)]
    ctypes.CDLL(None).malloc_trim(0)
    before = private_bytes()
    array = fill(FRAMES, np.random.default_rng(1))
    found = {"held": private_bytes() - before, "raw": array.nbytes}
    again = np.random.default_rng(1)
    for start in range(0, FRAMES, BATCH):
        assert np.array_equal(array.read(slice(start, start + BATCH)), noise(again))
    return found


def speed() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    array = fill(FRAMES, rng)
    plain = array.read()
    return {
        "write": in_turns(writer(array, rng), writer(plain, rng), ROUNDS),
        "read": in_turns(reader(array, rng), reader(plain, rng), ROUNDS),
    }


if __name__ == "__main__":
    print(json.dumps({"held": held, "speed": speed}[sys.argv[1]]()))
