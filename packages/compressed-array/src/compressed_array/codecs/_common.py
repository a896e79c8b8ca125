"""What the codecs share: a level is checked and a library found when a codec is made, not when it is first used."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

from compressed_array._runtime.loading import load
from compressed_array.errors import CodecLevelError, CodecUnavailableError, CorruptPayloadError

GZIP_CONTAINER = 31  # window bits of zlib's API that ask for a gzip header and trailer
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"  # what a frame of zstd's begins with


def require(module: str, codec_id: str, extra: str) -> Any:
    """Returns the library that a codec needs; raises an error that names the extra which brings it."""
    try:
        return load(module)
    except ImportError as error:  # missing, or there and broken, in whatever way
        raise CodecUnavailableError(codec_id, extra) from error


def checked_level(codec_id: str, level: SupportsIndex, *ranges: range) -> int:
    """Returns `level` as an int; raises unless it lies in one of the ranges."""
    allowed_text = " or ".join(f"{r[0]} to {r[-1]}" for r in ranges)
    error = CodecLevelError(f"codec {codec_id!r} takes a level from {allowed_text}, not {level!r}")
    if not isinstance(level, bool):
        try:
            whole = operator.index(level)
        except TypeError:
            raise error from None
        if any(whole in allowed for allowed in ranges):
            return whole
        error.nearest = min((end for r in ranges for end in (r[0], r[-1])), key=lambda end: abs(end - whole))
    raise error


def check_claim(claimed: int, at_most: int, wanted: int | None) -> None:
    """Refuses a payload by the size it says it decodes to, before any memory is taken for that."""
    if wanted is not None and claimed != wanted:
        raise CorruptPayloadError(f"payload says it decodes to {claimed} bytes where {wanted} belong")
    if claimed > at_most:
        raise CorruptPayloadError(f"payload says it decodes to {claimed} bytes, more than its size allows")
