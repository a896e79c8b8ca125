"""Compatibility only: the names of `sb3_extra_buffers.compressed.base`."""

from compressed_array_sb3 import DummyCls, find_buffer_dtypes, find_smallest_dtype, has_igzip, has_numba, init_jit
from compressed_array_sb3._mixin import CompressedBuffer as BaseCompressedBuffer
from compressed_array_sb3.compressed.compression_methods import COMPRESSION_METHOD_MAP

__all__ = [
    "COMPRESSION_METHOD_MAP",
    "BaseCompressedBuffer",
    "DummyCls",
    "find_buffer_dtypes",
    "find_smallest_dtype",
    "has_igzip",
    "has_numba",
    "init_jit",
]
