"""Compressed arrays as tensors of bytes, so that `torch.load` reads a state without having to trust its source."""

from __future__ import annotations

import io
from typing import Any

import torch

import compressed_array as ca
from compressed_array_torch.errors import BufferStateError


def as_bytes(array: ca.CompressedArray) -> torch.Tensor:
    """Returns the bytes of the file that an array is saved to."""
    file = io.BytesIO()
    ca.save(file, array)
    return torch.frombuffer(file.getbuffer(), dtype=torch.uint8)


def from_bytes(state: Any, like: ca.CompressedArray, rows: int) -> ca.CompressedArray:
    """Returns the array of such a file, if it has so many rows and is like another one otherwise, or raises."""
    if not isinstance(state, torch.Tensor) or state.dtype != torch.uint8 or state.ndim != 1:
        raise BufferStateError("the state of a compressed field is the bytes of a saved array, and this is none")
    try:
        array = ca.load(io.BytesIO(state.cpu().numpy().data))
    except ca.CorruptFileError as error:
        raise BufferStateError(f"the state of a compressed field is damaged: {error}") from error
    expected = (rows, *like.shape[1:])
    if array.shape != expected or array.dtype != like.dtype or array.item_shape != like.item_shape:
        raise BufferStateError(
            f"the state is of {array.dtype} items in an array of shape {array.shape}; here they are of {like.dtype}, "
            f"in {expected}"
        )
    return array
