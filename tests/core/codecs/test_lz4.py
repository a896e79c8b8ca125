"""LZ4: batches against the library's single calls, on what it wrote and on what nobody wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressed_array import CorruptPayloadError
from compressed_array._runtime.payloads import Payloads
from compressed_array.testing import mutations

block = pytest.importorskip("lz4.block")

from compressed_array.codecs.lz4 import LZ4Block, LZ4Frame  # noqa: E402  # skipped as a whole without the library

pytestmark = pytest.mark.long


@contextmanager
def hidden_symbols() -> Iterator[None]:
    """Within it, the library is a build that does not show its C functions."""
    with mock.patch("compressed_array.codecs._clib.lz4_block", return_value=None):
        yield


def decoded_or_none(payload: bytes, size: int) -> bytes | None:
    """What a batch of one payload decodes to, or None if it is refused; the memory around is watched."""
    guarded = np.full(size + 128, 0xA5, np.uint8)
    try:
        LZ4Block().decode_batch(
            Payloads.from_parts([np.frombuffer(payload, np.uint8)]), guarded[64 : 64 + size].reshape(1, size)
        )
    except CorruptPayloadError:
        return None
    finally:
        assert (guarded[:64] == 0xA5).all()
        assert (guarded[64 + size :] == 0xA5).all()
    return guarded[64 : 64 + size].tobytes()


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 60)), max_size=20),
    st.sampled_from([-50, -1, 0, 1, 9, 12]),
)
def test_batch_decodes_what_the_library_encodes(pieces: list[tuple[bytes, int]], level: int) -> None:
    """Matches of every offset, also those that reach into what they write, literals of every length."""
    raw = b"".join(piece * times for piece, times in pieces)
    payload = LZ4Block(level).encode(raw)
    assert decoded_or_none(payload, len(raw)) == raw
    with hidden_symbols():
        assert decoded_or_none(payload, len(raw)) == raw


def test_batch_and_library_agree_on_mutations() -> None:
    """A batch refuses what a single call refuses, whether it goes through the C functions or not."""
    rng = np.random.default_rng(12)
    data = np.repeat(rng.integers(0, 5, 300, np.uint8), rng.integers(1, 40, 300)).tobytes()
    for bad in mutations(LZ4Block().encode(data), 3000):
        try:
            expected = bytes(LZ4Block().decode(bad, out=bytearray(len(data))))
        except CorruptPayloadError:
            expected = None
        assert decoded_or_none(bad, len(data)) == expected
        with hidden_symbols():
            assert decoded_or_none(bad, len(data)) == expected


@given(st.binary(max_size=200), st.integers(0, 500), st.booleans())
def test_batch_survives_any_bytes(body: bytes, size: int, hidden: bool) -> None:
    with hidden_symbols() if hidden else nullcontext():
        decoded_or_none(size.to_bytes(4, "little") + body, size)


@pytest.mark.parametrize("level", [-9, -1, 0, 1, 12])
def test_batch_writes_what_single_calls_write(level: int) -> None:
    """A batch goes past the library's Python interface where it can: the bytes are the same."""
    rng = np.random.default_rng(1)
    records = np.repeat(rng.integers(0, 9, (20, 500), np.uint8), 9, axis=1)
    codec = LZ4Block(level)
    payloads = codec.encode_batch(records)
    assert [payloads[i].tobytes() for i in range(20)] == [codec.encode(r) for r in records]


def test_batch_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numba, batches go through the library record by record."""
    monkeypatch.setattr("compressed_array.codecs.lz4.native", lambda module: None)
    records = np.repeat(np.arange(20, dtype=np.uint8)[:, None], 500, axis=1)
    codec, out = LZ4Block(), np.empty_like(records)
    codec.decode_batch(codec.encode_batch(records), out)
    assert (out == records).all()


@pytest.mark.parametrize("codec", [LZ4Block(), LZ4Frame()])
def test_huge_claim_is_refused(codec: LZ4Block | LZ4Frame) -> None:
    """A size in the header is checked before memory is taken for it."""
    payload = bytearray(codec.encode(bytes(100)))
    claim = payload.index((100).to_bytes(4, "little"))
    payload[claim : claim + 4] = (2**31 - 1).to_bytes(4, "little")
    with pytest.raises(CorruptPayloadError):
        codec.decode(payload)
