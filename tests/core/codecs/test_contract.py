"""Every codec that comes with the package keeps the contract that `CodecTests` ships to third parties."""

from __future__ import annotations

import pickle
import sys
import zlib
from typing import Any

import numpy as np
import pytest

from compressed_array import (
    Codec,
    CodecUnavailableError,
    CorruptPayloadError,
    UnsupportedOperationError,
    get_codec,
    zeros,
)
from compressed_array._runtime.payloads import Payloads
from compressed_array.abc import decode_each, deliver
from compressed_array.testing import CodecTests

EMPTY_SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18" + bytes(4)
SPECS: list[Any] = [
    "none",
    "rle",
    {"id": "rle", "itemsize": 4},
    "rle-jit",
    {"id": "rle-jit", "itemsize": 2},
    {"id": "rle-jit", "itemsize": 8},
    "gzip",
    "gzip/0",
    "igzip",
    "igzip/3",
    "zstd",
    "zstd19",
    "zstd-100",
    "lz4-frame",
    "lz4-frame/-8",
    "lz4-frame/16",
    "lz4-block",
    "lz4-block/-8",
    "lz4-block/12",
    "delta",
    {"id": "delta", "level": 3, "stack_axis": 0},
    "delta-zstd",
]


class StrictTests(CodecTests):
    """What our own codecs promise besides."""

    mutation_count = 100

    def test_strided_input_is_taken(self) -> None:
        view = np.arange(400, dtype=np.int16).reshape(20, 20)[::2, ::-3]
        assert bytes(self.codec.decode(self.codec.encode(view))) == view.tobytes()

    def test_bytes_behind_a_payload(self) -> None:
        """They are not passed over: not a zero, not what a stream may hold between frames."""
        array = np.repeat(np.arange(50, dtype=np.uint8), 9)
        payload = bytes(self.codec.encode(array))
        for more in (b"\0", bytes(4), EMPTY_SKIPPABLE_FRAME, payload):
            with pytest.raises(CorruptPayloadError):
                self.codec.decode(payload + more, out=np.empty_like(array))
            part = Payloads.from_parts([np.frombuffer(payload + more, np.uint8)])
            with pytest.raises(CorruptPayloadError):
                self.codec.decode_batch(part, np.empty((1, array.size), np.uint8))

    def test_compressed_array_is_refused(self) -> None:
        """Its memory is a table; encoded, that would pass for the items."""
        array = zeros((5, 40), np.uint8, item_ndim=1, codec="none")
        with pytest.raises(UnsupportedOperationError, match="compressed array"):
            self.codec.encode(array)
        payload = self.codec.encode(np.zeros(5 * 40, np.uint8))
        with pytest.raises(UnsupportedOperationError, match="compressed array"):
            self.codec.decode(payload, out=array)


class TestBuiltIn(StrictTests):
    @pytest.fixture(autouse=True, params=SPECS, ids=str)
    def _codec_under_test(self, request: pytest.FixtureRequest) -> None:
        try:
            self.codec = get_codec(request.param)
        except CodecUnavailableError as error:
            pytest.skip(str(error))


class TestTrainedZstd(StrictTests):
    @pytest.fixture(autouse=True)
    def _codec_under_test(self) -> None:
        pytest.importorskip("zstandard")
        from compressed_array.codecs.zstd import Zstd

        rng = np.random.default_rng(0)
        self.codec = Zstd.train(np.repeat(rng.integers(0, 5, (300, 100), np.uint8), 9, axis=1), dict_size=1024)


class Reversing(Codec):
    """The least a third party has to write."""

    codec_id = "reversing"

    def encode(self, buf: Any) -> bytes:
        return bytes(memoryview(np.ascontiguousarray(np.frombuffer(buf, np.uint8))).cast("B"))[::-1]

    def decode(self, buf: Any, out: Any = None) -> Any:
        return deliver(bytes(buf)[::-1], out)


class TestThirdParty(CodecTests):
    codec = Reversing()
    mutation_count = 50

    def test_input_kinds(self) -> None:
        """The loops of the batch methods serve a codec that only encodes and decodes."""
        assert self.codec.encode(b"abc") == b"cba"


class Lazy(Codec):
    """Looks right, and fills half of what it is given when a payload is damaged; takes a strided view's memory."""

    codec_id = "lazy"

    def encode(self, buf: Any) -> bytes:
        data = np.asarray(buf).base.tobytes() if getattr(buf, "ndim", 0) == 2 else bytes(buf)
        return zlib.crc32(data).to_bytes(4, "little") + data

    def decode(self, buf: Any, out: Any = None) -> Any:
        data = bytes(buf)[4:]
        if out is None or zlib.crc32(data).to_bytes(4, "little") == bytes(buf)[:4]:
            return deliver(data, out)
        half = min(len(data), out.size) // 2
        out.reshape(-1)[:half] = np.frombuffer(data[:half], np.uint8)
        return out


def test_the_tests_can_fail() -> None:
    """A codec that half succeeds on a damaged payload, and one that reads a view's memory, are found out."""

    class OfLazy(CodecTests):
        codec = Lazy()

    with pytest.raises(AssertionError, match="not filled"):
        OfLazy().test_mutated_payloads()
    with pytest.raises(AssertionError):
        OfLazy().test_strided_input()


class Foreign:
    """Another library's codec, with an error of its own."""

    codec_id = "foreign"

    def decode(self, buf: Any, out: Any = None) -> Any:
        raise RuntimeError("error -1")


def test_foreign_errors_are_named() -> None:
    """Whatever another library raises, it could not read a payload."""
    with pytest.raises(CorruptPayloadError, match=r"'foreign'.*error -1"):
        decode_each(Foreign(), Payloads.from_parts([np.zeros(3, np.uint8)]), np.empty((1, 9), np.uint8))


@pytest.mark.parametrize("spec", ["gzip3", {"id": "rle", "itemsize": 4}, "zstd7", "lz4-block/2", "igzip2", "rle-jit"])
def test_unpickling_without_the_library(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named where the codec is unpickled, not in the middle of the first read."""
    try:
        codec = get_codec(spec)
    except CodecUnavailableError as error:
        pytest.skip(str(error))
    pickled = pickle.dumps(codec)
    assert pickle.loads(pickled) == codec
    for module in ("numba", "zstandard", "lz4", "lz4.block", "isal", "isal.isal_zlib"):
        monkeypatch.setitem(sys.modules, module, None)
    if codec.codec_id in ("gzip", "rle"):
        assert pickle.loads(pickled) == codec
    else:
        with pytest.raises(CodecUnavailableError, match="pip install"):
            pickle.loads(pickled)
