"""Reading and writing by every kind of key gives what the plain array gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from core_helpers.arrays import assert_same, keys

pytestmark = pytest.mark.same_everywhere

SHAPE = (4, 3, 2, 5)
PLAIN = np.random.default_rng(0).integers(0, 3, SHAPE).astype(np.uint8)
KEYS: list[Any] = [
    0, -1, slice(1, 3), (), ..., None, True, False, [], [True, False, True, True],
    (0, 0), (0, 0, 0, 0), (slice(None), 1), (..., 0), (0, ...), (None, 0), (0, None), (0, 0, None), (..., None),
    (slice(None, None, -1), slice(None, None, 2)), (3, 2, slice(0, 0)), slice(5, 2), (np.int64(1), np.array(2)),
    np.array([0, 2, 2]), np.array([[0, 1], [2, 3]]), ([0, 2], [1, 1]), ([0, 2], slice(None), 1),
    (slice(None), [0, 2], slice(None), 3), (slice(None), slice(None), [0, 1]), (0, slice(None), [0, 1]),
    ([0, 1], [1, 2], [1, 0], [2, 2]), ([0, 1], None, [1, 1]), (..., [0, 1], slice(None)), (0, 1, [0, 1]),
    (slice(0, 2), slice(None), None, 0), (slice(None), slice(None), slice(0, 2), slice(None, None, -2)),
    PLAIN[:, 0, 0, 0] > 0, PLAIN[:, :, 0, 0] > 0, PLAIN[:, :, :, 0] > 0, PLAIN > 1, (True, 0),
    (slice(None), [0, 1], ..., [0, 1], [0, 2]), ([0, 1], [0, 1], [0, 1], ..., 2), (slice(0, 1), 1, [], ..., -4),
    (..., np.array([True, False, True, True, False])), (np.array([0, 2]), np.array([1, 1]), slice(None)),
]  # fmt: skip


@pytest.mark.parametrize("item_ndim", range(5))
@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_key_reads_and_writes_as_on_the_plain_array(key: Any, item_ndim: int) -> None:
    array = ca.compress(PLAIN, item_ndim=item_ndim, codec="rle")
    assert_same(array[key], PLAIN[key])
    assert_same(array.read(key), np.asarray(PLAIN[key]))
    for value in (np.arange(np.size(PLAIN[key]), dtype=np.uint8).reshape(np.shape(PLAIN[key])), 7):
        expected, changed = PLAIN.copy(), array.copy()
        expected[key] = value
        changed[key] = value
        assert_same(changed, expected)
    assert_same(array, PLAIN)


@given(st.data(), st.integers(0, 4))
def test_any_key_reads_and_writes_as_on_the_plain_array(data: st.DataObject, item_ndim: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=4, max_size=4)))
    expected = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    array = ca.compress(expected, item_ndim=item_ndim, codec="none")
    key = data.draw(keys(shape))
    assert_same(array[key], expected[key])
    value = -1 - np.arange(np.size(expected[key]), dtype=np.int32).reshape(np.shape(expected[key]))
    expected[key] = value
    array[key] = value
    assert_same(array, expected)


@pytest.mark.parametrize(
    "key", [4, -5, (0, 0, 0, 0, 0), (..., ...), 1.5, "name", np.zeros(3, bool), [[0, 9]], (0, 3)], ids=repr
)
def test_a_bad_key_is_the_same_error_as_numpys(key: Any) -> None:
    array = ca.compress(PLAIN, item_ndim=2, codec="none")
    with pytest.raises(IndexError):
        PLAIN[key]
    with pytest.raises(IndexError):
        array[key]
    with pytest.raises(IndexError):
        array[key] = 1
    assert_same(array, PLAIN)


def test_slices_of_the_grid_are_views_that_write_through() -> None:
    array, expected = ca.compress(PLAIN, item_ndim=2, codec="none"), PLAIN.copy()
    for target in (array, expected):
        target[1:][:, ::2].swapaxes(0, 1)[0, -1] = 9
        target.transpose(1, 0, 2, 3)[2, 0] = 8
        target.reshape(12, 2, 5)[3] = 7
    assert_same(array, expected)
    assert isinstance(array[1:, 0], ca.CompressedArray)
    assert np.shares_memory(array[1:], array[2:])
    assert not np.shares_memory(array, array.copy())


def test_where_numpy_would_write_through_and_we_cannot_the_answer_is_read_only() -> None:
    array = ca.compress(PLAIN, item_ndim=2, codec="none")
    for view in (array[0, 0], array[:, :, 0], array[0, 0, 1:], array.T, array.reshape(-1), array[..., None]):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 1
    array[[0, 1]][...] = 1  # numpy gives a copy here, and so do we
    assert_same(array, PLAIN)


def test_a_copy_that_reshape_has_to_make_is_independent_as_numpys_is() -> None:
    array, expected = ca.compress(PLAIN, item_ndim=2, codec="rle"), PLAIN.copy()
    flat, flat_expected = array.swapaxes(0, 1).reshape(12, 2, 5), expected.swapaxes(0, 1).reshape(12, 2, 5)
    assert isinstance(flat, ca.CompressedArray)
    for a, f in ((array, flat), (expected, flat_expected)):
        a[2] = 50
        f[4] = 60
    assert_same(flat, flat_expected)
    assert_same(array, expected)


def test_fields_of_records_are_read_and_written_by_name() -> None:
    expected = np.zeros((3, 2), [("x", "<f4"), ("y", "u1")])
    array = ca.compress(expected, item_ndim=1)
    for target in (array, expected):
        target["x"] = 1.5
        target[1, 0] = (2.5, 3)
    assert_same(array, expected)
    assert_same(array["y"], expected["y"])
    assert_same(array[["y"]], expected[["y"]])


def test_read_decodes_into_memory_of_the_callers_choice() -> None:
    array = ca.compress(PLAIN, item_ndim=2, codec="rle")
    out = np.empty((2, 3, 2, 5), np.uint8)
    assert array.read([0, 2], out=out) is out
    assert_same(out, PLAIN[[0, 2]])
    scattered = np.empty((5, 2, 3, 2), np.uint8).transpose(1, 2, 3, 0)
    assert_same(array.read([0, 2], out=scattered), PLAIN[[0, 2]])
    with pytest.raises(ValueError, match="out is"):
        array.read(0, out=np.empty((2, 3, 2, 5), np.uint8))
    with pytest.raises(ValueError, match="out is"):
        array.read([0, 2], out=np.empty((2, 3, 2, 5), np.int8))
