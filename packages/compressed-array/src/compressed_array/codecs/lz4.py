"""`lz4-block` and `lz4-frame`, by the lz4 library.

Where numba is installed and the library shows its C functions, a batch of blocks is one call of a kernel that calls
those. Elsewhere a batch is a loop over the library's Python functions: slower, the same bytes.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.memory import scratch
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.threads import over_rows
from compressed_array.abc import Buffer, Codec, as_bytes_view, deliver, writable_bytes_view
from compressed_array.codecs import _clib
from compressed_array.codecs._common import check_claim, checked_level, require
from compressed_array.errors import CorruptPayloadError

__all__ = ["LZ4Block", "LZ4Frame"]

MOST_EXPANSION = 255  # a byte of payload lengthens a match by at most this
LARGEST_RECORD = 0x7E000000  # the library counts bytes in an int
LOWEST_LEVEL = -65537  # the library's strongest acceleration
LZ4_MAGIC, HAS_CONTENT_SIZE = b"\x04\x22\x4d\x18", 0x08


class LZ4Block(Codec):
    """LZ4 blocks, each behind its size.

    Args:
        level: 0 for the library's default mode, below 0 for faster and larger, 1 to 12 for slower and smaller.
    """

    codec_id: ClassVar[str] = "lz4-block"
    releases_gil: ClassVar[bool] = True
    max_buffer_size: int = LARGEST_RECORD

    def __init__(self, level: int = 0) -> None:
        self.level = checked_level(self.codec_id, level, range(LOWEST_LEVEL, 13))
        require("lz4.block", self.codec_id, "lz4")

    def max_encoded_size(self, nbytes: int) -> int:
        return 4 + nbytes + nbytes // 255 + 16

    def encode(self, buf: Buffer) -> Buffer:
        import lz4.block

        data = as_bytes_view(buf, self.max_buffer_size)
        payload: bytes
        if self.level < 0:
            payload = lz4.block.compress(data, mode="fast", acceleration=-self.level)
        elif self.level == 0:
            payload = lz4.block.compress(data)
        else:
            payload = lz4.block.compress(data, mode="high_compression", compression=self.level)
        return payload

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        import lz4.block

        data = as_bytes_view(buf, self.max_buffer_size)
        wanted = None if out is None else writable_bytes_view(out).size
        check_claim(int.from_bytes(data[:4].tobytes(), "little"), MOST_EXPANSION * data.size, wanted)
        try:
            decoded: bytes = lz4.block.decompress(data)
        except (lz4.block.LZ4BlockError, ValueError) as error:
            raise CorruptPayloadError(f"LZ4 block does not decode: {error}") from error
        return deliver(decoded, out)

    def encode_batch(self, records: npt.NDArray[np.uint8]) -> Payloads:
        rows, nbytes = records.shape
        if nbytes > self.max_buffer_size:
            return Payloads.all_raw(rows, nbytes)
        native = self._native()
        if native is None or self.level > 0:
            return super().encode_batch(records)
        kernels, functions = native
        start, compress = functions.start, functions.compress
        acceleration = max(-self.level, 1)
        memory, offsets, sizes = scratch(records.size), np.empty(rows, np.int64), np.empty(rows, np.int64)
        source, target = records.ctypes.data, memory.ctypes.data

        def work(low: int, high: int) -> None:
            state = np.empty(kernels.STATE_SIZE // 8, np.uint64)
            kernels.encode_rows(start, compress, acceleration, source, nbytes, low, high, target, state, offsets, sizes)

        over_rows(work, rows, records.nbytes)
        return Payloads.in_one_buffer(memory, offsets, sizes)

    def decode_batch(self, payloads: Payloads, out: npt.NDArray[np.uint8]) -> None:
        native, nbytes = self._native(), out.shape[1]
        if native is None or nbytes > self.max_buffer_size:
            return super().decode_batch(payloads, out)
        kernels, functions = native
        arguments = functions.decompress, payloads.addresses(), payloads.size, out.ctypes.data, nbytes

        def work(low: int, high: int) -> None:
            bad = kernels.decode_rows(*arguments, low, high)
            if bad >= 0:
                raise CorruptPayloadError(f"LZ4 block {bad} does not decode to {nbytes} bytes")

        return over_rows(work, len(out), out.nbytes)

    def _native(self) -> tuple[Any, _clib.LZ4Functions] | None:
        """Returns the kernels and the C functions they call, or None where one of the two is missing."""
        kernels = native("codecs._lz4_kernels")
        functions = None if kernels is None else _clib.lz4_block()
        return None if functions is None else (kernels, functions)


class LZ4Frame(Codec):
    """LZ4 frames, which say their own content size.

    Args:
        level: 0 for the library's default, below 0 for faster and larger, up to 16 for slower and smaller.
    """

    codec_id: ClassVar[str] = "lz4-frame"

    def __init__(self, level: int = 0) -> None:
        self.level = checked_level(self.codec_id, level, range(LOWEST_LEVEL, 17))
        require("lz4.frame", self.codec_id, "lz4")

    def encode(self, buf: Buffer) -> Buffer:
        import lz4.frame

        payload: bytes = lz4.frame.compress(
            as_bytes_view(buf, self.max_buffer_size), compression_level=self.level, store_size=True
        )
        return payload

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        import lz4.frame

        data = as_bytes_view(buf, self.max_buffer_size)
        wanted = None if out is None else writable_bytes_view(out).size
        try:
            claimed = _content_size(data)
            check_claim(claimed, MOST_EXPANSION * data.size, wanted)
            decoded, used = lz4.frame.decompress(data, return_bytes_read=True)
        except RuntimeError as error:
            raise CorruptPayloadError(f"LZ4 frame does not decode: {error}") from error
        if len(decoded) != claimed or used != data.size:
            raise CorruptPayloadError(f"LZ4 frame of {claimed} bytes is cut short or has bytes behind it")
        return deliver(decoded, out)


def _content_size(frame: npt.NDArray[np.uint8]) -> int:
    """Returns the content size in a frame's header, which has none only for an empty frame."""
    header = frame[:14].tobytes()
    if len(header) < 7 or not header.startswith(LZ4_MAGIC):
        raise CorruptPayloadError("not an LZ4 frame")
    return int.from_bytes(header[6:14], "little") if header[4] & HAS_CONTENT_SIZE else 0
