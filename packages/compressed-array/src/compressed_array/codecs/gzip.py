"""`gzip`: deflate in a gzip container, by the zlib that comes with Python. The same bytes every time: no timestamp."""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array.abc import Buffer, Codec, as_bytes_view, deliver, writable_bytes_view
from compressed_array.codecs._common import GZIP_CONTAINER, check_claim, checked_level
from compressed_array.errors import CorruptPayloadError

__all__ = ["Gzip"]

MOST_EXPANSION = 1032  # deflate's best: 258 bytes for two bits
LARGEST_RECORD = 2**32 - 1  # the trailer counts bytes modulo 2**32, and it is what a payload is checked by


class Gzip(Codec):
    """Deflate in a gzip container.

    Args:
        level: 0, which only stores, to 9.
    """

    codec_id: ClassVar[str] = "gzip"
    releases_gil: ClassVar[bool] = True
    max_buffer_size = LARGEST_RECORD

    def __init__(self, level: int = 6) -> None:
        self.level = checked_level(self.codec_id, level, range(10))

    def encode(self, buf: Buffer) -> Buffer:
        return zlib.compress(as_bytes_view(buf, self.max_buffer_size).data, self.level, GZIP_CONTAINER)

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        return inflate(zlib, as_bytes_view(buf, self.max_buffer_size), out)


def inflate(library: Any, data: npt.NDArray[np.uint8], out: Buffer | None) -> Buffer:
    """Decodes a gzip payload by a library with zlib's interface: all of it, and never more than its trailer says."""
    wanted = None if out is None else writable_bytes_view(out).size
    claimed = int.from_bytes(data[-4:].tobytes(), "little")
    check_claim(claimed, MOST_EXPANSION * data.size, wanted)
    stream = library.decompressobj(wbits=GZIP_CONTAINER)
    try:
        decoded = stream.decompress(data, claimed + 1)
    except library.error as error:
        raise CorruptPayloadError(f"gzip payload does not decode: {error}") from error
    if len(decoded) != claimed or not stream.eof or stream.unused_data:
        raise CorruptPayloadError(f"gzip payload of {claimed} bytes is cut short or has bytes behind it")
    return deliver(decoded, out)
