"""Law 2: a value that does not fit is refused; nothing is cast, clipped or stretched that would change it."""

from __future__ import annotations

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
from core_helpers.values import DOES_NOT_FIT, FITS


@pytest.mark.parametrize(("value", "dtype"), DOES_NOT_FIT, ids=repr)
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


@pytest.mark.parametrize(("value", "dtype"), FITS, ids=repr)
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
    may_round = value.dtype.kind + dtype.kind in ("ff", "fc", "cc", "cf")
    for before, after in [(value.real, stored.real), (value.imag, stored.imag)]:
        for one, two in zip(before.tolist(), after.tolist(), strict=True):
            assert one == two or one != one or (may_round and np.allclose(one, two, rtol=1e-2, atol=1e-4))


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
