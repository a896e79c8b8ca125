"""What codecs are tested with: buffers they tend to get wrong, and payloads that nobody wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

DTYPES = ("?", "u1", "i2", "<u4", ">i4", "u8", "f2", "f4", ">f8", "c16", "M8[us]", "S5", "U3", "i2,f4")


def sample_buffers() -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Named arrays that codecs tend to get wrong: empty, tiny, constant, random, almost constant, of every dtype."""
    rng = np.random.default_rng(7)
    yield "empty", np.empty(0, np.uint8)
    yield "one byte", np.array([7], np.uint8)
    for size in (2, 7, 8, 9, 255, 256, 257, 271, 272, 543, 4096, 70_000):
        yield f"{size} zeros", np.zeros(size, np.uint8)
        yield f"{size} random bytes", rng.integers(0, 256, size, np.uint8)
        yield f"{size} bits", rng.integers(0, 2, size, np.uint8)
    yield "ramp", np.arange(70_000, dtype=np.uint32)
    yield "image", np.repeat(np.repeat(rng.integers(0, 9, (4, 12, 14), np.uint8), 7, 1), 6, 2)
    yield "nan payloads", np.array([0x7FF8000000000001, 0x7FF8000000000002, 1 << 63, 0], np.uint64).view(np.float64)
    yield "signed zeros", np.array([0.0, -0.0, -0.0, 0.0], np.float32)
    yield "a scalar", np.array(3.5)
    for code in DTYPES:
        dtype = np.dtype(code)
        yield f"items of {code}", np.frombuffer(rng.bytes(60 * dtype.itemsize), np.uint8).view(dtype).reshape(3, 4, 5)
        yield f"zeros of {code}", np.zeros((3, 40), dtype)


def mutations(payload: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Payloads that no encoder wrote: cut, extended, with bits flipped, bytes replaced or stretches swapped."""
    rng = np.random.default_rng(seed)
    yield b""
    yield payload + b"\0"
    yield payload + payload
    for k in range(count):
        data = bytearray(payload)
        where = int(rng.integers(0, max(len(data), 1)))
        if k % 4 == 0:
            data = data[:where]
        elif k % 4 == 1 and data:
            data[where] ^= 1 << int(rng.integers(0, 8))
        elif k % 4 == 2 and data:
            data[where] = int(rng.choice([0, 1, 127, 128, 254, 255]))
        else:
            data[where : where + 8] = rng.bytes(8)
        if bytes(data) != payload:
            yield bytes(data)
