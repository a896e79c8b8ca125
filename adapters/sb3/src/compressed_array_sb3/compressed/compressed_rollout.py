"""Compatibility only: the names of `sb3_extra_buffers.compressed.compressed_rollout`."""

from compressed_array_sb3 import CompressedDictRolloutBuffer, CompressedRolloutBuffer

__all__ = ["CompressedDictRolloutBuffer", "CompressedRolloutBuffer"]
