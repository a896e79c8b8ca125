"""`ArrayMethods`: ndarray's attributes and methods, as they are on an array of compressed items.

Each of ndarray's own would work on the table of record numbers, so every one is overridden here or named in the test
as harmless. Changes of shape that only touch grid axes stay lazy; the rest works on decoded items.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from compressed_array import _stream
from compressed_array._functions import call_ufunc, changed_in_place, decoded, decoded_call
from compressed_array._state import reduce_for_pickle
from compressed_array._table import CELL, Table
from compressed_array.errors import UnsupportedOperationError

Method = Callable[..., Any]


def read_only(array: Any) -> Any:
    """The same array, protected from writes that would not reach where it came from."""
    array.flags.writeable = False
    return array


class ShapeMethods:
    """What the logical array looks like, and other looks at the same items."""

    @property
    def shape(self: Any) -> Any:
        return self.grid_shape + self._item_shape

    @shape.setter
    def shape(self: Any, shape: Any) -> None:
        raise AttributeError("a compressed array's shape is not changed in place; use a.reshape(shape)")

    @property
    def dtype(self: Any) -> Any:
        return self._item_dtype

    @dtype.setter
    def dtype(self: Any, dtype: Any) -> None:
        raise AttributeError("a compressed array's dtype is not changed in place; use a.astype(dtype)")

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: prod(self.shape))
    itemsize = property(lambda self: self._item_dtype.itemsize)
    nbytes = property(lambda self: self.size * self._item_dtype.itemsize)
    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))  # noqa: N815 - numpy's name
    flat = property(lambda self: read_only(self.read()).flat)

    def __len__(self: Any) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def transpose(self: Any, *axes: Any) -> Any:
        if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])):
            axes = () if axes[0] is None else tuple(axes[0])
        order = tuple(normalize_axis_index(axis, self.ndim) for axis in axes) or tuple(reversed(range(self.ndim)))
        grid = len(self.grid_shape)
        if order[grid:] == tuple(range(grid, self.ndim)) and sorted(order) == list(range(self.ndim)):
            return np.ndarray.transpose(self, order[:grid])
        return read_only(self.read().transpose(order))

    def swapaxes(self: Any, axis1: Any, axis2: Any) -> Any:
        order = list(range(self.ndim))
        one, two = normalize_axis_index(axis1, self.ndim), normalize_axis_index(axis2, self.ndim)
        order[one], order[two] = order[two], order[one]
        return self.transpose(order)

    def reshape(self: Any, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        wanted = shape[0] if len(shape) == 1 and np.iterable(shape[0]) else shape
        full = resolved_shape(tuple(operator.index(n) for n in wanted), self.shape)
        grid = full[: len(full) - len(self._item_shape)]
        if order != "C" or full[len(grid) :] != self._item_shape or prod(grid) != prod(self.grid_shape):
            if copy is False:
                raise ValueError("Unable to avoid creating a copy while reshaping.")
            return read_only(self.read().reshape(full, order=order))
        view = np.ndarray.reshape(self, grid)
        if copy is not True and self._table.owns(np.ndarray.view(view, np.ndarray)):
            return view
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return self._holding(grid)

    def ravel(self: Any, order: Any = "C") -> Any:
        return self.reshape(-1, order="C" if order in ("K", "A") else order)

    def squeeze(self: Any, axis: Any = None) -> Any:
        ones = [a for a, n in enumerate(self.shape) if n == 1]
        gone = ones if axis is None else normalize_axis_tuple(axis, self.ndim)
        if any(self.shape[a] != 1 for a in gone):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        if all(a < len(self.grid_shape) for a in gone):
            return np.ndarray.__getitem__(
                self, (*(0 if a in gone else slice(None) for a in range(len(self.grid_shape))), ...)
            )
        return read_only(self.read().squeeze(tuple(gone)))

    def view(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:
            return np.ndarray.view(self)
        return read_only(self.read().view(*args, **kwargs))

    def take(self: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
        if axis is None or out is not None or mode != "raise":
            return decoded_call(np.take, (self, indices, axis, out, mode), {})
        key = (slice(None),) * normalize_axis_index(axis, self.ndim) + (np.asarray(decoded(indices)),)
        return self.read(key)

    def like(self: Any, shape: Any = None, dtype: Any = None) -> Any:
        """An unwritten array with the same items' axes and codec, of this shape and dtype or another."""
        full = self.shape if shape is None else (shape,) if not np.iterable(shape) else tuple(shape)
        item_ndim = min(len(self._item_shape), len(full))
        return type(self)(full, self.dtype if dtype is None else dtype, item_ndim=item_ndim, codec=self.codec)


