"""Bringing a value to an array's dtype without changing it.

numpy's assignment wraps integers, drops fractions and cuts strings without a word. Here a value arrives as it is or is
refused. What stays allowed is what numpy calls a cast of the same kind between floats (a float64 rounds to float32),
since storing a computed value at the array's precision is what its dtype asks for; overflow to infinity is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.errors import LossyWriteError, UnsupportedDtypeError


def check_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The dtype, if its values are bytes of their own."""
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
    """A value as an array: of its own dtype, or, where it is made of tuples for records, of theirs."""
    if dtype.names is None or isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, tuple):
        return _record(value, dtype)
    if isinstance(value, list) and value:
        return np.stack([cast_exactly(part, dtype) for part in value])
    return np.asarray(value)


def cast_exactly(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`value` as an array of `dtype` with the same values, or `LossyWriteError`."""
    array = as_value(value, dtype)
    if array.dtype == dtype:
        return array
    if dtype.names is not None:
        return _cast_records(array, dtype)
    if dtype.kind in "mM":
        # Whether units can be converted depends on the values, whatever `can_cast` says of the types.
        return _cast_and_compare(array.astype(dtype.kind + "8") if array.dtype.kind in "OSU" else array, dtype)
    if array.dtype.kind in "iu" and dtype.kind in "fc":  # numpy calls int64 to float64 safe; it rounds
        return _cast_and_compare(array, dtype)
    if np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if array.dtype.kind == dtype.kind and dtype.kind in "fc":
        return _round(array, dtype)
    return _cast_and_compare(array, dtype)


def _record(fields: tuple[Any, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    names = dtype.names or ()
    if len(fields) != len(names):
        raise ValueError(f"a tuple of {len(fields)} for a record of {len(names)} fields")
    result = np.zeros((), dtype)
    for name, field in zip(names, fields, strict=True):
        result[name] = cast_exactly(field, dtype[name].base)
    return result


def _cast_records(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Records to records field by field; anything else to every field, as numpy does."""
    names, theirs = dtype.names or (), array.dtype.names
    if theirs is not None and len(theirs) != len(names):
        raise ValueError(f"records of {len(theirs)} fields for records of {len(names)}")
    result = np.zeros(array.shape, dtype)
    for i, name in enumerate(names):
        source = array if theirs is None else array[theirs[i]]
        cast = cast_exactly(source, dtype[name].base)
        result[name] = cast.reshape(cast.shape + (1,) * (result[name].ndim - cast.ndim))
    return result


def _round(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
    if (np.isinf(result) & ~np.isinf(array)).any():
        raise LossyWriteError(_message(array, dtype, np.isinf(result) & ~np.isinf(array)))
    return result


def _cast_and_compare(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    source = array
    if array.dtype.kind == "c" and dtype.kind != "c":
        if np.any(array.imag != 0):
            raise LossyWriteError(_message(array, dtype, array.imag != 0))
        array = array.real
    try:
        with np.errstate(all="ignore"):
            result = array.astype(dtype)
            back = (result.real if result.dtype.kind == "c" != array.dtype.kind else result).astype(array.dtype)
    except OverflowError as error:
        raise LossyWriteError(f"{error}; make the array with a wider dtype") from error
    same = np.asarray(back == array)
    # The way there and back is no proof at the edges: bits of another sign round trip, and what a float beyond the
    # integers becomes is up to the processor.
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        same &= (array < 0) == (result < 0)
    elif array.dtype.kind == "f" and dtype.kind in "iu":
        same &= _within(array, dtype)
    elif array.dtype.kind in "iu" and dtype.kind in "fc":
        same &= _within(result.real, array.dtype)
    elif array.dtype.kind in "mM" and dtype.kind in "mM":
        same |= np.isnat(array) & np.isnat(result)
    if not same.all():
        raise LossyWriteError(_message(source, dtype, ~same))
    return result


def _within(floats: npt.NDArray[Any], integers: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    info, wide = np.iinfo(integers), floats.astype(np.longdouble)
    return np.asarray((wide >= float(info.min)) & (wide < float(info.max + 1)))


def _message(array: npt.NDArray[Any], dtype: np.dtype[Any], where: Any) -> str:
    culprit = array[where].reshape(-1)[0] if array.ndim else array[()]
    return f"{culprit!r} does not fit dtype {dtype}; convert the value first, or make the array with a wider dtype"
