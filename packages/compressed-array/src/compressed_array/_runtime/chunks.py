"""Going through many items a bounded number of bytes at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

CHUNK_BYTES = 32 * 1024 * 1024


def ranges(count: int, nbytes_each: int) -> Iterator[tuple[int, int]]:
    """Yields the ends of parts of `range(count)` that are at most `CHUNK_BYTES` each, or one item."""
    step = max(CHUNK_BYTES // max(nbytes_each, 1), 1)
    for low in range(0, count, step):
        yield low, min(low + step, count)


def boxes(grid: tuple[int, ...], nbytes_each: int) -> Iterator[tuple[slice, ...]]:
    """Yields blocks of a grid of at most `CHUNK_BYTES` each, or one cell, in C order of their corners."""
    block = list(grid)
    cells = max(CHUNK_BYTES // max(nbytes_each, 1), 1)
    for axis in range(len(grid)):  # the leading axes are cut first: what lies together in memory stays together
        inner = 1
        for length in block[axis + 1 :]:
            inner *= length
        block[axis] = min(block[axis], max(cells // max(inner, 1), 1))
        if block[axis] * inner <= cells:
            break
    corners = (range(0, length, max(step, 1)) for length, step in zip(grid, block, strict=True))
    for corner in itertools.product(*corners):
        yield tuple(slice(low, low + step) for low, step in zip(corner, block, strict=True))
