"""The codecs that this environment has, and all that come with the package."""

from __future__ import annotations

from typing import Any

from compressed_array import available_codecs

CODECS = sorted(name for name, info in available_codecs().items() if info.available)

# Every codec that comes with the package, and some with options of their own.
SPECS: list[Any] = [
    "none",
    "rle",
    {"id": "rle", "itemsize": 4},
    "rle-jit",
    {"id": "rle-jit", "itemsize": 8},
    "gzip",
    "igzip",
    "zstd",
    {"id": "zstd", "level": 3, "checksum": True},
    "lz4-frame",
    "lz4-block",
    "delta",
    {"id": "delta", "level": 3, "stack_axis": 0},
    "delta-zstd",
]
