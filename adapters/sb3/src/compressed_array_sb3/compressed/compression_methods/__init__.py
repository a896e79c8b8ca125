"""Compatibility only: the names of `sb3_extra_buffers.compressed.compression_methods`."""

from compressed_array_sb3.compressed.compression_methods.compression_methods import (
    COMPRESSION_METHOD_MAP,
    has_igzip,
    has_lz4,
    has_numba,
    has_zstd,
)

__all__ = ["COMPRESSION_METHOD_MAP", "has_igzip", "has_lz4", "has_numba", "has_zstd"]
