"""Dtypes of numpy and of torch, one for the other, and those of an observation buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.dtypes import find_buffer_dtypes


def numpy_dtype_to_torch(dtype: npt.DTypeLike) -> torch.dtype:
    """The torch dtype that numbers of this numpy dtype keep their bits in."""
    wanted = np.dtype(dtype)
    found = getattr(torch, wanted.name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"torch has no dtype for numpy's {wanted}")
    return found


def torch_dtype_to_numpy(dtype: torch.dtype) -> np.dtype[Any]:
    """The numpy dtype that numbers of this torch dtype keep their bits in."""
    try:
        return np.dtype(torch.empty(0, dtype=dtype).numpy().dtype)
    except TypeError as error:
        raise TypeError(f"numpy has no dtype for {dtype}") from error


def numpy_dtype_or_none(dtype: torch.dtype) -> np.dtype[Any] | None:
    """The same, or None where numpy has none."""
    try:
        return torch_dtype_to_numpy(dtype)
    except TypeError:
        return None


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


def as_torch_dtype(dtype: Any) -> torch.dtype:
    """A dtype of torch, from that or one of numpy."""
    return dtype if isinstance(dtype, torch.dtype) else numpy_dtype_to_torch(dtype)


def find_gpu_buffer_dtypes(
    obs_shape: Any, elem_dtype: Any = torch.uint8, compression_method: str = "rle"
) -> dict[str, Any]:
    """The torch dtypes of an observation's elements and of their count: {"elem_type", "runs_type"}.

    As `find_buffer_dtypes`, for buffers on a device. Run lengths there are of two bytes at least.
    """
    found = find_buffer_dtypes(obs_shape, torch_dtype_to_numpy(as_torch_dtype(elem_dtype)), compression_method)
    return _as_torch(found)


def _as_torch(found: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(found.get("runs_type"), np.dtype):
        return {key: _as_torch(part) for key, part in found.items()}
    runs = max(found["runs_type"], np.dtype(np.uint16), key=lambda dtype: dtype.itemsize)
    return {"elem_type": numpy_dtype_to_torch(found["elem_type"]), "runs_type": numpy_dtype_to_torch(runs)}
