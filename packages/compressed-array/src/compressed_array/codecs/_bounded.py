"""Decoding what another library's codec wrote into no more memory than the record takes.

The codecs of numcodecs decode a whole payload before anybody sees how much that is, and some make gigabytes of a
kilobyte. Codecs whose payloads state their decoded size are checked first, and the streams of Python's own libraries
are decoded here. The others make no more than a few times what they are given, or do not say how much it will be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compressed_array._runtime.types import Bytes
from compressed_array.codecs._common import GZIP_CONTAINER, ZSTD_MAGIC
from compressed_array.errors import CorruptPayloadError

BLOSC_HEADER = 16  # bytes


def decode_up_to(codec: Any, payload: Bytes, nbytes: int) -> Any:
    """Returns what another library's codec makes of a payload that should become `nbytes` bytes."""
    kind = codec.codec_id if type(codec).__module__.partition(".")[0] == "numcodecs" else ""
    if kind in _STREAMS:
        stream = _STREAMS[kind](codec)
        decoded = stream.decompress(payload, nbytes + 1)
        if len(decoded) != nbytes or not stream.eof or stream.unused_data:
            raise CorruptPayloadError(f"codec {kind!r}: payload does not decode to {nbytes} bytes")
        return decoded
    claimed = _CLAIMS[kind](payload) if kind in _CLAIMS else nbytes
    if claimed != nbytes:
        raise CorruptPayloadError(f"codec {kind!r}: payload says it decodes to {claimed} bytes where {nbytes} belong")
    return codec.decode(payload)


def _bz2(codec: Any) -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _lzma(codec: Any) -> Any:
    import lzma

    return lzma.LZMADecompressor(codec.format, filters=codec.filters)


def _zlib(codec: Any) -> Any:
    import zlib

    return zlib.decompressobj(GZIP_CONTAINER) if codec.codec_id == "gzip" else zlib.decompressobj()


def _number(payload: Bytes, start: int, end: int) -> int:
    return int.from_bytes(payload[start:end].tobytes(), "little")


def _of_blosc(payload: Bytes) -> int:
    """Returns the size in a header; -1 where its payload is cut: c-blosc would read on behind it, as far as it says."""
    is_whole = payload.size >= BLOSC_HEADER and _number(payload, 12, BLOSC_HEADER) == payload.size
    return _number(payload, 4, 8) if is_whole else -1


def _of_zstd(payload: Bytes) -> int:
    """Returns the content size in a frame's header; -1 where it has none, which numcodecs never writes."""
    if payload[:4].tobytes() != ZSTD_MAGIC or payload.size < 6:
        return -1
    flags = int(payload[4])
    is_single = flags >> 5 & 1
    width = (is_single, 2, 4, 8)[flags >> 6]
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    return _number(payload, start, start + width) + 256 * (width == 2) if width else -1


_STREAMS: dict[str, Callable[[Any], Any]] = {"bz2": _bz2, "lzma": _lzma, "zlib": _zlib, "gzip": _zlib}
_CLAIMS: dict[str, Callable[[Bytes], int]] = {
    "lz4": lambda payload: _number(payload, 0, 4),
    "blosc": _of_blosc,
    "zstd": _of_zstd,
}
