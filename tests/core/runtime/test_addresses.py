"""Where arrays lie, as kernels are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

native = pytest.importorskip(
    "compressed_array._runtime.numba_tools", reason="addresses are for kernels", exc_type=ImportError
)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4), np.float32),
        np.zeros((3, 4), ">f4"),
        np.zeros(100, np.uint8)[1:33].view("f4"),
        np.zeros((2,) * 7, np.uint8),
        np.zeros((4, 84, 84, 4), np.uint8).transpose(0, 3, 1, 2),
        np.zeros((4, 84, 84, 4), np.float64).transpose(0, 3, 1, 2),
        np.zeros(()),
        np.zeros((0, 3)),
        np.zeros((4, 6), np.float32)[:, ::-1],
        np.broadcast_to(np.zeros(3), (4, 3)),
        np.zeros(3, "V5"),
        np.zeros((3, 4), bool),
        np.frombuffer(bytes(12), np.uint8),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_an_address_is_what_numpy_says(array: Any) -> None:
    assert native.address_of(array) == array.__array_interface__["data"][0]
