"""Compatibility only: the names of `sb3_extra_buffers.compressed.compressed_replay`."""

from compressed_array_sb3 import CompressedDictReplayBuffer, CompressedReplayBuffer

__all__ = ["CompressedDictReplayBuffer", "CompressedReplayBuffer"]
