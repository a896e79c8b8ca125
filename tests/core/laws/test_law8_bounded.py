"""Law 8: nothing needs a size guess. Heaps grow with the data and shrink when it dies; no pass takes all the memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import _heap
from compressed_array._runtime import chunks
from core_helpers.arrays import assert_same

pytestmark = pytest.mark.long


def test_a_ring_neither_grows_nor_moves_anything(
    codec: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    moved: list[int] = []
    real = ca.CompressedArray(1).store.__class__._rewrite
    monkeypatch.setattr("compressed_array._stores.cells.CellStore._rewrite", lambda *a: moved.append(1) or real(*a))
    array = ca.zeros((400, 4, 2048), np.uint8, item_ndim=1, codec=codec)
    frames = [(rng.random((4, 2048)) < 0.3).astype(np.uint8) for _ in range(16)]
    held = []
    for step in range(1200):
        array[step % 400] = frames[step % 16]
        if step >= 400 and step % 100 == 0:
            held.append(array.nbytes_stored)
    learning = 512 * 1024 if codec == "delta-zstd" else 0  # the dictionary, once there is one
    assert max(held) <= 1.02 * min(held) + 2 * _heap.SMALLEST_SEGMENT + learning
    assert not moved


def test_random_overwrites_leave_little_garbage(codec: str, rng: np.random.Generator) -> None:
    frames = (rng.random((64, 4096)) < 0.2).astype(np.uint8) * rng.integers(1, 250, (64, 4096)).astype(np.uint8)
    array = ca.zeros((2000, 4096), np.uint8, codec=codec)
    for low in range(0, 2000, 50):
        array[low : low + 50] = frames[rng.integers(0, 64, 50)]
    fresh = array.nbytes_stored
    for _ in range(300):
        array[rng.integers(0, 2000, 40)] = frames[rng.integers(0, 64, 40)]
    assert array.nbytes_stored <= 1.6 * fresh + 3 * _heap.SMALLEST_SEGMENT


def test_overwriting_with_nothing_gives_the_memory_back(codec: str, rng: np.random.Generator) -> None:
    array = ca.compress(rng.integers(0, 256, (500, 8192)).astype(np.uint8), codec=codec)
    assert array.nbytes_stored > 4_000_000
    array[...] = 0
    assert array.nbytes_stored < 1_100_000  # one spare segment and the tables
    array[:] = np.eye(500, 8192, dtype=np.uint8)
    assert_same(array, np.eye(500, 8192, dtype=np.uint8))


REDUCTIONS: list[Callable[[Any], Any]] = [
    lambda a: a.sum(), lambda a: a.mean(axis=0), lambda a: np.max(a, axis=(0, 2)), lambda a: a.std(), np.argmax,
    np.count_nonzero, lambda a: np.array_equal(a, a), np.ptp, lambda a: a.any(axis=1).shape, lambda a: a[:, :, 0].sum(),
    lambda a: ca.compress(a, codec="rle")[0, 0, 0],
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(REDUCTIONS)))
def test_a_pass_over_everything_keeps_a_block_at_a_time(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 MB of logical array, 64 KB blocks: far less than the whole is ever decoded at once."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64 * 1024)
    array = ca.full((256, 4, 4096), 3, np.uint8, item_ndim=1, codec="rle")
    array[7, 1] = np.arange(4096) % 256
    REDUCTIONS[index](array[:8])
    tracemalloc.start()
    REDUCTIONS[index](array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 512 * 1024
