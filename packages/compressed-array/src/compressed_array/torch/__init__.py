"""Compressed arrays on a torch device: items go in and come out as tensors, and lie there compressed meanwhile.

>>> import torch
>>> from compressed_array.torch import DeviceArray
>>> ring = DeviceArray((1000, 8, 4, 84, 84), torch.uint8, item_ndim=3, device="cpu")
>>> ring[0] = torch.ones(8, 4, 84, 84, dtype=torch.uint8)
>>> ring[torch.tensor([0, 1]), torch.tensor([3, 3])].amax((1, 2, 3)).tolist()
[1, 0]
"""

try:
    import torch as _torch  # noqa: F401  # first, so that its absence is told before it is met
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "compressed_array.torch needs torch: pip install 'compressed-array[torch]'", name="torch"
    ) from error

from compressed_array.registry import has_zstd as has_zstd
from compressed_array.torch._array import DeviceArray as DeviceArray
from compressed_array.torch._compat import estimate_total_heap_bytes as estimate_total_heap_bytes
from compressed_array.torch._compat import find_gpu_buffer_dtypes as find_gpu_buffer_dtypes
from compressed_array.torch._dtypes import numpy_dtype_to_torch as numpy_dtype_to_torch
from compressed_array.torch._dtypes import torch_dtype_to_numpy as torch_dtype_to_numpy
from compressed_array.torch._heap import TorchHeap as TorchHeap
from compressed_array.torch._values import cast_exactly as cast_exactly

__all__ = [
    "DeviceArray",
    "TorchHeap",
    "cast_exactly",
    "estimate_total_heap_bytes",
    "find_gpu_buffer_dtypes",
    "has_zstd",
    "numpy_dtype_to_torch",
    "torch_dtype_to_numpy",
]
