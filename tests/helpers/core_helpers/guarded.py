"""Memory whose every neighbour is a page that nobody may touch. By Linux's mprotect."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np


class Guarded:
    """Memory between two pages that nobody may touch."""

    def __init__(self, nbytes: int) -> None:
        page = mmap.PAGESIZE
        room = -(-nbytes // page) * page
        self._memory = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for at in (0, page + room):
            assert libc.mprotect(self._memory.ctypes.data + at, page, 0) == 0
        self._inside = self._memory[page : page + room]

    def places(self, nbytes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The first and the last bytes between the pages."""
        return self._inside[:nbytes], self._inside[self._inside.size - nbytes :]

    def holding(self, data: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
        """Bytes, put against the page before and then against the page behind."""
        for place in self.places(data.size):
            place[:] = data
            yield place
