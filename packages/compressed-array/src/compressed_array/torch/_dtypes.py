"""Dtypes of numpy and of torch, one for the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

# Integers to see the bits of elements as, by the size of an element.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def numpy_dtype_to_torch(dtype: npt.DTypeLike) -> torch.dtype:
    """Returns the torch dtype that numbers of a numpy dtype keep their bits in; raises `TypeError` if there is none.

    Args:
        dtype: A dtype of numpy, or what numpy takes for one.

    >>> from compressed_array.torch import numpy_dtype_to_torch
    >>> numpy_dtype_to_torch("float32")
    torch.float32
    """
    wanted = np.dtype(dtype)
    found = getattr(torch, wanted.name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"torch has no dtype for numpy's {wanted}")
    return found


def torch_dtype_to_numpy(dtype: torch.dtype) -> np.dtype[Any]:
    """Returns the numpy dtype that numbers of a torch dtype keep their bits in; raises `TypeError` if there is none.

    Args:
        dtype: A dtype of torch.

    >>> import torch
    >>> from compressed_array.torch import torch_dtype_to_numpy
    >>> torch_dtype_to_numpy(torch.float32)
    dtype('float32')
    """
    try:
        return np.dtype(torch.empty(0, dtype=dtype).numpy().dtype)
    except TypeError as error:
        raise TypeError(f"numpy has no dtype for {dtype}") from error


def numpy_dtype_or_none(dtype: torch.dtype) -> np.dtype[Any] | None:
    """Returns what `torch_dtype_to_numpy` does, or None if numpy has no such dtype."""
    try:
        return torch_dtype_to_numpy(dtype)
    except TypeError:
        return None


def as_torch_dtype(dtype: Any) -> torch.dtype:
    """Returns a dtype of torch, given that or one of numpy."""
    return dtype if isinstance(dtype, torch.dtype) else numpy_dtype_to_torch(dtype)


def kind_of(dtype: torch.dtype) -> str:
    """Returns numpy's letter for the kind of numbers that a dtype is of; "V" for floats of a byte.

    Those are made to be packed tightly, and what torch makes of a number beyond them depends on the format.
    """
    if dtype == torch.bool:
        return "b"
    if dtype.is_complex:
        return "c"
    if dtype.is_floating_point:
        return "f" if dtype.itemsize > 1 else "V"
    return "i" if dtype.is_signed else "u"
