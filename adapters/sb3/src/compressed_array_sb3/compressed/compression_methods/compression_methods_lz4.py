"""Compatibility only: the names of `sb3_extra_buffers.compressed.compression_methods.compression_methods_lz4`."""

from compressed_array_sb3.compressed.compression_methods.compression_methods import pair

__all__ = ["lz4_block_compress", "lz4_block_decompress", "lz4_frame_compress", "lz4_frame_decompress"]

lz4_frame_compress, lz4_frame_decompress = pair("lz4-frame")
lz4_block_compress, lz4_block_decompress = pair("lz4-block")
