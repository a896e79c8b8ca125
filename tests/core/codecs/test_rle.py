"""Run-length coding: one formula, in numpy and as kernels, the same bytes; runs are compared bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressed_array import CorruptPayloadError, has_numba
from compressed_array._runtime.payloads import Payloads
from compressed_array.codecs import _rle_formula as formula
from compressed_array.codecs.rle import RLE, RLEJit

needs_numba = pytest.mark.skipif(not has_numba(), reason="numba is not installed")

itemsizes = st.sampled_from([1, 2, 4, 8])
lengths = st.one_of(st.integers(1, 20), st.sampled_from([15, 16, 17, 255, 256, 257, 270, 271, 272, 273, 541, 542, 543]))
runs = st.lists(st.tuples(st.integers(0, 3), lengths), max_size=60)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Within it, the codecs go by the formula, in numpy."""
    with mock.patch("compressed_array.codecs.rle.native", return_value=None):
        yield


def data_of(pieces: list[tuple[int, int]], itemsize: int, tail: int) -> np.ndarray:
    values = np.array([v for v, _ in pieces], f"u{itemsize}")
    data = np.repeat(values, [n for _, n in pieces]).view(np.uint8)
    return np.concatenate((data, np.full(tail % itemsize, 9, np.uint8)))


@given(runs, itemsizes, st.integers(0, 7))
def test_round_trip(pieces: list[tuple[int, int]], itemsize: int, tail: int) -> None:
    """Runs of any length, split or not, and bytes that make no whole item come back."""
    data = data_of(pieces, itemsize, tail)
    codec = RLE(itemsize)
    payload = codec.encode(data)
    assert len(payload) <= codec.max_encoded_size(data.size)
    assert bytes(codec.decode(payload)) == data.tobytes()


@needs_numba
@given(runs, itemsizes, st.integers(0, 7))
def test_kernel_writes_the_same_bytes(pieces: list[tuple[int, int]], itemsize: int, tail: int) -> None:
    """Kernels and formula are one format, under both names: same payload, and each decodes the other's."""
    data = data_of(pieces, itemsize, tail)
    for codec in (RLE(itemsize), RLEJit(itemsize)):
        with without_kernels():
            payload = codec.encode(data)
            assert bytes(codec.decode(payload)) == data.tobytes()
        assert codec.encode(data) == payload
        assert bytes(codec.decode(payload)) == data.tobytes()


@needs_numba
@given(st.binary(max_size=2000), itemsizes)
def test_kernel_writes_the_same_bytes_for_any_bytes(raw: bytes, itemsize: int) -> None:
    codec = RLE(itemsize)
    with without_kernels():
        expected = codec.encode(raw)
    assert codec.encode(raw) == expected


@needs_numba
@given(st.binary(max_size=300), itemsizes, st.integers(0, 600))
def test_kernel_refuses_what_the_formula_refuses(payload: bytes, itemsize: int, size: int) -> None:
    """On bytes no encoder wrote, the two agree on what is corrupt and on what it decodes to."""
    with without_kernels():
        expected = decoded_or_none(RLE(itemsize), payload, size)
    assert decoded_or_none(RLE(itemsize), payload, size) == expected


def decoded_or_none(codec: RLE, payload: bytes, size: int) -> bytes | None:
    out = np.zeros(size, np.uint8)
    try:
        codec.decode(payload, out=out)
    except CorruptPayloadError:
        return None
    return out.tobytes()


def test_batch_without_kernels() -> None:
    """Without numba, a batch is a loop over its records."""
    records = np.repeat(np.arange(20, dtype=np.uint8)[:, None], 500, axis=1)
    codec, out = RLE(), np.empty_like(records)
    with without_kernels():
        payloads = codec.encode_batch(records)
        codec.decode_batch(payloads, out)
    assert (out == records).all()
    assert [payloads[i].tobytes() for i in range(20)] == [codec.encode(record) for record in records]


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_expansion_is_bounded(itemsize: int) -> None:
    """No payload asks for more than LONGEST_RUN times its own size."""
    payload = (1).to_bytes(4, "little") + b"\x0f\xff" + bytes(itemsize)
    assert len(RLE(itemsize).decode(payload)) == formula.LONGEST_RUN * itemsize


