"""Compatibility only: the names of `sb3_extra_buffers.compressed.compression_methods.compression_methods_numba`."""

from compressed_array import init_jit
from compressed_array_sb3.compressed.compression_methods.compression_methods import pair

__all__ = ["init_jit", "rle_numba_decompress"]

rle_numba_decompress = pair("rle-jit").decompress
