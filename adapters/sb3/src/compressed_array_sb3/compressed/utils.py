"""Compatibility only: the one name of `sb3_extra_buffers.compressed.utils` that its users import."""

from compressed_array_sb3 import find_smallest_dtype

__all__ = ["find_smallest_dtype"]
