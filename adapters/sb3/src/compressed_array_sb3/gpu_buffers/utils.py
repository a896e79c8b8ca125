"""The names of `sb3_extra_buffers.gpu_buffers.utils`."""

from compressed_array import find_smallest_dtype as find_smallest_dtype
from compressed_array.torch import estimate_total_heap_bytes as estimate_total_heap_bytes
from compressed_array.torch import numpy_dtype_to_torch as numpy_dtype_to_torch
from compressed_array.torch import torch_dtype_to_numpy as torch_dtype_to_numpy
