"""Reading the observations of one sample: what two arrays share is decoded once, into memory that tensors take over.

SB3 indexes `next_observations` and `observations` with the same rows and environments, one after the other, and copies
what it gets into tensors. Inside `reading`, the first of the two decodes both, and the copy is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import compressed_array as ca

Array = npt.NDArray[Any]


class ObservationArray(ca.CompressedArray):
    """Observations, compressed; a plain array wherever it is indexed by arrays."""

    def __getitem__(self, key: Any) -> Any:
        reads = _current.reads
        parts = None if reads is None else batch_key(key, self)
        if reads is None or parts is None:
            return super().__getitem__(key)
        return reads.decode(self, parts, is_pair=isinstance(key, tuple) and len(key) > len(parts))


Pairs = Sequence[tuple[ObservationArray, ObservationArray]]


class Reads:
    """What one sample has decoded so far, and who may have it."""

    def __init__(self, pairs: Pairs, device: torch.device) -> None:
        self._pairs, self._device = pairs, device
        self._ahead: list[tuple[ObservationArray, tuple[Array, ...], Array]] = []
        self._decoded: list[Array] = []
        self._given: list[Array] = []

    def decode(self, array: ObservationArray, parts: tuple[Array, ...], *, is_pair: bool) -> Array:
        """The items at `parts`. Only SB3's reads of whole transitions are pairs; those of goals, say, stand alone."""
        for i, (owner, known, items) in enumerate(self._ahead):
            if owner is array and all(a is b for a, b in zip(known, parts, strict=True)):
                del self._ahead[i]
                return items
        partner = self._partner(array) if is_pair else None
        shape = np.broadcast_shapes(*(part.shape for part in parts)) + array.item_shape
        items = self._memory(shape, array.dtype)
        if partner is None:
            return array.read(parts, items)
        others = self._memory(shape, array.dtype)
        ca.read_pair(array, partner, parts, (items, others))
        self._ahead.append((partner, parts, others))
        return items

    def take_over(self, array: Array) -> torch.Tensor | None:
        """A tensor on the memory of an array that was decoded here; the second who asks for it gets a copy."""
        if not any(decoded is array for decoded in self._decoded):
            return None
        tensor = torch.from_numpy(array)
        if any(given is array for given in self._given):
            tensor = tensor.clone()
        self._given.append(array)
        return tensor.to(self._device, non_blocking=True)

    def _partner(self, array: ObservationArray) -> ObservationArray | None:
        for first, second in self._pairs:
            if array is first or array is second:
                return second if array is first else first
        return None

    def _memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        # A copy to a GPU from pinned memory does not wait; torch does not reuse that memory before the copy is done.
        if self._device.type == "cuda":
            like = torch.from_numpy(np.empty(0, dtype)).dtype
            memory: Array = torch.empty(shape, dtype=like, pin_memory=True).numpy()
        else:
            memory = np.empty(shape, dtype)
        self._decoded.append(memory)
        return memory


class _Current(threading.local):
    reads: Reads | None = None


_current = _Current()


def current() -> Reads | None:
    """What this thread is reading for, if it is sampling."""
    return _current.reads


@contextmanager
def reading(pairs: Pairs, device: torch.device) -> Iterator[None]:
    """Reads of this thread belong to one sample for `device`."""
    before = _current.reads
    _current.reads = Reads(pairs, device)
    try:
        yield
    finally:
        _current.reads = before


def batch_key(key: Any, array: ObservationArray) -> tuple[Array, ...] | None:
    """The arrays of a key that picks whole items by one array of integers for each grid axis, else None."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) == len(array.grid_shape) + 1 and type(parts[-1]) is slice and parts[-1] == slice(None):
        parts = parts[:-1]
    if len(parts) != len(array.grid_shape):
        return None
    return parts if all(isinstance(p, np.ndarray) and p.dtype.kind in "iu" for p in parts) else None
