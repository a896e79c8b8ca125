"""Buffers whose observations lie compressed on a torch device, for SBX and for loops of one's own in JAX."""

from __future__ import annotations

from typing import Any

import torch

import compressed_array_sb3 as cab
from compressed_array_sb3.gpu import GpuBuffer
from compressed_array_sbx._mixin import ForSbx
from compressed_array_sbx._sampling import JaxSampling

__all__ = ["GpuDictReplayBuffer", "GpuDictRolloutBuffer", "GpuReplayBuffer", "GpuRolloutBuffer"]


class OnDevice(ForSbx, GpuBuffer):
    """Observations on `buffer_device`. SBX has samples brought to the host; `sample_jax` leaves them where they are.

    Args:
        buffer_device: Where observations are kept: a GPU if torch has one, since SBX's own `device` is the CPU.
    """

    def __init__(self, *args: Any, buffer_device: torch.device | str = "auto", **kwargs: Any) -> None:
        super().__init__(*args, buffer_device=buffer_device, **kwargs)


class GpuReplayBuffer(JaxSampling, OnDevice, cab.GpuReplayBuffer):
    """`ReplayBuffer` with compressed observations on a device."""


class GpuDictReplayBuffer(JaxSampling, OnDevice, cab.GpuDictReplayBuffer):
    """`DictReplayBuffer` with compressed observations on a device."""


class GpuRolloutBuffer(OnDevice, cab.GpuRolloutBuffer):
    """`RolloutBuffer` with compressed observations on a device."""


class GpuDictRolloutBuffer(OnDevice, cab.GpuDictRolloutBuffer):
    """`DictRolloutBuffer` with compressed observations on a device."""
