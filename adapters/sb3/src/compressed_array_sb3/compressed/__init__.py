"""Compatibility only: the names of `sb3_extra_buffers.compressed`, for programs that change only the package."""

from compressed_array_sb3 import (
    CompressedArray,
    CompressedDictReplayBuffer,
    CompressedDictRolloutBuffer,
    CompressedReplayBuffer,
    CompressedRolloutBuffer,
    DummyCls,
    find_buffer_dtypes,
    find_smallest_dtype,
    has_igzip,
    has_numba,
    init_jit,
)

__all__ = [
    "CompressedArray",
    "CompressedDictReplayBuffer",
    "CompressedDictRolloutBuffer",
    "CompressedReplayBuffer",
    "CompressedRolloutBuffer",
    "DummyCls",
    "find_buffer_dtypes",
    "find_smallest_dtype",
    "has_igzip",
    "has_numba",
    "init_jit",
]
