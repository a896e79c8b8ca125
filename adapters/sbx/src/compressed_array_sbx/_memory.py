"""Memory for batches that JAX takes without a copy: aligned, and lent again when the last array on it is gone.

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
MOST = 128 * 1024 * 1024  # bytes kept while no batch uses them: observations and next observations of two large draws


class AlignedPool:
    """Lends aligned memory for batches of any size. At most `most` bytes of it are kept for later.

    The core's pool (`compressed_array.sampling.batch_memory`) does not serve here: it aligns nothing, and does not lend
    more than a few megabytes at a time, while the batches of one `train()` can be far larger.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._free: deque[Block] = deque()
        self._lent: dict[int, weakref.ref[Array]] = {}

    @property
    def nbytes(self) -> int:
        """Returns how many bytes are kept for later, and not lent."""
        return sum(block.nbytes for block in self._free.copy())

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Returns an uninitialised array."""
        nbytes = prod(shape) * dtype.itemsize
        if nbytes < SMALLEST:
            return aligned(nbytes).view(dtype).reshape(shape)
        block = self._kept(nbytes)
        if block is None:
            block = aligned(nbytes)
        # On a memoryview, not on the block: numpy lets a view of a view refer to the array that has the memory, and
        # then nothing would tell whether the one in between is still looked at.
        whole = np.frombuffer(block.data, dtype)
        self._lent[id(block)] = weakref.ref(whole, partial(_take_back, block, self._lent, self._free, self._most))
        return whole.reshape(shape)

    def _kept(self, nbytes: int) -> Block | None:
        for _ in range(len(self._free)):
            try:
                block = self._free.pop()
            except IndexError:  # another thread has taken the last
                return None
            if block.nbytes == nbytes:
                return block
            self._free.appendleft(block)
        return None


def aligned(nbytes: int) -> Block:
    """Returns new memory that begins at an address from which JAX does not copy."""
    memory = np.empty(nbytes + ALIGNED, np.uint8)
    skipped = -memory.ctypes.data % ALIGNED
    return memory[skipped : skipped + nbytes]


def _take_back(block: Block, lent: dict[int, Any], free: deque[Block], most: int, _: object) -> None:
    # Called in any thread, at any point: nothing here may lock. What was given back first is freed first.
    lent.pop(id(block), None)
    free.append(block)
    while sum(kept.nbytes for kept in free.copy()) > most:
        try:
            free.popleft()
        except IndexError:  # another thread has freed the last
            return


lend = AlignedPool().lend