class CopyMethods:
    """Copies, in this process and out of it."""

    def copy(self: Any, order: Any = "C") -> Any:
        """An array of its own; the two share what neither has changed."""
        return self._holding(self.grid_shape)

    def _holding(self: Any, grid: tuple[int, ...]) -> Any:
        with self.store.epochs.writing:  # no number may lose its record between being copied and being held
            table = Table.holding(self.store, self.cells.numbers.reshape(grid))
        return self.on_table(table, self._item_shape, self._item_dtype)

    def __copy__(self: Any) -> Any:
        return self.copy()

    def __deepcopy__(self: Any, memo: Any) -> Any:
        return self.copy()

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return reduce_for_pickle(self, int(protocol))

    def __reduce__(self: Any) -> Any:
        return reduce_for_pickle(self, 2)

    def __setstate__(self: Any, state: Any) -> None:
        raise UnsupportedOperationError("a compressed array is unpickled whole; it takes no state")

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a compressed array cannot be seen as a plain one without a copy")
        return np.asarray(self.read(), dtype)

    def __array_wrap__(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array.dtype == CELL:
            raise UnsupportedOperationError("numpy worked on the table instead of the items; use a.read()")
        return array[()] if return_scalar else array


class ReducingMethods:
    """Reductions, a block at a time wherever the arguments are the usual ones."""

    def sum(self: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        return self._reduce(np.add, axis=axis, dtype=dtype, out=out, keepdims=keepdims, **more)

    def prod(
        self: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any
    ) -> Any:
        return self._reduce(np.multiply, axis=axis, dtype=dtype, out=out, keepdims=keepdims, **more)

    def max(self: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        return self._reduce(np.maximum, axis=axis, out=out, keepdims=keepdims, **more)

    def min(self: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        return self._reduce(np.minimum, axis=axis, out=out, keepdims=keepdims, **more)

    def any(self: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        return self._reduce(np.logical_or, axis=axis, out=out, keepdims=keepdims, **more)

    def all(self: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        return self._reduce(np.logical_and, axis=axis, out=out, keepdims=keepdims, **more)

    def _reduce(self: Any, ufunc: np.ufunc, **arguments: Any) -> Any:
        given = {name: v for name, v in arguments.items() if name == "axis" or (v is not None and v is not np._NoValue)}
        return call_ufunc(ufunc, "reduce", (self,), given)

    def mean(
        self: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any
    ) -> Any:
        if out is not None or more or not self.size or self.dtype.names is not None:
            return decoded_call(np.mean, (self, axis, dtype), {"out": out, "keepdims": keepdims, **more})
        return _stream.mean(self.cells, axis, dtype, keepdims is True)

    def var(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._spread(_stream.var, np.var, *args, **kwargs)

    def std(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._spread(_stream.std, np.std, *args, **kwargs)

    def _spread(
        self: Any,
        streamed: Method,
        function: Method,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        **more: Any,
    ) -> Any:
        if out is not None or more or not self.size or self.dtype.names is not None:
            return decoded_call(function, (self, axis, dtype), {"out": out, "ddof": ddof, "keepdims": keepdims, **more})
        return streamed(self.cells, axis, dtype, ddof, keepdims is True)

    def argmax(self: Any, axis: Any = None, out: Any = None, **more: Any) -> Any:
        return self._arg(np.argmax, axis, out, more)

    def argmin(self: Any, axis: Any = None, out: Any = None, **more: Any) -> Any:
        return self._arg(np.argmin, axis, out, more)

    def _arg(self: Any, function: Method, axis: Any, out: Any, more: dict[str, Any]) -> Any:
        if axis is not None or out is not None or more or not self.size:
            return decoded_call(function, (self, axis), {"out": out, **more})
        return _stream.arg(self.cells, function)


def _on_decoded(name: str) -> Method:
    """ndarray's method of that name, applied to the decoded items."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return decoded_call(getattr(np.ndarray, name), (self, *args), kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`ndarray.{name}` of the decoded items."
    return method


def _on_decoded_in_place(name: str) -> Method:
    """ndarray's method of that name, which changes the array: the decoded items are changed and written back."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return changed_in_place(self, lambda plain: getattr(plain, name)(*decoded(args), **decoded(kwargs)))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`ndarray.{name}`; every item is decoded and written back."
    return method


class DecodedMethods:
    """Everything that needs the items themselves."""

    argpartition, argsort, astype, choose = map(_on_decoded, ("argpartition", "argsort", "astype", "choose"))
    clip, compress, conj, conjugate = map(_on_decoded, ("clip", "compress", "conj", "conjugate"))
    cumprod, cumsum, diagonal, dot = map(_on_decoded, ("cumprod", "cumsum", "diagonal", "dot"))
    flatten, getfield, item, nonzero = map(_on_decoded, ("flatten", "getfield", "item", "nonzero"))
    repeat, round, searchsorted, trace = map(_on_decoded, ("repeat", "round", "searchsorted", "trace"))
    tobytes, tofile, tolist, to_device = map(_on_decoded, ("tobytes", "tofile", "tolist", "to_device"))
    if hasattr(np.ndarray, "tostring"):  # up to numpy 2.2
        tostring = _on_decoded("tostring")
    partition, put, setfield, sort = map(_on_decoded_in_place, ("partition", "put", "setfield", "sort"))
    __contains__, __bool__ = map(_on_decoded, ("__contains__", "__bool__"))
    __int__, __float__ = map(_on_decoded, ("__int__", "__float__"))
    __complex__, __index__ = map(_on_decoded, ("__complex__", "__index__"))

    def byteswap(self: Any, inplace: bool = False) -> Any:
        if not inplace:
            return self.read().byteswap()
        changed_in_place(self, lambda plain: plain.byteswap(inplace=True))
        return self

    def fill(self: Any, value: Any) -> None:
        self[...] = value

    @property
    def real(self: Any) -> Any:
        return read_only(self.read().real) if self.dtype.kind == "c" else self.view()

    @real.setter
    def real(self: Any, value: Any) -> None:
        changed_in_place(self, lambda plain: setattr(plain, "real", decoded(value)))

    @property
    def imag(self: Any) -> Any:
        return read_only(self.read().imag)

    @imag.setter
    def imag(self: Any, value: Any) -> None:
        changed_in_place(self, lambda plain: setattr(plain, "imag", decoded(value)))

    def __format__(self: Any, spec: str) -> str:
        return format(self.read()[()], spec) if self.ndim == 0 else format(str(self), spec)


class RefusedMethods:
    """What would show the table's memory as if it were the items'."""

    @property
    def strides(self: Any) -> Any:
        raise AttributeError("compressed items have no strides; use a.read()")

    @property
    def data(self: Any) -> Any:
        raise AttributeError("compressed items are not in memory as they are; use a.read().data")

    @property
    def ctypes(self: Any) -> Any:
        raise AttributeError("compressed items are not in memory as they are; use a.read().ctypes")

    @property
    def __array_interface__(self: Any) -> Any:
        raise AttributeError("compressed items are not in memory as they are; use a.read()")

    @property
    def __array_struct__(self: Any) -> Any:
        raise AttributeError("compressed items are not in memory as they are; use a.read()")

    def __dlpack__(self: Any, **kwargs: Any) -> Any:
        raise BufferError("compressed items are not in memory as they are; use a.read()")

    def resize(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedOperationError("a compressed array is not resized in place; make one of the new shape")


class ArrayMethods(ShapeMethods, CopyMethods, ReducingMethods, DecodedMethods, RefusedMethods):
    """ndarray's surface, told anew for compressed items."""


def resolved_shape(wanted: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape to reshape to, with the length that -1 stands for filled in."""
    size, known = prod(shape), prod(n for n in wanted if n != -1)
    unknown = wanted.count(-1)
    fits = known == size if not unknown else unknown == 1 and known > 0 and size % known == 0
    if not fits or any(n < -1 for n in wanted):
        raise ValueError(f"cannot reshape array of shape {shape} into shape {wanted}")
    return tuple(size // known if n == -1 else n for n in wanted)
