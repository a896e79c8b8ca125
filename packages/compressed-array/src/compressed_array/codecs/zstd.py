"""`zstd`, by the zstandard library, with an optional dictionary trained on the kind of records it will meet."""

from __future__ import annotations

import base64
import operator
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from compressed_array._runtime import loading
from compressed_array._runtime.loading import native
from compressed_array._runtime.memory import scratch
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.threads import over_rows
from compressed_array.abc import Buffer, Codec, as_bytes_view, deliver, writable_bytes_view
from compressed_array.codecs import _clib
from compressed_array.codecs._common import ZSTD_MAGIC, check_claim, checked_level, require
from compressed_array.errors import CorruptPayloadError

__all__ = ["Zstd"]

MOST_EXPANSION = 128 * 1024 // 4  # a block of 4 bytes repeats one byte 128 KiB times
DICTIONARY_MAGIC = b"\x37\xa4\x30\xec"
DEFAULT_LEVEL = -3
FEWEST_RECORDS, SHORTEST_SAMPLE = 16, 8
SMALLEST_DICTIONARY = 256
LARGEST_WINDOW = 8 * 1024 * 1024  # that a stream is decoded with; levels up to 19 have no larger one
COUNTERS_LOG = 18  # of the trainer's tables, which by default take ten megabytes


