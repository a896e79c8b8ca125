"""Compatibility only: the names of `sb3_extra_buffers.compressed.compression_methods.compression_methods_zstd`."""

from compressed_array_sb3.compressed.compression_methods.compression_methods import pair

__all__ = ["zstd_compress", "zstd_decompress"]

zstd_compress, zstd_decompress = pair("zstd")
