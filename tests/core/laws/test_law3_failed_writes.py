"""Law 3: a write that fails changes nothing, wherever it fails."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import _heap
from compressed_array._runtime import chunks
from compressed_array.codecs.rle import RLE
from core_helpers.arrays import assert_same

PLAIN = np.random.default_rng(0).integers(0, 4, (40, 3, 50)).astype(np.uint8)
KEYS: list[Any] = [..., 3, [1, 2, 2], (slice(None), 1), (..., 0), ([0, 1], [1, 2], [3, 3]), PLAIN > 2]


class FailingCodec(RLE):
    """Run-length coding that runs into trouble at its n-th record."""

    codec_id = "failing"
    fuse: ClassVar[list[int]] = []

    def encode_batch(self, records: Any) -> Any:
        self.fuse[0] -= len(records)
        if self.fuse[0] < 0:
            raise RuntimeError("encoder broke")
        return super().encode_batch(records)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("fuse", [0, 1, 60])
def test_a_codec_that_breaks_in_the_middle(key: Any, fuse: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 10 * 50)  # many small batches, of which some succeed
    FailingCodec.fuse = [10**9]
    array = ca.compress(PLAIN, item_ndim=1, codec=FailingCodec())
    view, stored = array[::2], array.nbytes_stored
    FailingCodec.fuse = [fuse]
    try:
        array[key] = np.full(np.shape(PLAIN[key]), 9, np.uint8)
    except RuntimeError:
        assert_same(array, PLAIN)
        assert_same(view, PLAIN[::2])
    else:
        assert fuse, "no key can be written without encoding"
    FailingCodec.fuse = [10**9]
    array[...] = PLAIN
    assert_same(array, PLAIN)
    assert array.nbytes_stored <= 3 * stored + 2 * _heap.SMALLEST_SEGMENT


def test_memory_that_runs_out_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", 4096)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", 4096)
    array = ca.compress(PLAIN, item_ndim=1, codec="none")
    real, left = _heap.map_memory, [0]

    def scarce(nbytes: int) -> Any:
        if not left[0]:
            raise MemoryError("no memory for a segment")
        left[0] -= 1
        return real(nbytes)

    monkeypatch.setattr(_heap, "map_memory", scarce)
    with pytest.raises(MemoryError):
        array[...] = PLAIN + 1
    assert_same(array, PLAIN)
    left[0] = 10**6
    array[...] = PLAIN + 1
    assert_same(array, PLAIN + 1)


def test_a_value_that_turns_out_not_to_fit_after_most_of_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 500)
    array = ca.compress(PLAIN, item_ndim=1, codec="rle")
    value = PLAIN.astype(np.int64)
    value[-1, -1, -1] = 256
    with pytest.raises(ca.LossyWriteError):
        array[...] = value
    assert_same(array, PLAIN)


def test_an_array_protected_from_writes() -> None:
    array = ca.compress(PLAIN, item_ndim=1, codec="rle")
    array.setflags(write=False)
    for key in KEYS:
        with pytest.raises(ValueError, match="read-only"):
            array[key] = 1
        with pytest.raises(ValueError, match="read-only"):
            array[1:][0] = 1
    assert_same(array, PLAIN)
