"""Law 2: a value that does not fit is refused; nothing is cast, clipped or stretched that would change it."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import compressed_array as ca
from compressed_array._runtime.casting import cast_exactly
from core_helpers.arrays import assert_same


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([300, -5]), "u1"), (300, "u1"), (-1, "u8"), (2**63, "i8"), (2**64, "u8"), (10**30, "i8"),
        (1.5, "i4"), (np.nan, "i4"), (np.inf, "u1"), (2.0**63, "i8"), (2.0**64, "u8"), (-0.5, "?"), (2, "?"),
        (1e300, "f4"), (70000.0, "f2"), (2**53 + 1, "f8"), (2**24 + 1, "f4"), (2**64 - 1, "f8"), (1 + 2j, "f8"),
        (1e300 + 0j, "c8"), ("longer", "U3"), (b"longer", "S3"),
        (np.datetime64("2020-01-01T00:00:01"), "M8[D]"), (np.timedelta64(1500, "ms"), "m8[s]"),
        (np.array((1, 300), [("a", "i4"), ("b", "i4")]), [("a", "i4"), ("b", "u1")]),
        (np.array((2**53 + 1,), [("a", "i8")]), [("a", "f8")]), ((1.7, b"a"), [("a", "i4"), ("s", "S3")]),
        ((1, b"abcdef"), [("a", "i4"), ("s", "S3")]), ((1, 1e300), [("a", "i4"), ("f", "f4")]), (300, [("a", "u1")]),
        ([(1, 2), (3, 300)], [("a", "u1"), ("b", "u1")]), (([1, 300],), [("a", "u1", (2,))]),
        (np.datetime64("3000-01-01", "s"), "M8[ns]"), (np.timedelta64(10**15, "D"), "m8[ns]"),
        ("2020-01-01T00:00:01.5", "M8[s]"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(value: Any, dtype: Any) -> None:
    array = ca.full((3, 2), np.zeros((), dtype)[()], dtype)
    before = array.read()
    with pytest.raises(ca.LossyWriteError, match="dtype"):
        array[1] = value
    with pytest.raises(ca.LossyWriteError, match="dtype"):
        array[:2, 1] = value
    with pytest.raises(ca.LossyWriteError, match="dtype"):
        array[[0, 1], [0, 1]] = value
    assert_same(array, before)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([0, 255], "u1"), (2.0, "i4"), (True, "f4"), (1, "?"), (0.1, "f4"), (np.float64(1e-300), "f4"),
        (np.inf, "f2"), (np.nan, "f2"), (2**53, "f8"), (np.array([3 + 0j, 2]), "f4"), ("abc", "U3"), ("ab", "U3"),
        (np.datetime64("NaT"), "M8[s]"),
        (np.datetime64("2020-01-02", "D"), "M8[ns]"), (np.array([1, 2], ">i4"), "<i4"),
        (datetime.date(2020, 1, 1), "M8[us]"), ("2020-01-01", "M8[us]"), ((1, b"ab"), [("a", "i4"), ("s", "S3")]),
        ([(1, 2), (3, 4)], [("a", "u1"), ("b", "f4")]), (7, [("a", "u1"), ("b", "f4", (2,))]),
        (((1, 2), 3), [("p", [("x", "u1"), ("y", "u1")]), ("q", "f8")]),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_that_fits_is_stored_as_numpy_stores_it(value: Any, dtype: str) -> None:
    expected, array = np.zeros((3, 2), dtype), ca.zeros((3, 2), dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns when it makes a real number of a complex one
        expected[1] = value
    array[1] = value
    assert_same(array, expected)


def test_integers_that_only_a_long_double_can_hold() -> None:
    array = ca.zeros(1, np.longdouble)
    if np.finfo(np.longdouble).nmant >= 63:
        array[0] = 2**63 - 1
        assert int(array[0]) == 2**63 - 1


@given(st.data())
def test_what_is_let_through_has_the_same_value(data: st.DataObject) -> None:
    numbers = st.sampled_from([np.dtype(c) for c in "?bBhHiIqQefdFD"])
    value = data.draw(hnp.arrays(data.draw(numbers), 3))
    dtype = data.draw(numbers)
    try:
        stored = cast_exactly(value, dtype)
    except ca.LossyWriteError:
        return
    assert stored.dtype == dtype
    for one, two in zip(value.tolist(), stored.tolist(), strict=True):
        both_floats = value.dtype.kind == dtype.kind and dtype.kind in "fc"
        assert one == two or one != one or (both_floats and np.allclose(one, two, rtol=1e-2, atol=1e-4))


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (0, (3, 4, 5)), (0, (2, 4, 6)), (0, (3, 2, 4, 5)), (slice(None), (2, 2, 4, 5)), ([0, 1], (3, 2, 4, 5)),
        ((0, 0), (5, 4)), ((..., 0), (3, 2, 5)), (([0, 1], [0, 1], [0, 1]), (3, 5)),
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_shape_is_refused(key: Any, shape: tuple[int, ...]) -> None:
    array = ca.full((3, 2, 4, 5), 7, np.uint8, item_ndim=2)
    with pytest.raises(ValueError, match="broadcast"):
        np.zeros((3, 2, 4, 5))[key] = np.ones(shape)
    with pytest.raises(ValueError, match="broadcast"):
        array[key] = np.ones(shape, np.uint8)
    assert (array == 7).all()


def test_a_batch_of_one_env_is_not_stretched_over_a_row_of_two() -> None:
    """numpy would; it is always a mistake here, and a whole environment's data lost."""
    array = ca.full((10, 2, 4, 5), 7, np.uint8, item_ndim=2)
    with pytest.raises(ValueError, match="without that axis"):
        array[0] = np.ones((1, 4, 5), np.uint8)
    for key, shape in [
        ((slice(None), slice(None), 0), (1, 2, 5)),
        ((slice(None), slice(None), [0, 1]), (10, 1, 2, 5)),
        (([0, 1, 2], slice(None), 0), (3, 1, 5)),
        (([0, 1, 2], [1, 0, 1], [1, 2, 3]), (1, 5)),
    ]:
        with pytest.raises(ValueError, match="without that axis"):
            array[key] = np.ones(shape, np.uint8)
    assert (array == 7).all()
    array[0] = np.ones((4, 5), np.uint8)  # said plainly, it is what was asked for
    assert (array[0] == 1).all()


def test_the_callers_value_is_left_alone() -> None:
    value = np.arange(20, dtype=np.int64).reshape(4, 5)
    ca.zeros((3, 4, 5), np.uint8)[1] = value
    assert_same(value, np.arange(20, dtype=np.int64).reshape(4, 5))
