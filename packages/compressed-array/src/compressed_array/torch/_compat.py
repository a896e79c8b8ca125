"""A forecast of what a heap will take, for people: nothing is sized by it."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from compressed_array.registry import parse_shorthand
from compressed_array.torch._array import DeviceArray
from compressed_array.torch._dtypes import as_torch_dtype

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
    """About how many bytes `n_cells` observations will take, each of `flat_len` elements or of that shape.

    With `measured`, an array that holds some of them already, by what those take; without, by what Atari's do.
    `runs_type` is accepted for users of sb3-extra-buffers and changes nothing.
    """
    if measured is not None and (written := measured.count_written()):
        return int(n_cells * measured.nbytes_stored / written)
    elements = flat_len if isinstance(flat_len, int) else prod(int(n) for n in flat_len)
    name = compression_method if compression_method == "auto" else parse_shorthand(compression_method)["id"]
    return int(n_cells * elements * as_torch_dtype(elem_type).itemsize * USUAL.get(name, OTHERS))
