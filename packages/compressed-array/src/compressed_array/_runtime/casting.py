"""Bringing a value to an array's dtype and shape without changing it: the rule for arrays on the host and on a device.

numpy's assignment wraps integers, drops fractions and cuts strings without a word. Here a value arrives as it is or is
refused. What stays allowed is what numpy calls a cast of the same kind between floats (a float64 rounds to float32),
since storing a computed value at the array's precision is what its dtype asks for; overflow to infinity is not.

numpy also repeats a batch of one item over several cells. Here that is refused, as a batch of the wrong size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.errors import LossyWriteError, UnsupportedDtypeError


def check_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Returns the dtype; raises `UnsupportedDtypeError` unless its values are bytes of a fixed size."""
    checked = np.dtype(dtype)
    if checked.char == "T":
        raise UnsupportedDtypeError("variable-width strings live outside the array; use a fixed width such as 'U16'")
    if checked.hasobject:
        raise UnsupportedDtypeError(
            f"dtype {checked} holds Python objects, which cannot be compressed; convert to a number, string (U, S) or "
            "structured dtype"
        )
    if checked.itemsize == 0 and checked.kind in "SU":
        checked = np.dtype(f"{checked.kind}1")  # as numpy's own arrays do
    if checked.subdtype is not None:
        raise UnsupportedDtypeError(f"dtype {checked} has a shape of its own; add it to the array's shape instead")
    return checked


