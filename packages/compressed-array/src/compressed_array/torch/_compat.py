"""What users of sb3-extra-buffers expect besides arrays: dtypes for observations, and an estimate of a heap's size."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch

from compressed_array.dtypes import find_buffer_dtypes
from compressed_array.registry import parse_shorthand
from compressed_array.torch._array import DeviceArray
from compressed_array.torch._dtypes import as_torch_dtype, numpy_dtype_to_torch, torch_dtype_to_numpy

# What stacks of four frames of MsPacman take of their size, as `benchmarks/device.py` prints it. Other codecs: a third.
USUAL = {"auto": 0.03, "delta": 0.03, "rle": 0.3, "rle-jit": 0.3, "none": 1.0}
OTHERS = 1 / 3


def estimate_total_heap_bytes(
    n_cells: int,
    flat_len: Any,
    elem_type: Any = torch.uint8,
    runs_type: Any = None,
    compression_method: str = "rle",
    *,
    measured: DeviceArray | None = None,
) -> int:
    """Returns about how many bytes observations will take on a device. It is for people: no heap is sized by it.

    Args:
        n_cells: How many observations there will be.
        flat_len: How many elements each has, or its shape.
        elem_type: The dtype of its elements, of torch or numpy.
        runs_type: Accepted for users of sb3-extra-buffers, and changes nothing.
        compression_method: The name of a codec.
        measured: An array that holds some of them already, to go by what those take; without it, by what Atari's do.

    >>> from compressed_array.torch import estimate_total_heap_bytes
    >>> estimate_total_heap_bytes(1000, (4, 84, 84), compression_method="none")
    28224000
    """
    if measured is not None and (written := measured.count_written()):
        return int(n_cells * measured.nbytes_stored / written)
    elements = flat_len if isinstance(flat_len, int) else prod(int(n) for n in flat_len)
    name = compression_method if compression_method == "auto" else parse_shorthand(compression_method)["id"]
    return int(n_cells * elements * as_torch_dtype(elem_type).itemsize * USUAL.get(name, OTHERS))


def find_gpu_buffer_dtypes(
    obs_shape: Any, elem_dtype: Any = torch.uint8, compression_method: str = "rle"
) -> dict[str, Any]:
    """Returns the torch dtypes of an observation's elements and of their count: {"elem_type", "runs_type"}.

    Run lengths are of two bytes at least on a device; otherwise it is `find_buffer_dtypes`.

    Args:
        obs_shape: The shape of an observation, or its space; for a dict of spaces there are dtypes for each.
        elem_dtype: The dtype of its elements, of torch or numpy.
        compression_method: The name of a codec.

    >>> from compressed_array.torch import find_gpu_buffer_dtypes
    >>> find_gpu_buffer_dtypes((84, 84))
    {'elem_type': torch.uint8, 'runs_type': torch.uint16}
    """
    found = find_buffer_dtypes(obs_shape, torch_dtype_to_numpy(as_torch_dtype(elem_dtype)), compression_method)
    return _as_torch(found)


def _as_torch(found: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(found.get("runs_type"), np.dtype):
        return {key: _as_torch(part) for key, part in found.items()}
    runs = max(found["runs_type"], np.dtype(np.uint16), key=lambda dtype: dtype.itemsize)
    return {"elem_type": numpy_dtype_to_torch(found["elem_type"]), "runs_type": numpy_dtype_to_torch(runs)}
