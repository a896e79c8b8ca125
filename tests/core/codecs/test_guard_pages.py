"""Nothing outside a payload, a record or a row is touched: each lies against a page that may not be read or written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest

from compressed_array import CodecUnavailableError, CorruptPayloadError, get_codec, has_zstd
from compressed_array._runtime.payloads import Payloads
from compressed_array.testing import mutations
from core_helpers.guarded import Guarded

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="protects pages by Linux's mprotect"),
]

SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 271, 272, 300, 1000, 4095, 4096, 5000)
SPECS: list[Any] = ["lz4-block", "lz4-block/-3", "lz4-block/9", "zstd-3", "zstd1", "trained"]
SPECS += [{"id": "rle-jit", "itemsize": itemsize} for itemsize in (1, 2, 4, 8)]


def records(rng: np.random.Generator) -> Iterator[np.ndarray]:
    for size in SIZES:
        yield np.zeros(size, np.uint8)
        yield rng.integers(0, 256, size, np.uint8)
        yield np.resize(rng.integers(0, 256, int(rng.integers(1, 40)), np.uint8), size)
        yield np.repeat(rng.integers(0, 4, size, np.uint8), rng.integers(1, 30, size))[:size]


def make(spec: Any) -> Any:
    if spec == "trained" and has_zstd():
        from compressed_array.codecs.zstd import Zstd

        rng = np.random.default_rng(0)
        return Zstd.train(np.repeat(rng.integers(0, 5, (300, 100), np.uint8), 9, axis=1), dict_size=1024)
    try:
        return get_codec("zstd" if spec == "trained" else spec)
    except CodecUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_encoders(spec: Any) -> None:
    codec, memory = make(spec), Guarded(max(SIZES))
    for record in records(np.random.default_rng(1)):
        for source in memory.places(record.size):
            source[:] = record
            payloads = codec.encode_batch(source.reshape(1, -1))
            if payloads.size[0] < record.size:
                assert bytes(codec.decode(payloads[0])) == record.tobytes()


@pytest.mark.parametrize(
    ("spec", "hidden"), [*((spec, False) for spec in SPECS), ("lz4-block", True), ("lz4-block/9", True)], ids=str
)
def test_decoders(spec: Any, hidden: bool) -> None:
    """The right payload and damaged ones, into rows of right and wrong sizes; LZ4 without its C functions, too."""
    codec = make(spec)
    rng = np.random.default_rng(2)
    source, target = Guarded(2 * max(SIZES) + 1024), Guarded(2 * max(SIZES))
    with mock.patch("compressed_array.codecs._clib.lz4_block", return_value=None) if hidden else nullcontext():
        for record in records(rng):
            payload = bytes(codec.encode(record))
            for bad in (payload, *mutations(payload, 12, seed=int(rng.integers(2**30)))):
                for at in source.places(len(bad)):
                    at[:] = np.frombuffer(bad, np.uint8)
                    for nbytes in (record.size, record.size - 1, record.size + 1, 2 * record.size):
                        for out in target.places(nbytes):
                            decodes = _decodes(codec, at, out)
                            if bad == payload:
                                assert decodes == (nbytes == record.size)


def _decodes(codec: Any, payload: np.ndarray, out: np.ndarray) -> bool:
    try:
        codec.decode_batch(Payloads.from_parts([payload]), out.reshape(1, -1))
    except CorruptPayloadError:
        return False
    return True
