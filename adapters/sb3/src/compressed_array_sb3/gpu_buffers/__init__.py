"""Compatibility only: the names of `sb3_extra_buffers.gpu_buffers`, for programs that change only the package."""

from compressed_array.torch import DeviceArray, find_gpu_buffer_dtypes, has_zstd
from compressed_array_sb3.gpu import (
    GpuBuffer,
    GpuDictReplayBuffer,
    GpuDictRolloutBuffer,
    GpuReplayBuffer,
    GpuRolloutBuffer,
)

BaseGpuBuffer = GpuBuffer

__all__ = [
    "BaseGpuBuffer",
    "DeviceArray",
    "GpuDictReplayBuffer",
    "GpuDictRolloutBuffer",
    "GpuReplayBuffer",
    "GpuRolloutBuffer",
    "find_gpu_buffer_dtypes",
    "has_zstd",
]
