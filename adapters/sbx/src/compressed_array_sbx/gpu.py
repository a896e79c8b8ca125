"""Buffers whose observations lie compressed on a torch device, for SBX and for your own loops in JAX."""

from __future__ import annotations

from typing import Any

import torch

import compressed_array_sb3 as cab
from compressed_array_sb3.gpu import GpuBuffer
from compressed_array_sbx._mixin import ForSbx
from compressed_array_sbx._sampling import JaxSampling

__all__ = [
    "GpuDictNStepReplayBuffer",
    "GpuDictReplayBuffer",
    "GpuDictRolloutBuffer",
    "GpuNStepReplayBuffer",
    "GpuReplayBuffer",
    "GpuRolloutBuffer",
]


class OnDevice(ForSbx, GpuBuffer):
    """Keeps observations on `buffer_device`.

    `sample`, which SBX calls, brings samples to the host; `sample_jax` leaves them on the device.

    Args:
        buffer_device: Where observations are kept: a GPU if torch has one, since SBX's own `device` is the CPU.
    """

    def __init__(self, *args: Any, buffer_device: torch.device | str = "auto", **kwargs: Any) -> None:
        super().__init__(*args, buffer_device=buffer_device, **kwargs)


class GpuReplayBuffer(JaxSampling, OnDevice, cab.GpuReplayBuffer):
    """`ReplayBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer`, `GpuBuffer` and `JaxSampling`. Without a `buffer_device` observations
    are on a GPU if torch has one.
    """


class GpuDictReplayBuffer(JaxSampling, OnDevice, cab.GpuDictReplayBuffer):
    """`DictReplayBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer`, `GpuBuffer` and `JaxSampling`. Without a `buffer_device` observations
    are on a GPU if torch has one.
    """


class GpuNStepReplayBuffer(JaxSampling, OnDevice, cab.CompressedNStepReplayBuffer):
    """`NStepReplayBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer`, `GpuBuffer` and `JaxSampling`. Without a `buffer_device` observations
    are on a GPU if torch has one.
    """


class GpuDictNStepReplayBuffer(JaxSampling, OnDevice, cab.CompressedDictNStepReplayBuffer):
    """n-step returns for Dict observations, which are compressed on a device.

    It takes all arguments of `CompressedBuffer`, `GpuBuffer` and `JaxSampling`. Without a `buffer_device` observations
    are on a GPU if torch has one.
    """


class GpuRolloutBuffer(OnDevice, cab.GpuRolloutBuffer):
    """`RolloutBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer` and `GpuBuffer`. Without a `buffer_device` observations are on a GPU if
    torch has one.
    """


class GpuDictRolloutBuffer(OnDevice, cab.GpuDictRolloutBuffer):
    """`DictRolloutBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer` and `GpuBuffer`. Without a `buffer_device` observations are on a GPU if
    torch has one.
    """
