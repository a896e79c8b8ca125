"""Values on their way in and out: numpy's and torch's dtypes, and memory that both share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.errors import LossyWriteError
from compressed_array.torch import cast_exactly
from compressed_array_torch.errors import StepError

Array = npt.NDArray[Any]
# Integers that stand on the host for elements that numpy has no dtype for: bfloat16, float8.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def torch_dtype(dtype: Any) -> torch.dtype:
    """Returns a dtype of torch, given that, one of numpy, or the name of one of numpy."""
    if isinstance(dtype, torch.dtype):
        return dtype
    return torch.from_numpy(np.empty(0, dtype)).dtype


def host_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Returns the numpy dtype with elements of the same bytes."""
    return as_host(torch.empty(0, dtype=dtype)).dtype


def as_host(tensor: torch.Tensor) -> Array:
    """Returns a tensor's elements, bit for bit, as a plain array: on the tensor's own memory if that is the host's."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    try:
        array: Array = tensor.numpy()
    except TypeError:
        array = tensor.view(INTEGERS[tensor.dtype.itemsize]).numpy()
    return array


def from_host(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """Returns the inverse of `as_host`, on the array's memory."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns a tensor of zeros. On the host, unlike torch's own, it takes no memory before it is written to."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if device.type != "cpu" or not nbytes:
        return torch.zeros(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.zeros(nbytes, np.uint8)).view(dtype).view(shape)


def as_bits(items: torch.Tensor) -> torch.Tensor:
    """Returns items as integers on the same memory, which torch can compare and assign by index for every dtype.

    Compared are the bits that are stored: NaN equals itself, and -0.0 does not equal 0.0.
    """
    if items.is_complex():
        items = torch.view_as_real(items)
    return items.view(INTEGERS[items.dtype.itemsize])


def as_tensor(value: Any) -> torch.Tensor:
    """Returns a value as a tensor, only to be read from."""
    if isinstance(value, torch.Tensor):
        return value.detach() if value.requires_grad or type(value) is not torch.Tensor else value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise StepError(f"a value is a tensor, an array or numbers: {error}") from error
    if array.dtype.kind not in "biufc":
        raise StepError(f"a value is a tensor, an array or numbers, and this one is of {array.dtype}")
    if array.dtype.char == "Q":
        array = array.view(np.uint64)  # the same to numpy, which has two types of this size, and not to torch
    # torch refuses memory that runs backwards or has swapped bytes, and warns of memory that is read-only.
    if any(step < 0 for step in array.strides) or not array.flags.writeable or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)


class Kind:
    """What one field of a step is: `lanes` items of a shape and dtype."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, lanes: int) -> None:
        self.name, self.shape, self.dtype, self.lanes = name, shape, dtype, lanes
        self.full = (lanes, *shape)
        self.host_dtype = host_dtype(dtype)
        # Otherwise the host's dtype only stands for one that numpy does not have.
        self._is_of_numpy = torch_dtype(self.host_dtype) is dtype

    @property
    def nbytes(self) -> int:
        """Returns the bytes of one item."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def tensor(self, value: Any) -> torch.Tensor:
        """Returns a value as a tensor of this kind, wherever it is."""
        tensor = self.cast(as_tensor(value))
        return tensor if tensor.shape == self.full else tensor.reshape(self._fitting(tuple(tensor.shape)))

    def array(self, value: Any) -> Array:
        """Returns a value as a plain array of this kind."""
        kind = self.full, self.host_dtype
        if type(value) is np.ndarray and (value.shape, value.dtype) == kind and self._is_of_numpy:
            return value
        return as_host(self.tensor(value))

    def _fitting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the full shape, if a value of this shape can only be meant for it; raises `StepError` otherwise."""
        is_one = self.lanes == 1 and shape == self.shape
        if is_one or (not self.shape and shape == (self.lanes, 1)):
            return self.full
        raise StepError(
            f"{self.name} is of shape {shape}; {self.lanes} environment(s) with items of shape {self.shape} make "
            f"{self.full}"
        )

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns values in the dtype of this kind, unchanged or rounded to a shorter float, or raises `StepError`."""
        if tensor.dtype is self.dtype:
            return tensor
        try:
            return cast_exactly(tensor, self.dtype)
        except LossyWriteError as error:
            raise StepError(f"{self.name}: {error}") from error
