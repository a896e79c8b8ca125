"""`OutputPool`: memory for results, lent again when the last array on an earlier result is gone.

Fresh memory costs a page fault every 4 KB: for a batch of images that takes as long as decoding them does, and a
program that samples drops a batch for every one it draws. All arrays of a process share what is kept for this.
"""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from compressed_array._runtime.types import Bytes, Dense

# Below, the allocator has memory at hand; above, two batches of observations and next observations would not fit.
SMALLEST, LARGEST = 64 * 1024, 8 * 1024 * 1024
MOST = 4 * LARGEST


class OutputPool:
    """Lends memory for batches of some megabytes at the most: `most` bytes, lent or not."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._free: deque[Bytes] = deque()
        self._lent: dict[int, tuple[weakref.ref[Dense], int]] = {}  # and how many bytes

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks. Added up each time: an interrupt would leave a running count wrong for good."""
        lent = sum(nbytes for _, nbytes in self._lent.copy().values())
        return lent + sum(block.nbytes for block in self._free.copy())

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Dense:
        """Returns an uninitialised array, in memory of its own where there is none to lend."""
        nbytes = prod(shape) * dtype.itemsize
        block = self._block(nbytes) if SMALLEST <= nbytes <= LARGEST else None
        if block is None:
            return np.empty(shape, dtype)
        # On a memoryview, not on the block itself: numpy lets a view of a view refer to the array that has the memory,
        # and then nothing would tell whether the one in between is still looked at.
        whole = np.frombuffer(block.data, dtype)
        self._lent[id(block)] = weakref.ref(whole, partial(_take_back, block, self._lent, self._free)), nbytes
        return whole.reshape(shape)

    def _block(self, nbytes: int) -> Bytes | None:
        if self._lock.locked():  # better memory of its own than a wait, and a handler must not wait at all
            return None
        with self._lock:
            for _ in range(len(self._free)):
                block = self._free.pop()
                if block.nbytes == nbytes:
                    return block
                self._free.appendleft(block)
            while self._free and self.nbytes + nbytes > self._most:
                self._free.popleft()
            return np.empty(nbytes, np.uint8) if self.nbytes + nbytes <= self._most else None


def _take_back(block: Bytes, lent: dict[int, Any], back: deque[Bytes], _: object) -> None:
    # In any thread, at any point: nothing here may lock, and nothing may be a global that is gone when Python ends.
    del lent[id(block)]
    back.append(block)


_pool = OutputPool()


def lend(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Dense:
    """Returns an uninitialised array for a batch, whose memory the next batch gets when the last array on it is gone.

    Args:
        shape: The shape of the array.
        dtype: Its dtype.

    >>> from compressed_array.sampling import batch_memory
    >>> batch_memory((32, 84, 84), np.dtype(np.uint8)).shape
    (32, 84, 84)
    """
    return _pool.lend(shape, dtype)
