"""Law 2 for arrays on a device: what the host refuses is refused here, and what it stores is the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import compressed_array as ca
from compressed_array import dtypes
from compressed_array.torch import DeviceArray, cast_exactly, numpy_dtype_to_torch
from compressed_array.torch._values import as_tensor, cast_tensor_exactly
from core_helpers.values import DOES_NOT_FIT, FITS
from device_helpers.device_streams import bits

CODECS = ["delta", "none"]
SHAPE = (3, 100, 2)  # of which an item, the last two axes, is too large to be kept as it is without being asked


def is_known_to_torch(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "biufc"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("value", "dtype"), [case for case in DOES_NOT_FIT if is_known_to_torch(case[1])], ids=repr)
def test_a_value_that_does_not_fit_is_refused(value: Any, dtype: Any, codec: str) -> None:
    array = DeviceArray(SHAPE, np.dtype(dtype), codec=codec)
    array[:] = 1
    before = bits(array[:])
    for key in (1, slice(0, 2), [0, 1], np.array([2, 1])):
        with pytest.raises(ca.LossyWriteError, match="dtype"):
            array[key] = value
    assert bits(array[:]) == before


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("value", "dtype"), [case for case in FITS if is_known_to_torch(case[1])], ids=repr)
def test_a_value_that_fits_is_stored_as_numpy_stores_it(value: Any, dtype: str, codec: str) -> None:
    expected, array = np.zeros(SHAPE, dtype), DeviceArray(SHAPE, np.dtype(dtype), codec=codec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns when it makes a real number of a complex one
        expected[1] = value
    array[1] = value
    assert array[:].numpy().tobytes() == expected.tobytes()


@given(st.data())
def test_tensors_are_cast_by_the_rule_for_arrays(data: st.DataObject) -> None:
    """On a device torch does what numpy does on the host, and a tensor of the host is treated as an array is."""
    numbers = st.sampled_from([np.dtype(c) for c in "?bBhHiIqQefdFD"])
    value = data.draw(hnp.arrays(data.draw(numbers), 3))
    dtype, tensor = data.draw(numbers), as_tensor(value)
    for cast in (cast_exactly, cast_tensor_exactly):
        try:
            expected = dtypes.cast_exactly(value, dtype)
        except ca.LossyWriteError:
            with pytest.raises(ca.LossyWriteError, match="does not fit"):
                cast(tensor, numpy_dtype_to_torch(dtype))
        else:
            np.testing.assert_array_equal(cast(tensor, numpy_dtype_to_torch(dtype)), expected)


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (0.1, torch.bfloat16, True), (float("nan"), torch.bfloat16, True), (1e39, torch.bfloat16, False),
        (257, torch.bfloat16, False), (0.5, torch.float8_e4m3fn, True), (float("nan"), torch.float8_e4m3fn, True),
        (0.1, torch.float8_e4m3fn, False), (1e9, torch.float8_e4m3fn, False), (1e9, torch.float8_e5m2, False),
        (-(2**63), torch.float8_e5m2, False), (2**31, torch.float8_e5m2, False), (4, torch.float8_e5m2, True),
    ],
    ids=repr,
)  # fmt: skip
def test_dtypes_that_numpy_lacks(value: Any, dtype: torch.dtype, *, fits: bool) -> None:
    array = DeviceArray((3, 100), dtype)
    if not fits:
        with pytest.raises(ca.LossyWriteError, match="does not fit"):
            array[1] = value
        assert not array[:].float().any()
        return
    array[1] = value
    expected = torch.tensor(value).to(dtype).expand(100)
    assert bits(array[1]) == bits(expected)
    other = DeviceArray((3, 100), torch.float32)
    other[1] = expected
    assert torch.equal(other[1].nan_to_num(7), expected.float().nan_to_num(7))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("key", "shape"),
    [(0, (3, 40, 50)), (0, (2, 40, 60)), (0, (3, 2, 40, 50)), (slice(None), (2, 2, 40, 50)), ([0, 1], (3, 2, 40, 50))],
    ids=repr,
)
def test_a_wrong_shape_is_refused(key: Any, shape: tuple[int, ...], codec: str) -> None:
    array = DeviceArray((3, 2, 40, 50), torch.uint8, item_ndim=2, codec=codec)
    array[:] = 7
    with pytest.raises(ValueError, match="broadcast"):
        np.zeros((3, 2, 40, 50))[key] = np.ones(shape)
    for value in (np.ones(shape, np.uint8), torch.ones(shape, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="broadcast"):
            array[key] = value
    assert (array[:] == 7).all()


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_one_env_is_not_stretched_over_a_row_of_two(codec: str) -> None:
    array = DeviceArray((10, 2, 40, 50), torch.uint8, item_ndim=2, codec=codec)
    array[:] = 7
    for key, shape in [
        (0, (1, 40, 50)),
        (slice(None), (1, 2, 40, 50)),
        (slice(None), (10, 1, 40, 50)),
        (([0, 1, 2], [1, 0, 1]), (1, 40, 50)),
        ((torch.tensor([0, 1]), slice(None)), (2, 1, 40, 50)),
    ]:
        for value in (np.ones(shape, np.uint8), torch.ones(shape, dtype=torch.uint8)):
            with pytest.raises(ValueError, match="without that axis"):
                array[key] = value
    assert (array[:] == 7).all()
    array[0] = torch.ones(40, 50, dtype=torch.uint8)  # said plainly, it is what was asked for
    array[1] = torch.ones(1, 2, 40, 50, dtype=torch.uint8)  # one axis too many, as numpy lets it pass
    assert (array[:2] == 1).all()
    assert (array[2:] == 7).all()