class Zstd(Codec):
    """Zstandard frames.

    Args:
        level: 1 to 22, 0 for the library's own default, or -1 to -100, where each step down is faster and larger.
        dictionary: What `train` learnt, as bytes or as the base64 text that the config holds.
        checksum: Whether payloads have one.
    """

    codec_id: ClassVar[str] = "zstd"
    releases_gil: ClassVar[bool] = True

    def __init__(
        self, level: int = DEFAULT_LEVEL, dictionary: bytes | str | None = None, checksum: bool = False
    ) -> None:
        self.level = checked_level(self.codec_id, level, range(-100, 23))
        self.checksum = bool(checksum)
        self._dictionary = None if dictionary is None else _dictionary_bytes(dictionary)
        self._library = require("zstandard", self.codec_id, "zstd")
        # zstandard's compressors and decompressors must not be shared by threads.
        self._of_thread = threading.local()
        self._calls: _clib.ZstdCalls | None = None
        if self._dictionary is not None:
            self._try_dictionary()

    @classmethod
    def train(
        cls,
        samples: npt.NDArray[Any] | Iterable[Buffer],
        level: int = DEFAULT_LEVEL,
        dict_size: int = 16384,
        segment: int | None = None,
    ) -> Self:
        """Returns a codec with a dictionary learnt from sample records.

        It pays for small records that resemble each other.

        Args:
            samples: Some hundred records, the rows of an array or buffers; a larger dictionary needs more of them.
            level: The codec's level.
            dict_size: How many bytes the dictionary may have.
            segment: The length of the segments that the trainer puts together. Left out, it tries several, which takes
                longer and several times the memory.
        """
        parameters = {} if segment is None else {"k": segment, "d": SHORTEST_SAMPLE, "f": COUNTERS_LOG}
        library = cls(level)._library
        if operator.index(dict_size) < SMALLEST_DICTIONARY:
            raise ValueError(f"a dictionary has at least {SMALLEST_DICTIONARY} bytes, not {dict_size!r}")
        # The trainer crashes on empty samples, and learns nothing from ones this short.
        records = [r for r in (as_bytes_view(sample).tobytes() for sample in samples) if len(r) >= SHORTEST_SAMPLE]
        total = sum(map(len, records))
        if len(records) < FEWEST_RECORDS or total < dict_size:
            raise ValueError(
                f"a dictionary of {dict_size} bytes needs at least {FEWEST_RECORDS} sample records of "
                f"{SHORTEST_SAMPLE} bytes or more, {dict_size} bytes in all, not {len(records)} with {total}"
            )
        try:
            trained = library.train_dictionary(dict_size, records, level=level, **parameters)
        except (library.ZstdError, ValueError) as error:
            raise ValueError(
                f"no dictionary can be learnt from {len(records)} records of {total} bytes: {error}"
            ) from error
        return cls(level, trained.as_bytes())

    @property
    def dictionary(self) -> str | None:
        """Returns the dictionary as base64 text, or None without one."""
        return None if self._dictionary is None else base64.b64encode(self._dictionary).decode("ascii")

    def get_config(self) -> dict[str, Any]:
        # Without a dictionary it is numcodecs' config, so that either library makes its own codec of it.
        return super().get_config() | ({} if self._dictionary is None else {"dictionary": self.dictionary})

    def max_encoded_size(self, nbytes: int) -> int:
        return nbytes + (nbytes >> 8) + 64  # ZSTD_COMPRESSBOUND, which adds no more than 64 to small inputs

    def encode(self, buf: Buffer) -> Buffer:
        payload: bytes = self._compressor().compress(as_bytes_view(buf, self.max_buffer_size))
        return payload

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        data = as_bytes_view(buf, self.max_buffer_size)
        wanted = None if out is None else writable_bytes_view(out).size
        if not data[:4].tobytes() == ZSTD_MAGIC:
            raise CorruptPayloadError("not a zstd frame")
        try:
            claimed = self._library.get_frame_parameters(data).content_size
            check_claim(claimed, MOST_EXPANSION * data.size, wanted)
            decoded: bytes = self._decompressor().decompress(data, allow_extra_data=False)
        except self._library.ZstdError as error:
            raise CorruptPayloadError(f"zstd frame does not decode: {error}") from error
        if len(decoded) != claimed:
            raise CorruptPayloadError(f"zstd frame of {claimed} bytes decodes to {len(decoded)}")
        return deliver(decoded, out)

    def encode_batch(self, records: npt.NDArray[np.uint8]) -> Payloads:
        native = self._native()
        rows, nbytes = records.shape
        if native is None or nbytes == 0 or self.checksum:  # the calls that kernels make know none
            return super().encode_batch(records)
        kernels, calls = native
        memory, offsets, sizes = scratch(records.size), np.empty(rows, np.int64), np.empty(rows, np.int64)
        source, target = records.ctypes.data, memory.ctypes.data

        def work(low: int, high: int) -> None:
            error = kernels.encode_rows(*calls.compressor, source, nbytes, low, high, target, offsets, sizes)
            calls.functions.check(error, "to compress")

        over_rows(work, rows, records.nbytes)
        return Payloads.in_one_buffer(memory, offsets, sizes)

    @property
    def nbytes(self) -> int:
        """Returns the memory of the dictionary and of what zstd made of it, in bytes."""
        return (0 if self._calls is None else self._calls.nbytes) + len(self._dictionary or b"")

    def stop_compressing(self) -> None:
        """Frees what only compressing needs; no thread may be compressing."""
        if self._calls is not None:
            self._calls.stop_compressing()

    def encode_parts(self, parts: Payloads) -> Payloads:
        """Encodes buffers of different sizes; a payload as long as its buffer means that it did not shrink.

        Args:
            parts: The buffers.
        """
        size, offset = parts.size.copy(), np.cumsum(parts.size) - parts.size
        memory = scratch(int(parts.size.sum()))
        for i, at in enumerate(offset.tolist()):
            payload = self._encode_into(parts[i], memory[at : at + int(size[i])])
            size[i] = payload if payload else size[i]
        return Payloads.in_one_buffer(memory, offset, size)

    def decode_part(self, payload: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Returns what one of the buffers of `encode_parts` was.

        Args:
            payload: Its payload. Bytes behind the frame are ignored.
        """
        calls = self.calls()
        if calls is None:
            return np.frombuffer(self._decompressor().decompress(payload, allow_extra_data=True), np.uint8)
        out = scratch(self.content_size(payload))
        size = calls.functions.call_frame_size(payload.ctypes.data, payload.size)
        where = out.ctypes.data, out.size, payload.ctypes.data, size
        if calls.functions.is_error(size) or calls.decompress(*where) != out.size:
            raise CorruptPayloadError(f"zstd frame of {out.size} bytes does not decode")
        return out

    @contextmanager
    def stream(self, payload: npt.NDArray[np.uint8]) -> Iterator[Any]:
        """Opens a stream of what a frame decodes to, to be read part by part.

        Args:
            payload: The frame.
        """
        unpacker = self._library.ZstdDecompressor(dict_data=self._dict_data(), max_window_size=LARGEST_WINDOW)
        try:
            with unpacker.stream_reader(payload) as stream:
                yield stream
        except self._library.ZstdError as error:
            raise CorruptPayloadError(f"zstd frame does not decode: {error}") from error

    def content_size(self, payload: npt.NDArray[np.uint8]) -> int:
        """Returns how many bytes a frame says it decodes to.

        Args:
            payload: The frame, or its first bytes.
        """
        try:
            return int(self._library.get_frame_parameters(payload[:18]).content_size)  # a header is not longer
        except self._library.ZstdError as error:
            raise CorruptPayloadError(f"zstd frame does not decode: {error}") from error

    def _encode_into(self, data: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8]) -> int:
        """Encodes to `out` and returns the size of the payload, 0 if it does not fit."""
        calls = self.calls()
        if calls is None or self.checksum:
            payload = as_bytes_view(self.encode(data))
            if payload.size <= out.size:
                out[: payload.size] = payload
            return payload.size if payload.size <= out.size else 0
        # Straight to its place: payloads of all sizes, each in an allocation of its own, leave holes in the heap.
        size = calls.compress(out.ctypes.data, out.size, data.ctypes.data, data.size)
        return 0 if calls.functions.is_error(size) else size

    def decode_batch(self, payloads: Payloads, out: npt.NDArray[np.uint8]) -> None:
        native = self._native()
        if native is None:
            return super().decode_batch(payloads, out)
        kernels, calls = native
        addresses, sizes, target, nbytes = payloads.addresses(), payloads.size, out.ctypes.data, out.shape[1]
        functions = calls.functions.decompress, calls.functions.frame_size, calls.functions.content_size

        def work(low: int, high: int) -> None:
            bad = kernels.decode_rows(*functions, *calls.decompressor, addresses, sizes, target, nbytes, low, high)
            if bad >= 0:
                raise CorruptPayloadError(f"zstd frame {bad} does not decode to {nbytes} bytes")

        return over_rows(work, len(out), out.nbytes)

    def _try_dictionary(self) -> None:
        """Refuses a dictionary that zstd cannot use, before a first write or, worse, a first read fails by it."""
        probe = DICTIONARY_MAGIC * 16
        try:
            works = self.decode(self.encode(probe)) == probe
        except (self._library.ZstdError, ValueError) as error:
            raise ValueError(f"dictionary is broken: {error}") from error
        if not works:
            raise ValueError("dictionary is broken: what is compressed with it does not come back")
        self._of_thread = threading.local()  # batches go through contexts of their own; these would lie there unused

    def _compressor(self) -> Any:
        try:
            return self._of_thread.compressor
        except AttributeError:
            made = self._library.ZstdCompressor(
                level=self.level, dict_data=self._dict_data(), write_content_size=True, write_checksum=self.checksum
            )
            self._of_thread.compressor = made
            return made

    def _decompressor(self) -> Any:
        try:
            return self._of_thread.decompressor
        except AttributeError:
            made = self._of_thread.decompressor = self._library.ZstdDecompressor(dict_data=self._dict_data())
            return made

    def _dict_data(self) -> Any:
        return None if self._dictionary is None else self._library.ZstdCompressionDict(self._dictionary)

    def _native(self) -> tuple[Any, _clib.ZstdCalls] | None:
        """Returns the kernels and the C functions they call, or None where one of the two is missing."""
        kernels = native("codecs._zstd_kernels")
        calls = None if kernels is None else self.calls()
        return None if calls is None else (kernels, calls)

    def calls(self) -> _clib.ZstdCalls | None:
        """Returns how zstd's C functions are called with this level and dictionary; None where a build hides them."""
        functions, calls = _clib.zstd(), self._calls
        if functions is None or calls is not None:
            return calls
        calls = _clib.ZstdCalls(functions, self.level, self._dictionary)
        with loading.lock:  # one for all threads: an address is good only as long as its owner is
            self._calls = calls if self._calls is None else self._calls
            return self._calls


def _dictionary_bytes(dictionary: bytes | str) -> bytes:
    if isinstance(dictionary, str):
        try:
            dictionary = base64.b64decode(dictionary, validate=True)
        except ValueError as error:
            raise ValueError(f"dictionary is not base64 text: {error}") from error
    if not isinstance(dictionary, (bytes, bytearray, memoryview)):
        raise TypeError(f"dictionary is not bytes or base64 text, but {dictionary!r}")
    dictionary = bytes(dictionary)
    # Without the magic and the id behind it, a frame could not tell a wrong dictionary from the right one.
    if not dictionary.startswith(DICTIONARY_MAGIC) or dictionary[4:8] == bytes(4):
        raise ValueError("dictionary is not one that zstd trained; make one with Zstd.train(samples)")
    return dictionary
