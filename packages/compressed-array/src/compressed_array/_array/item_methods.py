"""The methods of ndarray that need the items themselves: reductions, what numpy does with values, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compressed_array._array import reductions
from compressed_array._array.decoy import ADVICE
from compressed_array._array.functions import call_ufunc, changed_in_place, decoded, decoded_call, read_only
from compressed_array.errors import UnsupportedOperationError

Method = Callable[..., Any]


class ReducingMethods:
    """Reductions, done a block at a time where the arguments are the usual ones."""

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
        return reductions.mean(self.cells, axis, dtype, _truth(keepdims))

    def var(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._spread(reductions.var, np.var, *args, **kwargs)

    def std(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._spread(reductions.std, np.std, *args, **kwargs)

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
        return streamed(self.cells, axis, dtype, ddof, _truth(keepdims))

    def argmax(self: Any, axis: Any = None, out: Any = None, **more: Any) -> Any:
        return self._arg(np.argmax, axis, out, more)

    def argmin(self: Any, axis: Any = None, out: Any = None, **more: Any) -> Any:
        return self._arg(np.argmin, axis, out, more)

    def _arg(self: Any, function: Method, axis: Any, out: Any, more: dict[str, Any]) -> Any:
        if axis is not None or out is not None or more or not self.size:
            return decoded_call(function, (self, axis), {"out": out, **more})
        return reductions.arg(self.cells, function)


def _truth(keepdims: Any) -> bool:
    return keepdims is not np._NoValue and bool(keepdims)


def _on_decoded(name: str) -> Method:
    """Returns ndarray's method of that name, applied to the decoded items."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return decoded_call(getattr(np.ndarray, name), (self, *args), kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`ndarray.{name}` of the decoded items."
    return method


def _on_decoded_in_place(name: str) -> Method:
    """Returns ndarray's method of that name, which changes the decoded items and writes them back."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return changed_in_place(self, getattr(np.ndarray, name), *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`ndarray.{name}`; every item is decoded and written back."
    return method


class DecodedMethods:
    """The methods that need the items themselves."""

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


def _refuse_numba(array: Any, context: Any) -> Any:
    raise TypeError("numba cannot compile for a compressed array; pass it a.read()")


class RefusedMethods:
    """The methods that would show the table's memory as if it were the items'."""

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

    def __buffer__(self: Any, flags: int) -> Any:  # called from Python 3.12 on; before that, the decoy refuses
        raise UnsupportedOperationError(ADVICE)

    def __dlpack__(self: Any, **kwargs: Any) -> Any:
        raise BufferError("compressed items are not in memory as they are; use a.read()")

    @property
    def __numba_array_subtype_dispatch__(self: Any) -> bool:
        """Numba looks for this name to learn that a subclass is no plain array, and then asks what it is.

        Left alone, it would take the logical dtype and read the table's memory by it.
        """
        from numba.extending import typeof_impl

        typeof_impl.register(type(self))(_refuse_numba)
        return True

    def resize(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedOperationError("a compressed array is not resized in place; make one of the new shape")
