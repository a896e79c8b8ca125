"""Values on their way into an array: tensors of its dtype, by the rule of `_runtime.casting`, or a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from compressed_array._runtime.casting import cast_exactly, changed_by_cast, does_not_fit
from compressed_array._runtime.types import is_compressed
from compressed_array.errors import LossyWriteError
from compressed_array.torch._dtypes import kind_of, numpy_dtype_or_none


def as_tensor(value: Any) -> torch.Tensor:
    """Returns a value as a tensor of plain numbers, without a copy if there is a way."""
    if isinstance(value, np.ndarray):
        if value.dtype.char == "Q":
            value = value.view(np.uint64)  # which numpy takes for the same, and torch does not
        if any(stride < 0 for stride in value.strides):
            value = np.ascontiguousarray(value)  # torch does not go backwards
    tensor = torch.as_tensor(value).detach()
    return tensor.resolve_conj().resolve_neg() if tensor.is_complex() else tensor


def as_tensor_of(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """Returns a value as a tensor of `dtype`; raises `LossyWriteError` if that does not hold it.

    Args:
        value: A tensor on any device, an array, a compressed array, a number, lists of numbers, or what numpy takes for
            an array.
    """
    if isinstance(value, torch.Tensor):
        tensor = as_tensor(value)
        if tensor.dtype == dtype:
            return tensor
        if tensor.device.type != "cpu" or numpy_dtype_or_none(tensor.dtype) is None:
            return cast_tensor_exactly(tensor, dtype)
        array = tensor.numpy()
    else:
        array = value.read() if is_compressed(value) else np.asarray(value)
    on_host = numpy_dtype_or_none(dtype)
    if on_host is None:
        return cast_tensor_exactly(as_tensor(array), dtype)
    return as_tensor(cast_exactly(array, on_host))


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
    _refuse(changed_by_cast(torch, source, shown, back, kinds, integers), tensor, dtype)
    if kinds[0] in "iu":  # an infinity may come back as the largest integer there is
        _refuse(torch.isinf(shown), tensor, dtype)
    return cast


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the same values in a dtype that torch compares, which it does not do for all of them."""
    if tensor.is_complex() or not tensor.is_floating_point():
        return tensor.to(torch.complex64) if tensor.dtype == torch.complex32 else tensor
    return tensor.to(torch.float32) if tensor.dtype.itemsize <= torch.bfloat16.itemsize else tensor


def _refuse(changed: torch.Tensor, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    if bool(changed.any()):
        raise LossyWriteError(does_not_fit(tensor[changed].reshape(-1)[0].item(), f"{dtype}"))
