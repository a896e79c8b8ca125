"""The names of `sb3_extra_buffers.vec_buf`: several rollout buffers that get the same calls."""

from compressed_array_sb3.vec_buf.buffers import DummyVecRolloutBuffer

__all__ = ["DummyVecRolloutBuffer"]
