"""The names of `sb3_extra_buffers.gpu_buffers.compression_methods`."""

from compressed_array.torch import has_zstd as has_zstd
