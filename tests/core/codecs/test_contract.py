"""Every codec that comes with the package keeps the contract that `CodecTests` ships to third parties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compressed_array import Codec, CodecUnavailableError, get_codec
from compressed_array.testing import CodecTests

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
]


class TestBuiltIn(CodecTests):
    mutation_count = 150

    @pytest.fixture(autouse=True, params=SPECS, ids=str)
    def _codec_under_test(self, request: pytest.FixtureRequest) -> None:
        try:
            self.codec = get_codec(request.param)
        except CodecUnavailableError as error:
            pytest.skip(str(error))


class TestTrainedZstd(CodecTests):
    mutation_count = 150

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
        from compressed_array.abc import deliver

        return deliver(bytes(buf)[::-1], out)


class TestThirdParty(CodecTests):
    codec = Reversing()
    mutation_count = 50

    def test_input_kinds(self) -> None:
        """The loops of the batch methods serve a codec that only encodes and decodes."""
        assert self.codec.encode(b"abc") == b"cba"
