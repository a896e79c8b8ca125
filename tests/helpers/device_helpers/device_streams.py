"""Streams for the tests of arrays on a device, and a plain tensor beside each array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import compressed_array as ca
from compressed_array.torch import DeviceArray
from compressed_array.torch._store import DeviceStore
from compressed_array.torch._sync import outside_inference_mode
from core_helpers.streams import Stacked

CODECS = ["delta", "rle", "gzip3", "none", *(["zstd-3"] if ca.has_zstd() else [])]


@outside_inference_mode
def sweep(store: DeviceStore) -> None:
    """Frees what frames take that are not needed, as a store does by itself once in a while."""
    with store.lock, store.guard:
        if store.frames is not None:
            store.frames.sweep()


class Twins:
    """Observations and next observations on one store, and the two plain tensors they stand for."""

    def __init__(self, codec: Any, rows: int, stream: Stacked, **options: Any) -> None:
        item = stream.items()
        self.stream, self.rows, self.at = stream, rows, 0
        shape = (rows, *item.shape)
        first = DeviceArray(shape, item_ndim=item.ndim - 1, codec=codec, **options)
        second = DeviceArray(
            shape, item_ndim=item.ndim - 1, **({"store": first.store} if first.store else {"codec": codec})
        )
        self.arrays = [first, second]
        self.plains = [torch.zeros(shape, dtype=torch.uint8) for _ in range(2)]

    def add(self, steps: int) -> None:
        for step in self.stream.steps(steps):
            for array, plain, items in zip(self.arrays, self.plains, step[:2], strict=True):
                array[self.at] = torch.from_numpy(items)
                plain[self.at] = torch.from_numpy(items)
            self.at = (self.at + 1) % self.rows

    def check(self) -> None:
        for array, plain in zip(self.arrays, self.plains, strict=True):
            assert torch.equal(array[:], plain)


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor, whatever its dtype."""
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def random_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Any bits at all: NaNs of every payload, negative zeros."""
    rng = np.random.default_rng(seed)
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    data = rng.integers(0, 256, (*shape, dtype.itemsize)).astype(np.uint8)
    return torch.from_numpy(data).view(dtype).reshape(shape)
