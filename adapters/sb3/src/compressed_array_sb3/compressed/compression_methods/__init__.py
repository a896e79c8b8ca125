"""The names of `sb3_extra_buffers.compressed.compression_methods` that its users need."""

from compressed_array_sb3 import has_igzip as has_igzip
from compressed_array_sb3 import has_lz4 as has_lz4
from compressed_array_sb3 import has_numba as has_numba
from compressed_array_sb3 import has_zstd as has_zstd
