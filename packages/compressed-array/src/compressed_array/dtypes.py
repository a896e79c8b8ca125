"""Which dtype is enough: for a largest value, for the elements and run lengths of an observation buffer.

And `cast_exactly`, by which arrays bring values to their dtype, for those who check values before they write them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.casting import cast_exactly as cast_exactly
from compressed_array._runtime.loading import kernel_modules, native
from compressed_array.registry import get_codec, parse_shorthand

__all__ = ["cast_exactly", "find_buffer_dtypes", "find_smallest_dtype", "init_jit"]

UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
SIGNED = (np.int8, np.int16, np.int32, np.int64)
FLOATS = (np.float32, np.float64)


def find_smallest_dtype(max_value: float, signed: bool = False, fallback: npt.DTypeLike = np.float32) -> np.dtype[Any]:
    """Returns the smallest integer dtype that holds a value, or a float dtype where no integer dtype does.

    Args:
        max_value: The largest value there is; one that no integer equals, such as 0.5, needs a float.
        signed: Whether `-max_value` has to fit as well.
        fallback: The smallest float dtype to return.

    >>> find_smallest_dtype(255), find_smallest_dtype(256), find_smallest_dtype(0.5)
    (dtype('uint8'), dtype('uint16'), dtype('float32'))
    """
    if isinstance(max_value, (bool, np.bool_)) or max_value != max_value:
        raise ValueError(f"max_value must be a number, not {max_value!r}")
    if not signed and max_value < 0:
        raise ValueError(f"an unsigned dtype cannot hold {max_value}; pass signed=True")
    # A numpy scalar would wrap around where -128 is negated, and a Python number does not.
    value = max_value.item() if isinstance(max_value, np.generic) else max_value
    if abs(value) < 2**64 and value == int(value):
        for kind in SIGNED if signed else UNSIGNED:
            if abs(int(value)) <= np.iinfo(kind).max:
                return np.dtype(kind)
    for choice in (np.dtype(fallback), *map(np.dtype, FLOATS)):
        if choice.itemsize >= np.dtype(fallback).itemsize and _holds(choice, value):
            return choice
    raise ValueError(f"no dtype holds {max_value!r}")


def _holds(dtype: np.dtype[Any], value: float) -> bool:
    """Whether a float dtype has the value in its range, and a whole number exactly."""
    if abs(value) > (float(np.finfo(dtype).max) if dtype.itemsize <= 8 else sys.float_info.max):
        return False
    return value != int(value) or int(dtype.type(value)) == value


def find_buffer_dtypes(
    obs_shape: Any, elem_dtype: npt.DTypeLike | None = None, compression_method: str = "rle"
) -> dict[str, Any]:
    """Returns the dtype of an observation's elements, and the smallest that counts them all, by name.

    Args:
        obs_shape: A shape, or a space with `shape` and `dtype`. For a space of spaces, the result is a dict with such a
            pair for each key.
        elem_dtype: The dtype of the elements, instead of the space's own.
        compression_method: A codec's name. For "rle-jit", all kernels are compiled along the way.

    >>> find_buffer_dtypes((84, 84))
    {'elem_type': dtype('uint8'), 'runs_type': dtype('uint16')}
    """
    if parse_shorthand(compression_method)["id"] == "rle-jit":
        init_jit()
    return _dtypes_of(obs_shape, None if elem_dtype is None else np.dtype(elem_dtype))


def init_jit(*, elem_type: npt.DTypeLike = np.uint8, runs_type: npt.DTypeLike = np.uint16, **_: Any) -> None:
    """Compiles the numba kernels now and not at their first use.

    Nothing depends on it but when the time is spent, in forked and spawned workers as well.

    Args:
        elem_type: Any dtype; a kernel serves all of them, so this changes nothing.
        runs_type: Likewise.
    """
    np.dtype(elem_type), np.dtype(runs_type)
    get_codec("rle-jit")  # which says what is missing, if anything is
    for module in kernel_modules():
        native(module)


def _dtypes_of(space: Any, asked: np.dtype[Any] | None) -> dict[str, Any]:
    inner = getattr(space, "spaces", None)
    if isinstance(inner, Mapping):
        return {key: _dtypes_of(part, asked) for key, part in inner.items()}
    if isinstance(inner, (tuple, list)):
        raise ValueError("a tuple of spaces has no keys to give dtypes for; use a Dict space, or ask for each part")
    if isinstance(space, (int, np.integer)):
        space = [int(space)]  # a numpy integer has a shape and a dtype of its own, which are not meant
    shape, own = getattr(space, "shape", space), getattr(space, "dtype", None)
    if shape is None:
        raise ValueError(f"{space!r} has no fixed shape, so its elements cannot be counted")
    elem_type = asked if asked is not None else np.dtype(np.uint8 if own is None else own)
    return {"elem_type": elem_type, "runs_type": find_smallest_dtype(math.prod(int(n) for n in shape))}
