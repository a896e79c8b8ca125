"""States of agents in an array beside a dense one: what they take, and the time to read some of them.

    python -m benchmarks._latents speed <kind>

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

import compressed_array as ca
from benchmarks._measure import READ_ROUNDS, in_turns
from benchmarks._streams import Array

STEPS, LANES, WIDTH, BATCH, READS = 2_000, 4, 4_096, 256, 5


def brain_floats(rng: np.random.Generator, size: int) -> Array:
    """What was computed in bfloat16: float32 of which the lower half of the bits is zero."""
    return (rng.standard_normal(size, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def half_floats(rng: np.random.Generator, size: int) -> Array:
    return rng.standard_normal(size, np.float32).astype(np.float16).astype(np.float32)


def one_hot(rng: np.random.Generator, size: int) -> Array:
    """Choices among 32, as DreamerV3 has them."""
    return np.eye(32, dtype=np.float32)[rng.integers(0, 32, size // 32)].reshape(size)


def small_integers(rng: np.random.Generator, size: int) -> Array:
    return rng.integers(0, 256, size)


# Each with what it may take, in % of raw.
KINDS: dict[str, tuple[Callable[[np.random.Generator, int], Array], float]] = {
    "float32 of bfloat16": (brain_floats, 45),
    "float32 of float16": (half_floats, 45),
    "one-hot float32": (one_hot, 3),
    "int64 below 256": (small_integers, 30),
}


def speed(kind: str) -> dict[str, Any]:
    make, _ = KINDS[kind]
    rng = np.random.default_rng(0)
    dense = np.empty((STEPS, LANES, WIDTH), make(rng, 32).dtype)
    array = ca.zeros(dense.shape, dense.dtype, item_ndim=1, codec="auto")
    for row in range(STEPS):
        for lane in range(LANES):
            dense[row, lane] = make(rng, WIDTH)
        array[row] = dense[row]

    def read(of: Any) -> float:
        """Seconds for a batch of rows, each read alone."""
        start = time.perf_counter()
        for _ in range(READS):
            of[rng.integers(0, STEPS, BATCH), rng.integers(0, LANES, BATCH)]
        return (time.perf_counter() - start) / READS

    for row in range(0, STEPS, 100):
        assert array[row : row + 100].tobytes() == dense[row : row + 100].tobytes(), f"{kind}: other bits at {row}"
    which = rng.integers(0, STEPS, BATCH), rng.integers(0, LANES, BATCH)
    assert array[which].tobytes() == dense[which].tobytes(), f"{kind}: other bits in rows read alone"
    found: dict[str, Any] = {"stored": array.nbytes_stored, "raw": dense.nbytes}
    return found | {"read": in_turns(partial(read, array), partial(read, dense), READ_ROUNDS)}


if __name__ == "__main__":
    _, kind = sys.argv[1:]
    print(json.dumps(speed(kind)))
