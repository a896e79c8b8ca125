"""Making compressed arrays: `zeros`, `full`, `compress`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.array import CompressedArray, check_item_ndim
from compressed_array._array.functions import decoded
from compressed_array._runtime.chunks import boxes
from compressed_array._stores.protocol import Store


def zeros(
    shape: int | tuple[int, ...],
    dtype: npt.DTypeLike = float,
    *,
    item_ndim: int | None = None,
    codec: Any = "auto",
    store: Store | None = None,
) -> CompressedArray:
    """Returns an array of zeros, which takes no space until it is written to.

    Args:
        shape: The axes that count items, followed by those of an item.
        dtype: Of any kind but object.
        item_ndim: How many of the last axes make one item, the unit that is compressed and read; all but the first, if
            left out.
        codec: A name such as "zstd-3", a codec, or "auto", which looks at the data and picks.
        store: `other.store`, to keep what this array has in common with another, of such items, once.

    >>> ring = zeros((1000, 84, 84), "uint8", codec="gzip")
    >>> ring[3] = 7
    >>> int(ring[3].max()), ring.nbytes_stored < ring.nbytes / 100
    (7, True)
    """
    return CompressedArray(shape, dtype, item_ndim=item_ndim, codec=codec, store=store)


def full(
    shape: int | tuple[int, ...],
    fill_value: Any,
    dtype: npt.DTypeLike | None = None,
    *,
    item_ndim: int | None = None,
    codec: Any = "auto",
) -> CompressedArray:
    """Returns an array of one value, which is kept once.

    Args:
        shape: The axes that count items, followed by those of an item.
        fill_value: A value that can be broadcast to an item.
        dtype: The value's own, if left out.
        item_ndim: How many of the last axes make one item, the unit that is compressed and read; all but the first, if
            left out.
        codec: A name such as "zstd-3", a codec, or "auto", which looks at the data and picks.

    >>> full((1000, 84, 84), 7, "uint8")[999, 0, :3]
    array([7, 7, 7], dtype=uint8)
    """
    array = CompressedArray(
        shape, np.asarray(fill_value).dtype if dtype is None else dtype, item_ndim=item_ndim, codec=codec
    )
    array[...] = fill_value
    return array


def compress(array: npt.ArrayLike, *, item_ndim: int | None = None, codec: Any = "auto") -> CompressedArray:
    """Returns a compressed copy of an array.

    Args:
        array: Anything that numpy takes for an array. One that is compressed is compressed again, block by block.
        item_ndim: How many of the last axes make one item, the unit that is compressed and read; all but the first, if
            left out.
        codec: A name such as "zstd-3", a codec, or "auto", which looks at the data and picks.

    >>> compress(np.zeros((50, 4, 4)), codec="gzip").read().sum()
    np.float64(0.0)
    """
    source: Any = array if isinstance(array, CompressedArray) else np.asarray(decoded(array))
    if item_ndim is None and isinstance(source, CompressedArray):
        item_ndim = len(source.item_shape)
    result = CompressedArray(source.shape, source.dtype, item_ndim=item_ndim, codec=codec)
    grid = result.shape[: result.ndim - check_item_ndim(item_ndim, result.ndim)]
    for box in boxes(grid, result.nbytes // max(result.cells.numbers.size, 1)):
        result[(*box, ...)] = source[(*box, ...)]
    return result
