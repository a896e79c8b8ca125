"""Compatibility only: `sb3_extra_buffers.gpu_buffers.compression_methods`, with functions that take and give arrays."""

from compressed_array.torch import has_zstd
from compressed_array_sb3.compressed.compression_methods import COMPRESSION_METHOD_MAP

__all__ = ["COMPRESSION_METHOD_MAP", "has_zstd"]
