"""Memory for batches that JAX takes as it is: aligned, and used again when the last who looks at a batch is gone.

JAX on a CPU shares memory that begins at a multiple of 64 bytes, and copies any other. Memory that is fresh costs a
page fault every 4 KB, and the batches of one `train()` can be tens of megabytes.
"""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Block = npt.NDArray[np.uint8]
ALIGNED = 64
SMALLEST = 64 * 1024  # below, the allocator has memory at hand
MOST = 128 * 1024 * 1024  # that is kept while nobody uses it: observations and next observations of two large draws


class OutputPool:
    """Aligned memory. At most `most` bytes of it are kept for later."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._back: deque[Block] = deque()
        self._lent: dict[int, weakref.ref[Array]] = {}

    @property
    def nbytes(self) -> int:
        """Returns bytes that are kept and not lent."""
        return sum(block.nbytes for block in self._back.copy())

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Returns a new array, of whatever was there before."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes < SMALLEST:
            return aligned(nbytes).view(dtype).reshape(shape)
        block = self._kept(nbytes)
        if block is None:
            block = aligned(nbytes)
        # On a memoryview, not on the block: numpy lets a view of a view refer to the array that has the memory, and
        # then nothing would tell whether the one in between is still looked at.
        whole = np.frombuffer(block.data, dtype)
        self._lent[id(block)] = weakref.ref(whole, partial(_take_back, block, self._lent, self._back, self._most))
        return whole.reshape(shape)

    def _kept(self, nbytes: int) -> Block | None:
        for _ in range(len(self._back)):
            try:
                block = self._back.pop()
            except IndexError:  # another thread has taken the last
                return None
            if block.nbytes == nbytes:
                return block
            self._back.appendleft(block)
        return None


def aligned(nbytes: int) -> Block:
    memory = np.empty(nbytes + ALIGNED, np.uint8)
    skipped = -memory.ctypes.data % ALIGNED
    return memory[skipped : skipped + nbytes]


def _take_back(block: Block, lent: dict[int, Any], back: deque[Block], most: int, _: object) -> None:
    # In any thread, at any point: nothing here may lock. What was given back first goes first.
    lent.pop(id(block), None)
    back.append(block)
    while sum(kept.nbytes for kept in back.copy()) > most and back:
        back.popleft()


lend = OutputPool().lend
