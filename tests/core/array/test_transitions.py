"""`TransitionReader` beside reading each array by itself."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca

GRID = (7, 3)
CODECS = ["delta", "zstd-3", "none"] if ca.has_zstd() else ["delta", "gzip", "none"]
DTYPES = ["uint8", "bool", "int64", "float32", "float64", "complex128", "datetime64[s]", "S3", "u1,f8"]


def pair(codec: str, item_shape: tuple[int, ...], dtype: str = "uint8", seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Two arrays on one store, and the same as plain ones; the last row is not written."""
    rng, shape = np.random.default_rng(seed), (*GRID, *item_shape)
    plain, others = (rng.integers(0, 3, shape).astype(dtype) for _ in range(2))
    plain[-1], others[-1] = 0, 0
    first = ca.zeros(shape, dtype, item_ndim=len(item_shape), codec=codec)
    second = ca.zeros(shape, dtype, item_ndim=len(item_shape), store=first.store)
    for row in range(GRID[0] - 1):
        ca.write_pair(first, second, row, plain[row], others[row])
    return first, second, plain, others


def flat(array: Any) -> Any:
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def column_of(dtype: str, item_shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    nbytes = int(np.prod((*GRID, *item_shape))) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.integers(0, 2, nbytes, np.uint8).tobytes(), dtype).reshape(*GRID, *item_shape)


@pytest.mark.parametrize("codec", CODECS)
@given(
    st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=2)), max_size=5),
    st.lists(st.integers(0, 20), max_size=40),
    st.integers(0, 9),
)
def test_a_batch_is_what_indexing_gives(
    codec: str, kinds: list[tuple[str, list[int]]], which: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    first, second, plain, others = pair(codec, (4, 6), seed=seed)
    columns = [column_of(dtype, tuple(shape) or (1,), rng) for dtype, shape in kinds]
    positions = np.array(which, np.int64)
    items, after, rows = ca.TransitionReader(first, second, columns).read(positions)
    assert np.array_equal(items, flat(plain)[positions])
    assert np.array_equal(after, flat(others)[positions])
    for row, column in zip(rows, columns, strict=True):
        expected = flat(column)[positions]
        assert (row.dtype, row.shape, row.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


def test_what_is_read_is_what_is_there_now() -> None:
    first, second, plain, _ = pair("delta", (8, 8))
    rewards = np.zeros((*GRID, 1), np.float32)
    reader = ca.TransitionReader(first, second, [rewards])
    first[2], rewards[2] = plain[4], 7
    items, _, (rows,) = reader.read(np.array([2 * 3 + 1]))
    assert np.array_equal(items[0], plain[4, 1])
    assert rows.tolist() == [[7.0]]


def test_rows_are_the_callers_to_change() -> None:
    first, second, *_ = pair("delta", (8, 8))
    rewards = np.ones((*GRID, 1))
    reader = ca.TransitionReader(first, second, [rewards, rewards])
    *_, (one, two) = reader.read(np.arange(5))
    one[...] = 9
    assert (rewards == 1).all()
    assert (two == 1).all()


@pytest.mark.parametrize("wrong", [[-1], [21], [0, 2**62], [-(2**63)]])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_a_position_that_is_not_there(wrong: list[int], dtype: Any) -> None:
    if max(map(abs, wrong)) > np.iinfo(dtype).max:
        wrong = [-5]
    first, second, *_ = pair("delta", (8, 8))
    with pytest.raises(IndexError, match="from 0 to 20"):
        ca.TransitionReader(first, second, [np.zeros(GRID)]).read(np.array(wrong, dtype))


@pytest.mark.parametrize("as_positions", [np.int32, lambda a: np.array(a)[::-1], lambda a: np.array(a, np.uint64)])
def test_positions_of_any_kind(as_positions: Any) -> None:
    first, second, plain, others = pair("delta", (8, 8))
    positions = as_positions([1, 5, 20, 5])
    items, after, _ = ca.TransitionReader(first, second, []).read(positions)
    assert np.array_equal(items, flat(plain)[positions])
    assert np.array_equal(after, flat(others)[positions])


def test_items_without_elements_and_views() -> None:
    empty = ca.zeros((*GRID, 0), np.uint8, item_ndim=1)
    items, *_ = ca.TransitionReader(empty, ca.zeros(empty.shape, np.uint8, item_ndim=1, store=empty.store), []).read(
        np.arange(3)
    )
    assert items.shape == (3, 0)
    first, second, plain, _ = pair("delta", (8, 8))
    for key in (slice(2, 5), slice(None, None, 2), (slice(None), slice(1, 2))):
        part, other = first[key], second[key]
        items, *_ = ca.TransitionReader(part, other, []).read(np.arange(3))
        assert np.array_equal(items, flat(plain[key])[:3])


def test_arrays_and_columns_that_do_not_belong_together() -> None:
    first, second, *_ = pair("delta", (8, 8))
    with pytest.raises(ValueError, match="on one store"):
        ca.TransitionReader(first, ca.zeros(first.shape, np.uint8, item_ndim=2), [])
    with pytest.raises(ValueError, match="alike"):
        ca.TransitionReader(first, second[:3], [])
    for column in (np.zeros((6, 3)), np.zeros((3, 7)).T, np.zeros(GRID, object), np.ma.zeros(GRID)):
        with pytest.raises(ValueError, match="a row for each cell"):
            ca.TransitionReader(first, second, [column])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda reader: pickle.loads(pickle.dumps(reader))])
def test_a_copy_reads_arrays_of_its_own(copied: Any) -> None:
    first, second, plain, _ = pair("delta", (8, 8))
    rewards = np.zeros(GRID)
    other = copied(ca.TransitionReader(first, second, [rewards]))
    first[...], rewards[...] = 0, 5
    items, _, (rows,) = other.read(np.arange(4))
    assert np.array_equal(items, flat(plain)[:4])
    assert not rows.any()
