"""Values on their way into an array: tensors of its dtype, by the rule of `_runtime.casting`, or a refusal."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import torch

from compressed_array._runtime import casting
from compressed_array._runtime.types import is_compressed
from compressed_array.errors import LossyWriteError
from compressed_array.torch._dtypes import kind_of, numpy_dtype_or_none
from compressed_array.torch._sync import fetch, on_host

# Dtypes to which torch rounds any float once, as numpy does; a float64 on its way to two bytes it rounds twice.
ROUNDED_AS_BY_NUMPY = (torch.float32, torch.float64)
EVERY_FLOAT_HOLDS = 1 << 24  # float32 and float64 hold all integers up to here


def as_tensor(value: Any) -> torch.Tensor:
    """Returns a value as a tensor of plain numbers, without a copy if there is a way."""
    if isinstance(value, np.ndarray):
        if value.dtype.char == "Q":
            value = value.view(np.uint64)  # which numpy takes for the same, and torch does not
        if any(stride < 0 for stride in value.strides):
            value = np.ascontiguousarray(value)  # torch does not go backwards
    tensor = torch.as_tensor(value).detach()
    return tensor.resolve_conj().resolve_neg() if tensor.is_complex() else tensor


def cast_exactly(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """Returns a value as a tensor of `dtype` with the same values; raises `LossyWriteError` if there is none.

    It is the rule by which a `DeviceArray` takes values. A float may be rounded to a shorter one, but not to infinity.

    Args:
        value: A tensor on any device, which it stays on, an array, a compressed array, a number, lists of numbers, or
            what numpy takes for an array.
        dtype: The dtype of torch that the values have to fit.

    >>> import torch
    >>> from compressed_array.torch import cast_exactly
    >>> cast_exactly([2.0, 255.0], torch.uint8)
    tensor([  2, 255], dtype=torch.uint8)
    >>> cast_exactly(torch.tensor([0.1], dtype=torch.float64), torch.float32)
    tensor([0.1000])
    """
    if isinstance(value, torch.Tensor):
        tensor = as_tensor(value)
        if tensor.dtype == dtype:
            return tensor
        cast = _cast_at_a_glance(tensor, dtype)
        if cast is not None:
            return cast
        if tensor.device.type != "cpu" or numpy_dtype_or_none(tensor.dtype) is None:
            return cast_tensor_exactly(tensor, dtype)
        array = tensor.numpy()
    else:
        array = value.read() if is_compressed(value) else np.asarray(value)
    host_dtype = numpy_dtype_or_none(dtype)
    if host_dtype is None:
        return cast_tensor_exactly(as_tensor(array), dtype)
    return as_tensor(casting.cast_exactly(array, host_dtype))


def cast_tensor_exactly(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Does what `cast_exactly` does, for tensors that numpy does not know; waits for their device."""
    source = _comparable(tensor)
    if source.is_complex() and not dtype.is_complex:
        _refuse(source.imag != 0, tensor, dtype)
        source = source.real
    cast = source.to(dtype)
    back = (cast.real if dtype.is_complex and not source.is_complex() else cast).to(source.dtype)
    kinds = kind_of(source.dtype), kind_of(dtype)
    integers = next((torch.iinfo(d) for d in (source.dtype, dtype) if kind_of(d) in "iu"), None)
    shown = _comparable(cast)
    _refuse(casting.changed_by_cast(torch, source, shown, back, kinds, integers), tensor, dtype)
    if kinds[0] in "iu":  # an infinity may come back as the largest integer there is
        _refuse(torch.isinf(shown), tensor, dtype)
    return cast


def _cast_at_a_glance(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """Returns numbers as floats, if one look at all of them shows that they fit, as it mostly does; else None."""
    if dtype not in ROUNDED_AS_BY_NUMPY or not tensor.numel():
        return None
    if kind_of(tensor.dtype) == "f":
        rounded = tensor.to(dtype)
        return rounded if isfinite(on_host(rounded.sum()).item()) else None  # a sum is finite of finite numbers only
    if tensor.dtype in (torch.int64, torch.int32):
        low, high = fetch(torch.stack(torch.aminmax(tensor)))[0]
        return tensor.to(dtype) if low >= -EVERY_FLOAT_HOLDS and high <= EVERY_FLOAT_HOLDS else None
    return None


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the same values in a dtype that torch compares, which it does not do for all of them."""
    if tensor.is_complex() or not tensor.is_floating_point():
        return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor
    return tensor.to(torch.float32) if tensor.dtype.itemsize <= torch.bfloat16.itemsize else tensor


def _refuse(changed: torch.Tensor, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    if fetch(changed.any())[0][0]:
        culprit = on_host(tensor)[on_host(changed)].reshape(-1)[0].item()
        raise LossyWriteError(casting.lossy_write_message(culprit, f"{dtype}"))
