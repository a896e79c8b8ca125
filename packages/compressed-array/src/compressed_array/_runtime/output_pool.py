"""Memory for answers, lent again when the last to look at an earlier answer is gone.

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
    """Blocks of memory, `most` bytes of them, lent or not."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._back: deque[Bytes] = deque()
        self._lent: dict[int, tuple[weakref.ref[Dense], int]] = {}  # and how many bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks. Added up anew: a count that is kept would be wrong for good after an interrupt."""
        lent = sum(nbytes for _, nbytes in self._lent.copy().values())
        return lent + sum(block.nbytes for block in self._back.copy())

    def lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Dense:
        """A new array, of whatever was there before; plain memory if there is none to lend."""
        nbytes = prod(shape) * dtype.itemsize
        block = self._block(nbytes) if SMALLEST <= nbytes <= LARGEST else None
        if block is None:
            return np.empty(shape, dtype)
        # On a memoryview, not on the block itself: numpy lets a view of a view refer to the array that has the memory,
        # and then nothing would tell whether the one in between is still looked at.
        whole = np.frombuffer(block.data, dtype)
        self._lent[id(block)] = weakref.ref(whole, partial(_take_back, block, self._lent, self._back)), nbytes
        return whole.reshape(shape)

    def _block(self, nbytes: int) -> Bytes | None:
        if self._lock.locked():  # whoever would have to wait is better off with memory of its own; a handler must not
            return None
        with self._lock:
            for _ in range(len(self._back)):
                block = self._back.pop()
                if block.nbytes == nbytes:
                    return block
                self._back.appendleft(block)
            while self._back and self.nbytes + nbytes > self._most:
                self._back.popleft()
            return np.empty(nbytes, np.uint8) if self.nbytes + nbytes <= self._most else None


def _take_back(block: Bytes, lent: dict[int, Any], back: deque[Bytes], _: object) -> None:
    # In any thread, at any point: nothing here may lock, and nothing may be a global that is gone when Python ends.
    del lent[id(block)]
    back.append(block)


_pool = OutputPool()


def lend(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Dense:
    """Returns a new array for a batch, of whatever was there before, in memory that all arrays of the process share.

    Args:
        shape: The shape of the array.
        dtype: Its dtype.
    """
    return _pool.lend(shape, dtype)
