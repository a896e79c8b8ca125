"""Rollout buffers for SBX's PPO; the one for Dict observations is for your own policies, since SBX has none."""

from __future__ import annotations

import compressed_array_sb3 as cab
from compressed_array_sbx._mixin import ForSbx

__all__ = ["CompressedDictRolloutBuffer", "CompressedRolloutBuffer"]


class CompressedRolloutBuffer(ForSbx, cab.CompressedRolloutBuffer):
    """`RolloutBuffer` in a fraction of the memory, read without copies.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedDictRolloutBuffer(ForSbx, cab.CompressedDictRolloutBuffer):
    """`DictRolloutBuffer` in a fraction of the memory, read without copies.

    It takes all arguments of `CompressedBuffer`.
    """
