"""The codecs that come with the package, one file per algorithm; `get_codec` finds them by name.

A codec's file is imported when the codec is asked for, and the library it needs when one is made.
"""

__all__ = ["delta", "gzip", "igzip", "lz4", "none", "rle", "zstd"]
