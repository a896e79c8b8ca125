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
    """An array of zeros, which takes no space until it is written to. The last `item_ndim` axes make one item."""
    return CompressedArray(shape, dtype, item_ndim=item_ndim, codec=codec, store=store)


def full(
    shape: int | tuple[int, ...],
    fill_value: Any,
    dtype: npt.DTypeLike | None = None,
    *,
    item_ndim: int | None = None,
    codec: Any = "auto",
) -> CompressedArray:
    """An array of one value, kept once."""
    array = CompressedArray(
        shape, np.asarray(fill_value).dtype if dtype is None else dtype, item_ndim=item_ndim, codec=codec
    )
    array[...] = fill_value
    return array


def compress(array: npt.ArrayLike, *, item_ndim: int | None = None, codec: Any = "auto") -> CompressedArray:
    """A compressed copy of an array. One that is compressed already is compressed anew, a block at a time."""
    source: Any = array if isinstance(array, CompressedArray) else np.asarray(decoded(array))
    if item_ndim is None and isinstance(source, CompressedArray):
        item_ndim = len(source.item_shape)
    result = CompressedArray(source.shape, source.dtype, item_ndim=item_ndim, codec=codec)
    grid = result.shape[: result.ndim - check_item_ndim(item_ndim, result.ndim)]
    for box in boxes(grid, result.nbytes // max(result.cells.numbers.size, 1)):
        result[(*box, ...)] = source[(*box, ...)]
    return result
