"""The names of `sb3_extra_buffers.compressed.utils`, of which one is used by anybody."""

from compressed_array_sb3 import find_smallest_dtype

__all__ = ["find_smallest_dtype"]
