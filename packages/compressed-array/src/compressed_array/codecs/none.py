"""`none`: the bytes themselves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.payloads import Payloads
from compressed_array.abc import Buffer, Codec, as_bytes_view, deliver

__all__ = ["Raw"]


class Raw(Codec):
    """No compression, for data that does not shrink and to measure others against."""

    codec_id: ClassVar[str] = "none"

    def encode(self, buf: Buffer) -> Buffer:
        return as_bytes_view(buf, self.max_buffer_size).tobytes()

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        data = as_bytes_view(buf, self.max_buffer_size)
        return deliver(data if out is not None else data.tobytes(), out)

    def encode_batch(self, records: npt.NDArray[np.uint8]) -> Payloads:
        count, nbytes = records.shape
        return Payloads.in_one_buffer(records.reshape(-1), np.arange(count) * nbytes, np.full(count, nbytes))

    def max_encoded_size(self, nbytes: int) -> int:
        return nbytes