def as_value(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns a value as an array: of its own dtype, or of `dtype` where it is made of tuples for records."""
    if dtype.names is None or isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, tuple):
        return _record(value, dtype)
    if isinstance(value, list) and value:
        return np.stack([cast_exactly(part, dtype) for part in value])
    return np.asarray(value)


def cast_exactly(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns a value as an array of a dtype with the same values; raises `LossyWriteError` if there is none.

    Args:
        value: An array, a number, or what else numpy makes an array of.
        dtype: The dtype that it is to have. Floats may be rounded to another float dtype, but not to infinity.

    >>> cast_exactly([1.0, 255.0], np.dtype(np.uint8))
    array([  1, 255], dtype=uint8)
    """
    array = as_value(value, dtype)
    if array.dtype == dtype:
        return array
    if dtype.names is not None:
        return _cast_records(array, dtype)
    if dtype.kind in "mM":
        # Whether units can be converted depends on the values, whatever `can_cast` says of the types.
        return _cast_and_compare(array.astype(dtype.kind + "8") if array.dtype.kind in "OSU" else array, dtype)
    rounds_safely = array.dtype.kind in "iu" and dtype.kind in "fc"  # numpy calls int64 to float64 safe; it rounds
    if not rounds_safely and np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    return _cast_and_compare(array, dtype)


def changed_by_cast(xp: Any, source: Any, cast: Any, back: Any, kinds: tuple[str, str], integers: Any) -> Any:
    """Returns which elements a cast has changed more than an array's dtype asks for.

    Args:
        xp: Numpy or torch, whichever the others are of.
        source: The elements before the cast.
        cast: The elements after the cast.
        back: Those cast back to the source's dtype.
        kinds: Numpy's letters for the dtypes of `source` and `cast`.
        integers: `iinfo` of the integer dtype, if exactly one of the two is.
    """
    if kinds == ("c", "c"):
        return _overflown(xp, source.real, back.real) | _overflown(xp, source.imag, back.imag)
    if kinds[0] == "f" and kinds[1] in "fc":
        return _overflown(xp, source, back)
    changed = (back != source) & ((back == back) | (source == source))  # a NaN, or NaT, is not equal to itself
    # The way there and back is no proof at the edges: bits of another sign round trip, and what a float beyond the
    # integers becomes is up to the processor.
    if kinds in (("i", "u"), ("u", "i")):
        changed |= (source if kinds[0] == "i" else cast) < 0
    elif kinds[0] == "f" and kinds[1] in "iu":
        changed |= ~_within(xp, source, integers)
    elif kinds[0] in "iu" and kinds[1] in "fc":
        changed |= ~_within(xp, cast.real, integers)
    return changed


def fit_shape(given: tuple[int, ...], shape: tuple[int, ...], grid_axes: int) -> tuple[int, ...]:
    """Returns the shape of a value that is to be broadcast to `shape`, without the leading ones that are too many.

    Raises `ValueError` if it cannot be broadcast, or would be repeated along one of the first `grid_axes` axes, those
    of cells, though it has that axis.
    """
    fitting = given
    while len(fitting) > len(shape) and fitting[0] == 1:
        fitting = fitting[1:]
    refuse_to_stretch(fitting, shape, lambda axis: axis < grid_axes)
    ends = shape[max(len(shape) - len(fitting), 0) :]
    if len(fitting) > len(shape) or any(have not in (1, want) for have, want in zip(fitting, ends, strict=True)):
        raise ValueError(f"could not broadcast input array from shape {fitting} into shape {shape}")
    return fitting


def refuse_to_stretch(given: tuple[int, ...], shape: tuple[int, ...], is_grid: Callable[[int], bool]) -> None:
    """Refuses one item where several belong. numpy would repeat it; here that is a batch of the wrong size."""
    for axis, length in enumerate(given, len(shape) - len(given)):
        if axis >= 0 and length == 1 < shape[axis] and is_grid(axis):
            raise ValueError(
                f"one item for axis {axis}, where {shape[axis]} belong (shape {given} into {shape}); to write it to "
                "all of them, give it without that axis"
            )


def lossy_write_message(culprit: Any, dtype: Any) -> str:
    """Returns the message of a `LossyWriteError` for a value that a dtype cannot hold."""
    return f"{culprit!r} does not fit dtype {dtype}; convert the value first, or make the array with a wider dtype"


def _record(fields: tuple[Any, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    names = dtype.names or ()
    if len(fields) != len(names):
        raise ValueError(f"a tuple of {len(fields)} for a record of {len(names)} fields")
    result = np.zeros((), dtype)
    for name, field in zip(names, fields, strict=True):
        result[name] = cast_exactly(field, dtype[name].base)
    return result


def _cast_records(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Casts records to records field by field, and anything else to every field, as numpy does."""
    names, theirs = dtype.names or (), array.dtype.names
    if theirs is not None and len(theirs) != len(names):
        raise ValueError(f"records of {len(theirs)} fields for records of {len(names)}")
    result = np.zeros(array.shape, dtype)
    for i, name in enumerate(names):
        source = array if theirs is None else array[theirs[i]]
        cast = cast_exactly(source, dtype[name].base)
        result[name] = cast.reshape(cast.shape + (1,) * (result[name].ndim - cast.ndim))
    return result


def _cast_and_compare(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    source = array
    if array.dtype.kind == "c" and dtype.kind != "c":
        _refuse(array.imag != 0, source, dtype)
        array = array.real
    kinds = array.dtype.kind, dtype.kind
    integers = next((np.iinfo(d) for d in (array.dtype, dtype) if d.kind in "iu"), None)
    try:
        with np.errstate(all="ignore"):
            result = array.astype(dtype)
            back = (result.real if result.dtype.kind == "c" != array.dtype.kind else result).astype(array.dtype)
            changed = np.asarray(changed_by_cast(np, array, result, back, kinds, integers))
    except OverflowError as error:
        raise LossyWriteError(f"{error}; make the array with a wider dtype") from error
    _refuse(changed, source, dtype)
    return result


def _overflown(xp: Any, source: Any, back: Any) -> Any:
    return (xp.isinf(back) & ~xp.isinf(source)) | (xp.isnan(back) & ~xp.isnan(source))


def _within(xp: Any, floats: Any, integers: Any) -> Any:
    # Both limits are powers of two, which all floats hold but the shortest, whose numbers are all within.
    return xp.isfinite(floats) & (floats >= float(integers.min)) & (floats < float(integers.max + 1))


def _refuse(changed: Any, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    if changed.any():
        raise LossyWriteError(lossy_write_message(array[changed].reshape(-1)[0] if array.ndim else array[()], dtype))