def test_runs_longer_than_any_counter() -> None:
    """A constant frame is a run longer than 65536, which a 16-bit run length would wrap around."""
    frame = np.full((300, 300), 7, np.uint8)
    codec = RLE()
    payload = codec.encode(frame)
    assert len(payload) < frame.nbytes / 80
    assert bytes(codec.decode(payload)) == frame.tobytes()


@pytest.mark.parametrize("cls", [RLE, pytest.param(RLEJit, marks=needs_numba)])
def test_bits_survive(cls: type[RLE]) -> None:
    """0.0 and -0.0 are equal numbers but not a run; no NaN is equal to itself but may be one."""
    values = np.array([0.0, -0.0, -0.0, 0.0, *[np.nan] * 9], np.float32)
    values.view(np.uint32)[-3:] |= 1
    codec = cls().for_dtype(values.dtype)
    assert codec.itemsize == 4
    assert bytes(codec.decode(codec.encode(values))) == values.tobytes()


def test_for_dtype() -> None:
    """The items are the dtype's where it has 1, 2, 4 or 8 bytes, and bytes otherwise."""
    assert [RLE().for_dtype(np.dtype(c)).itemsize for c in ("?", "i2", ">f4", "M8[s]", "c16", "S3", "i1,i2")] == [
        *(1, 2, 4, 8, 1, 1, 1)
    ]


@pytest.mark.parametrize("itemsize", [0, 3, 16, True, 1.5, "1"])
def test_bad_itemsize(itemsize: object) -> None:
    with pytest.raises(ValueError, match="1, 2, 4 or 8"):
        RLE(itemsize)  # type: ignore[arg-type]  # what a caller may get wrong


@needs_numba
def test_kernels_are_compiled_once() -> None:
    """A kernel has the one signature it declares: no later use compiles, whatever it is given."""
    from compressed_array.codecs import _rle_decode_kernels, _rle_encode_kernels

    dispatchers = (_rle_encode_kernels.encode_rows, _rle_decode_kernels.decode_rows, _rle_decode_kernels.decoded_size)
    before = [d.signatures for d in dispatchers]
    for itemsize in (1, 2, 4, 8):
        records = np.zeros((3, 800), np.uint8)
        records.flags.writeable = False
        codec = RLEJit(itemsize)
        codec.decode_batch(codec.encode_batch(records), np.empty_like(records))
        codec.decode(codec.encode(b"aaaaaabbbbb"))
    assert [d.signatures for d in dispatchers] == before
    assert all(len(s) == 1 for s in before)


@needs_numba
def test_rows_do_not_touch_each_other() -> None:
    """The wide stores of the decoder stay inside their row: decoding one leaves its neighbours alone."""
    codec = RLEJit()
    for nbytes in (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100):
        records = np.repeat(np.arange(3, dtype=np.uint8)[:, None], nbytes, axis=1)
        out = np.full((5, nbytes), 0xA5, np.uint8)
        parts = [np.frombuffer(codec.encode(r), np.uint8) for r in records]
        codec.decode_batch(Payloads.from_parts(parts).select(np.array([1])), out[2:3])
        assert (out[2] == 1).all()
        assert (out[[0, 1, 3, 4]] == 0xA5).all()


def test_formula_serves_torch() -> None:
    """The formula needs nothing of numpy: torch tensors go through it as they are."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    items = np.repeat(rng.integers(0, 4, 500), rng.integers(1, 600, 500)).astype(np.int32)
    expected = formula.encode(np, items)
    tokens, extras, values = formula.encode(torch, torch.from_numpy(items))
    for ours, theirs in zip(expected, (tokens, extras, values), strict=True):
        assert (ours == theirs.numpy()).all()
    decoded = formula.decode(torch, *formula.token_counts(torch, tokens), extras, values)
    assert (decoded.numpy() == items).all()
