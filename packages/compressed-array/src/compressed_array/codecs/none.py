"""`none`: the bytes themselves."""

from __future__ import annotations

from typing import ClassVar

from compressed_array.abc import Buffer, Codec, as_bytes_view, deliver


class Raw(Codec):
    """No compression; for data that does not shrink, and to measure against."""

    codec_id: ClassVar[str] = "none"

    def encode(self, buf: Buffer) -> Buffer:
        return as_bytes_view(buf).tobytes()

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        return deliver(as_bytes_view(buf) if out is not None else as_bytes_view(buf).tobytes(), out)

    def max_encoded_size(self, nbytes: int) -> int:
        return nbytes
