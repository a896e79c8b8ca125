"""What an array refuses, a buffer refuses, too: a value that the dtype of its field does not hold changes nothing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array_torch as cat
from compressed_array.torch import numpy_dtype_to_torch
from compressed_array_torch._tensors import Kind, as_tensor
from core_helpers.values import DOES_NOT_FIT, FITS

BITS_OF_ANOTHER_SIGN: list[tuple[Any, Any]] = [
    (np.int8(-1), "u1"), (np.uint8(200), "i1"), (np.int64(-1), "u8"), (np.uint64(2**63), "i8"),
]  # fmt: skip
LANES = 2


def is_tensor(value: Any) -> bool:
    """Whether a tensor can be made of a value, as numpy sees it."""
    array = np.asarray(value)
    return array.dtype.kind in "biufc" and array.ndim < 2


def cases(listed: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns those values, and their dtypes, that there are tensors of."""
    return [(value, dtype) for value, dtype in listed if np.dtype(dtype).kind in "biufc" and is_tensor(value)]


def of_all_lanes(value: Any) -> torch.Tensor:
    """Returns a value as what all lanes show."""
    return as_tensor(np.broadcast_to(np.asarray(value), (LANES,)).copy())


@pytest.mark.parametrize(("value", "dtype"), cases(DOES_NOT_FIT + BITS_OF_ANOTHER_SIGN), ids=repr)
def test_a_value_that_does_not_fit_is_refused(value: Any, dtype: Any) -> None:
    wanted, bad, none = numpy_dtype_to_torch(dtype), of_all_lanes(value), torch.zeros(LANES, dtype=torch.bool)
    with pytest.raises(cat.StepError, match=r"hidden: .*does not fit dtype"):
        Kind("hidden", (), wanted, LANES).cast(bad)
    fields = {"hidden": cat.Field((), wanted)}
    buffer = cat.SequenceReplayBuffer(4, LANES, (), (), obs_dtype=wanted, length=1, fields=fields)
    good = {"obs": torch.ones(LANES).to(wanted), "hidden": torch.ones(LANES).to(wanted)}

    def add(obs: torch.Tensor, hidden: torch.Tensor) -> None:
        buffer.add(obs, none, none, terminated=none, truncated=none, next_obs=obs, hidden=hidden)

    add(**good)
    for name, field in (("obs", "observations"), ("hidden", "hidden")):
        with pytest.raises(cat.StepError, match=rf"{field}: .*does not fit dtype"):
            add(**good | {name: bad})
    batch = buffer.get(8)
    with pytest.raises(cat.StepError, match="does not fit dtype"):
        buffer.update(batch.indices[:1], hidden=bad[:1].reshape(1, 1))
    assert len(buffer) == 1
    for held in (batch, buffer.get(8)):
        assert (held.observations == 1).all()
        assert (held.extras["hidden"] == 1).all()


@pytest.mark.parametrize(("value", "dtype"), cases(FITS), ids=repr)
def test_a_value_that_fits_is_what_numpy_makes_of_it(value: Any, dtype: Any) -> None:
    given = of_all_lanes(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns when it makes a real number of a complex one
        expected = given.numpy().astype(dtype)
    cast = Kind("hidden", (), numpy_dtype_to_torch(dtype), LANES).cast(given)
    assert cast.numpy().tobytes() == expected.tobytes()


def test_a_float_is_rounded_to_a_float_but_not_to_infinity() -> None:
    rewards = Kind("rewards", (), torch.float32, LANES)
    infinite = torch.tensor([torch.inf, torch.nan], dtype=torch.float64)
    assert rewards.cast(infinite).tolist()[0] == torch.inf
    # All are finite, and their sum is not.
    assert rewards.cast(torch.full((LANES,), 3e38, dtype=torch.float64)).isfinite().all()
    with pytest.raises(cat.StepError, match=r"rewards: .*does not fit"):
        rewards.cast(torch.tensor([1.0, 1e300], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_integer_becomes_a_float_that_equals_it_or_is_refused(dtype: torch.dtype) -> None:
    kind = Kind("actions", (), dtype, LANES)
    for value in (1 << 24, 1 << 25, -(1 << 24), 0, 1 << 62):
        assert kind.cast(torch.tensor([value, 1])).tolist() == [value, 1]
    for value in ((1 << 53) + 1, -(1 << 53) - 1, (1 << 63) - 1):
        with pytest.raises(cat.StepError, match=r"actions: .*does not fit"):
            kind.cast(torch.tensor([1, value]))
    assert kind.cast(torch.empty(0, dtype=torch.int64)).dtype == dtype
