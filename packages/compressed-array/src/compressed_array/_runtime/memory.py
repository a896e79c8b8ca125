"""Memory that costs only what is touched of it, and goes back to the system when it is dropped."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

from compressed_array._runtime.types import Bytes

# Below this the allocator's memory is as good: it neither asks for large pages nor for anything from the system. Above,
# it would begin to keep what is freed.
LARGE = 128 * 1024
CACHE_LINE = 64  # bytes that a processor fetches at a time


def map_memory(nbytes: int) -> Bytes:
    """Returns zeroed memory straight from the system, which gets every page back when the array dies.

    Private, so that a forked child's writes stay its own; in small pages, so that what is untouched costs nothing.
    """
    if hasattr(mmap, "MAP_PRIVATE"):
        try:
            memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:  # how a mapping says that there is no memory
            raise MemoryError(f"no memory for a segment of {nbytes} bytes") from error
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    else:
        memory = mmap.mmap(-1, nbytes)
    return np.frombuffer(memory, np.uint8)


def scratch(nbytes: int) -> Bytes:
    """Returns memory for payloads that may take all of it and mostly take a tenth.

    numpy asks for large pages for arrays of this size, and each of those is cleared whole at the first byte written.
    """
    return map_memory(nbytes) if nbytes >= LARGE else np.empty(nbytes, np.uint8)


def return_free_memory() -> None:
    """Has the allocator give back to the system what it keeps for later, where it is glibc's.

    For after something rare that took megabytes for a moment: it looks through all that is free.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
