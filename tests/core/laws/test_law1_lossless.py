"""Law 1: what comes out is bit for bit what went in, for every dtype numpy has but object."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import compressed_array as ca
from core_helpers.arrays import DTYPES, assert_same, random_bits


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_bits_of_any_dtype(codec: str, dtype: np.dtype[Any], rng: np.random.Generator) -> None:
    plain = random_bits((6, 2, 9), dtype, rng)
    plain[2:4] = plain[2, 0, 0]
    array = ca.compress(plain, item_ndim=1, codec=codec)
    assert array.dtype == dtype
    assert_same(array, plain)
    assert_same(array[[5, 0, 3]], plain[[5, 0, 3]])
    again = ca.zeros(plain.shape, dtype, item_ndim=2, codec=codec)
    for i in (3, 1, 5, 0, 2, 4):
        again[i] = plain[i]
    assert_same(again, plain)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", "<c8", "<c16"])
def test_negative_zero_and_the_payloads_of_nans(codec: str, dtype: str) -> None:
    kind = np.dtype(dtype)
    words = {2: "<u2", 4: "<u4", 8: "<u8"}[kind.itemsize // (2 if kind.kind == "c" else 1)]
    top = np.iinfo(words).max
    bits = np.array([0, top ^ (top >> 1), top, top >> 1, top - 1, 1] * 20, words)
    plain = np.stack([bits, bits[::-1]]).view(dtype)
    assert_same(ca.compress(plain, codec=codec), plain)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3), (), (1,), (5,), (2, 3, 0)])
@pytest.mark.parametrize("dtype", ["u1", "<f8", "V0", "S"])
def test_empty_and_tiny_shapes(codec: str, shape: tuple[int, ...], dtype: str) -> None:
    plain = np.zeros(shape, dtype)
    for item_ndim in range(len(shape) + 1):
        array = ca.compress(plain, item_ndim=item_ndim, codec=codec)
        assert array.shape == plain.shape
        assert array.dtype == plain.dtype
        assert_same(array, plain)
        array[...] = plain
        assert_same(array.copy(), plain)


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=1, max_dims=4, max_side=6)), st.data())
def test_any_array(plain: np.ndarray[Any, Any], data: st.DataObject) -> None:
    item_ndim = data.draw(st.integers(0, plain.ndim))
    codec = data.draw(st.sampled_from(["rle", "gzip", "none", "auto"]))
    assert_same(ca.compress(plain, item_ndim=item_ndim, codec=codec), plain)


def test_memory_of_any_layout_is_read_right(codec: str, rng: np.random.Generator) -> None:
    channel_last = rng.integers(0, 9, (5, 12, 10, 3)).astype(np.uint8)
    channel_first = channel_last.transpose(0, 3, 1, 2)  # what VecTransposeImage hands to a buffer
    array = ca.zeros(channel_first.shape, np.uint8, item_ndim=3, codec=codec)
    array[...] = channel_first
    assert_same(array, channel_first)
    array[::2] = channel_first[::-2]
    array[1] = np.asfortranarray(channel_first[4])
    expected = channel_first.copy()
    expected[::2] = channel_first[::-2]
    expected[1] = channel_first[4]
    assert_same(array, expected)


def test_objects_are_refused_by_name() -> None:
    for dtype in (object, [("a", "u1"), ("b", object)]):
        with pytest.raises(ca.UnsupportedDtypeError, match="Python objects"):
            ca.zeros((2, 2), dtype)
    with pytest.raises(ca.UnsupportedDtypeError):
        ca.compress([None, 1])
    with pytest.raises(ca.UnsupportedDtypeError, match="fixed width"):
        ca.zeros(3, np.dtypes.StringDType())
