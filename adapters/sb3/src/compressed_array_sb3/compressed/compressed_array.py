"""Compatibility only: the names of `sb3_extra_buffers.compressed.compressed_array`."""

from compressed_array_sb3 import CompressedArray

__all__ = ["CompressedArray"]
