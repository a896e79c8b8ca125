"""Which kind of store a new array gets, decided by its codec; and which kinds there are."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from compressed_array._stores.cells import CellStore
from compressed_array._stores.exports import KINDS
from compressed_array._stores.frames.store import FrameStore
from compressed_array._stores.protocol import Store
from compressed_array.codecs.delta import Delta
from compressed_array.registry import get_codec

# Streams of fewer items, or of larger ones, are not worth what a lane remembers of the last.
SHORTEST_STREAM, LARGEST_STREAMED = 32, 16 * 2**20

KINDS.update(cells=CellStore, frames=FrameStore)


def new_store(grid: tuple[int, ...], item_shape: tuple[int, ...], dtype: np.dtype[Any], codec: Any) -> Store:
    """Returns a store for an array that has such a grid of such items."""
    nbytes = prod(item_shape) * dtype.itemsize
    if isinstance(codec, str) and codec == "auto":
        lanes = grid[-1] if len(grid) > 1 else 1
        if prod(grid) >= SHORTEST_STREAM * lanes and 0 < nbytes <= LARGEST_STREAMED:
            return FrameStore(item_shape, dtype, codec)
        return CellStore(nbytes, dtype, codec)
    codec = get_codec(codec)
    return FrameStore(item_shape, dtype, codec) if isinstance(codec, Delta) else CellStore(nbytes, dtype, codec)
