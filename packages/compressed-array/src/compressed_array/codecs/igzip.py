"""`igzip`: the gzip container written and read by Intel's ISA-L, several times faster than zlib."""

from __future__ import annotations

from typing import ClassVar

from compressed_array.abc import Buffer, Codec, as_bytes_view
from compressed_array.codecs._common import GZIP_CONTAINER, checked_level, require
from compressed_array.codecs.gzip import LARGEST_RECORD, inflate

__all__ = ["Igzip"]


class Igzip(Codec):
    """Deflate in a gzip container by ISA-L; any gzip decodes what it writes.

    Args:
        level: 0 to 3.
    """

    codec_id: ClassVar[str] = "igzip"
    releases_gil: ClassVar[bool] = True
    max_buffer_size = LARGEST_RECORD

    def __init__(self, level: int = 1) -> None:
        self.level = checked_level(self.codec_id, level, range(4))
        require("isal.isal_zlib", self.codec_id, "isal")

    def encode(self, buf: Buffer) -> Buffer:
        from isal import isal_zlib

        return isal_zlib.compress(as_bytes_view(buf, self.max_buffer_size), self.level, GZIP_CONTAINER)

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        from isal import isal_zlib

        return inflate(isal_zlib, as_bytes_view(buf, self.max_buffer_size), out)
