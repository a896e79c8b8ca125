"""`rle`: run-length coding, by machine code where numba is installed and in numpy elsewhere: the same bytes.

`rle-jit` is the same codec under another name, for those who want an error where there is no machine code for it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.memory import scratch
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.threads import over_rows
from compressed_array.abc import Buffer, Codec, as_bytes_view, check_size, deliver, writable_bytes_view
from compressed_array.codecs import _rle_formula as formula
from compressed_array.codecs._common import check_claim, require
from compressed_array.errors import CodecUnavailableError, CorruptPayloadError

__all__ = ["RLE", "RLEJit"]

ITEMSIZES = (1, 2, 4, 8)
LARGEST_RECORD = 2**32 - 1  # a payload counts its tokens in 4 bytes
ENCODER, DECODER = "codecs._rle_encode_kernels", "codecs._rle_decode_kernels"


class RLE(Codec):
    """Run-length coding of items that are compared bit by bit: NaN payloads and -0.0 survive.

    Args:
        itemsize: How many bytes an item has: 1, 2, 4 or 8. An array sets it by its dtype.

    >>> codec = RLE()
    >>> payload = codec.encode(bytes(1000))
    >>> len(payload), bytes(codec.decode(payload)) == bytes(1000)
    (16, True)
    """

    codec_id: ClassVar[str] = "rle"
    max_buffer_size = LARGEST_RECORD

    def __init__(self, itemsize: int = 1) -> None:
        if itemsize not in ITEMSIZES or isinstance(itemsize, bool):
            raise ValueError(f"codec {self.codec_id!r} takes an itemsize of 1, 2, 4 or 8, not {itemsize!r}")
        self.itemsize = int(itemsize)

    def for_dtype(self, dtype: np.dtype[Any]) -> Self:
        return type(self)(dtype.itemsize if dtype.itemsize in ITEMSIZES else 1)

    def max_encoded_size(self, nbytes: int) -> int:
        # Literals cost a token per sixteen; a run is never dearer than its items are.
        return formula.HEADER + nbytes + -(-(nbytes // self.itemsize) // (formula.MOST_LITERALS + 1))

    def encode(self, buf: Buffer) -> Buffer:
        data, kernels = as_bytes_view(buf, self.max_buffer_size), native(ENCODER)
        if kernels is None:
            return self._encode_with_numpy(data)
        # One more than the bound, since a payload counts as given up when it reaches the limit.
        payloads = self._encode_rows(kernels, data.reshape(1, -1), self.max_encoded_size(data.size) + 1)
        return payloads[0].tobytes()

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        data, kernels = as_bytes_view(buf, self.max_buffer_size), native(DECODER)
        if kernels is None:
            return self._decode_with_numpy(data, out)
        payloads = Payloads.in_one_buffer(data, [0], [data.size])
        if out is not None:
            self.decode_batch(payloads, writable_bytes_view(out).reshape(1, -1))
            return out
        size = kernels.decoded_size(data.ctypes.data, data.size, self.itemsize)
        if size < 0:
            raise CorruptPayloadError("run-length payload is not one an encoder writes")
        decoded = np.empty(size, np.uint8)
        self.decode_batch(payloads, decoded.reshape(1, -1))
        return decoded

    def encode_batch(self, records: npt.NDArray[np.uint8]) -> Payloads:
        check_size(records.shape[1], self.max_buffer_size)
        kernels = native(ENCODER)
        if kernels is None:
            return super().encode_batch(records)
        return self._encode_rows(kernels, records, max(records.shape[1], 1))

    def decode_batch(self, payloads: Payloads, out: npt.NDArray[np.uint8]) -> None:
        kernels = native(DECODER)
        if kernels is None:
            return super().decode_batch(payloads, out)
        addresses, target = payloads.addresses(), out.ctypes.data

        def work(low: int, high: int) -> None:
            bad = kernels.decode_rows(addresses, payloads.size, self.itemsize, target, out.shape[1], low, high)
            if bad >= 0:
                raise CorruptPayloadError(f"run-length payload {bad} does not decode to {out.shape[1]} bytes")

        return over_rows(work, len(out), out.nbytes)

    def _encode_rows(self, kernels: Any, records: npt.NDArray[np.uint8], limit: int) -> Payloads:
        """Returns the payloads of rows; one that reaches `limit` bytes is given up, and counts with that size."""
        rows, nbytes = records.shape
        memory = scratch(rows * limit)
        offsets, sizes = np.empty(rows, np.int64), np.empty(rows, np.int64)
        source, target = records.ctypes.data, memory.ctypes.data

        def work(low: int, high: int) -> None:
            own = np.empty(kernels.scratch_nbytes(nbytes), np.uint8)
            kernels.encode_rows(source, nbytes, self.itemsize, low, high, target, limit, own, offsets, sizes)

        over_rows(work, rows, records.nbytes)
        return Payloads.in_one_buffer(memory, offsets, sizes)

    def _encode_with_numpy(self, data: npt.NDArray[np.uint8]) -> bytes:
        whole = data.size // self.itemsize * self.itemsize
        if whole == 0:
            return bytes(formula.HEADER) + data.tobytes()
        tokens, extras, values = formula.encode(np, data[:whole].view(f"u{self.itemsize}"))
        count = len(tokens).to_bytes(formula.HEADER, "little")
        return b"".join((count, tokens.tobytes(), extras.tobytes(), values.tobytes(), data[whole:].tobytes()))

    def _decode_with_numpy(self, data: npt.NDArray[np.uint8], out: Buffer | None) -> Buffer:
        target = None if out is None else writable_bytes_view(out)
        count = int.from_bytes(data[: formula.HEADER].tobytes(), "little")
        if data.size < formula.HEADER + count:
            raise CorruptPayloadError("run-length payload is cut short")
        body = data[formula.HEADER :]
        literals, repeats = formula.token_counts(np, body[:count])
        first_extra, first_value = count, count + int(np.count_nonzero(repeats == formula.ESCAPE))
        extras = body[first_extra:first_value]
        values_size = (int(literals.sum()) + count) * self.itemsize
        tail = body[first_value + values_size :]
        if first_value + values_size > body.size or tail.size >= self.itemsize:
            raise CorruptPayloadError("run-length payload does not hold the values its tokens ask for")
        items = int(literals.sum()) + int(repeats.sum()) + count + int(extras.sum(dtype=np.int64))
        decoded_size = items * self.itemsize + tail.size
        check_claim(decoded_size, formula.LONGEST_RUN * data.size, None if target is None else target.size)
        if count == 0:
            return deliver(tail.tobytes(), out)
        values = body[first_value : first_value + values_size].view(f"u{self.itemsize}")
        decoded = formula.decode(np, literals, repeats, extras, values).view(np.uint8)
        return deliver(np.concatenate((decoded, tail)) if tail.size else decoded, out)


class RLEJit(RLE):
    """`RLE`, and an error where numba, which makes it fast, is missing.

    Args:
        itemsize: How many bytes an element has, as in `RLE`.
    """

    codec_id: ClassVar[str] = "rle-jit"

    def __init__(self, itemsize: int = 1) -> None:
        super().__init__(itemsize)
        if native("_runtime.numba_tools") is None:
            require("compressed_array._runtime.numba_tools", self.codec_id, "numba")  # whose error says what is wrong
            raise CodecUnavailableError(self.codec_id, "numba")
