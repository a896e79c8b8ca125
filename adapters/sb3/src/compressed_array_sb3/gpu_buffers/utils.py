"""Compatibility only: the names of `sb3_extra_buffers.gpu_buffers.utils`."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from compressed_array import find_smallest_dtype
from compressed_array.torch import estimate_total_heap_bytes, numpy_dtype_to_torch, torch_dtype_to_numpy

__all__ = [
    "estimate_max_slot_bytes",
    "estimate_total_heap_bytes",
    "find_smallest_dtype",
    "numpy_dtype_to_torch",
    "torch_dtype_to_numpy",
]

# How many bytes a heap may need for a record beside its own, and the multiple that it rounds sizes up to.
OVERHEAD = 64


def estimate_max_slot_bytes(
    flat_len: Any,
    elem_type: Any = torch.uint8,
    runs_type: Any = None,
    compression_method: str = "rle",
    overalloc_factor: float = 1.5,
    compresslevel: int | None = None,
) -> int:
    """Returns how many bytes an observation takes at the most, by any method.

    An observation that does not shrink is kept uncompressed, so this is the size of one and a little more. Here the
    size of a heap need not be known beforehand.

    Args:
        flat_len: How many elements an observation has, or its shape.
        elem_type: Their dtype, of torch or numpy.
        runs_type: Ignored.
        compression_method: Ignored.
        overalloc_factor: Ignored.
        compresslevel: Ignored.

    >>> estimate_max_slot_bytes((84, 84))
    7120
    """
    elements = flat_len if isinstance(flat_len, int) else prod(int(n) for n in flat_len)
    dtype = elem_type if isinstance(elem_type, torch.dtype) else numpy_dtype_to_torch(elem_type)
    return int(elements * dtype.itemsize) + OVERHEAD
