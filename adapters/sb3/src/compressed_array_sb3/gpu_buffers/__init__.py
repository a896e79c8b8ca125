"""The names of `sb3_extra_buffers.gpu_buffers`, so that its users change the name of the package and nothing else."""

from compressed_array.torch import DeviceArray as DeviceArray
from compressed_array.torch import find_gpu_buffer_dtypes as find_gpu_buffer_dtypes
from compressed_array.torch import has_zstd as has_zstd
from compressed_array_sb3.gpu import GpuDictReplayBuffer as GpuDictReplayBuffer
from compressed_array_sb3.gpu import GpuDictRolloutBuffer as GpuDictRolloutBuffer
from compressed_array_sb3.gpu import GpuReplayBuffer as GpuReplayBuffer
from compressed_array_sb3.gpu import GpuRolloutBuffer as GpuRolloutBuffer
