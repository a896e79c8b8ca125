"""`ArrayMethods`: ndarray's attributes and methods, as they are on an array of compressed items.

Each of ndarray's own would work on the table of record numbers, so every one is overridden here or named in the test
as harmless. Changes of shape that only touch grid axes stay lazy; the rest works on decoded items.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from compressed_array._array.flags import Flags
from compressed_array._array.functions import decoded, decoded_call, read_only
from compressed_array._array.item_methods import DecodedMethods, ReducingMethods, RefusedMethods
from compressed_array._array.pickling import reduce_for_pickle
from compressed_array._array.table import CellTable
from compressed_array.errors import UnsupportedOperationError


class ShapeMethods:
    """The shape of the logical array, and views of the same items in another one."""

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
    base = property(lambda self: self._owner)
    flags = property(Flags)

    def setflags(self: Any, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        if write and self._owner is not None and not self._owner.is_writeable:
            raise ValueError("cannot set WRITEABLE flag to True of this array")
        if uic:
            raise ValueError("cannot set WRITEBACKIFCOPY flag to True")
        if write is not None:
            self.is_writeable = bool(write)

    def __len__(self: Any) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def transpose(self: Any, *axes: Any) -> Any:
        wanted = axes[0] if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])) else axes or None
        if wanted is None:
            wanted = reversed(range(self.ndim))
        order = tuple(normalize_axis_index(axis, self.ndim) for axis in wanted)
        grid = len(self.grid_shape)
        if order[grid:] == tuple(range(grid, self.ndim)) and sorted(order) == list(range(self.ndim)):
            return self.seen_as(self._numbers.transpose(order[:grid]))
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
        numbers = self._numbers.reshape(grid)
        if copy is not True and (np.may_share_memory(numbers, self._numbers) or not numbers.size):
            return self.seen_as(numbers)
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return self._on_same_records(grid)

    def ravel(self: Any, order: Any = "C") -> Any:
        return self.reshape(-1, order="C" if order in ("K", "A") else order)

    def squeeze(self: Any, axis: Any = None) -> Any:
        ones = [a for a, n in enumerate(self.shape) if n == 1]
        gone = ones if axis is None else normalize_axis_tuple(axis, self.ndim)
        if any(self.shape[a] != 1 for a in gone):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        if all(a < len(self.grid_shape) for a in gone):
            return self.seen_as(self._numbers.squeeze(tuple(gone)))
        return read_only(self.read().squeeze(tuple(gone)))

    def view(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:
            return self.seen_as(self._numbers)
        return read_only(self.read().view(*args, **kwargs))

    def take(self: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
        if axis is None or out is not None or mode != "raise":
            return decoded_call(np.take, (self, indices), {"axis": axis, "out": out, "mode": mode})
        key = (slice(None),) * normalize_axis_index(axis, self.ndim) + (np.asarray(decoded(indices)),)
        return self.read(key)

    def like(self: Any, shape: Any = None, dtype: Any = None) -> Any:
        """Returns an unwritten array with as many item axes and the same codec, of this shape and dtype or another."""
        full = self.shape if shape is None else (shape,) if not np.iterable(shape) else tuple(shape)
        item_ndim = min(len(self._item_shape), len(full))
        return type(self)(
            full, self.dtype if dtype is None else dtype, item_ndim=item_ndim, codec=self.store.codec_choice
        )


class CopyMethods:
    """Copies, in this process and out of it."""

    def copy(self: Any, order: Any = "C") -> Any:
        """Returns a copy. The two arrays share what neither has changed."""
        return self._on_same_records(self.grid_shape)

    def _on_same_records(self: Any, grid: tuple[int, ...]) -> Any:
        """Returns an array of another grid, with a table of its own on the records that this one has now."""
        epochs = self.store.epochs
        with epochs.writing, epochs.guard:  # no number may lose its record between being copied and being held
            numbers, whole = self.cells.numbers, self._table
            is_part = whole.is_part or numbers.size < whole.numbers.size
            table = CellTable.sharing(self.store, numbers.reshape(grid), is_part=is_part)
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
        return array[()] if return_scalar else array


class ArrayMethods(ShapeMethods, CopyMethods, ReducingMethods, DecodedMethods, RefusedMethods):
    """All of ndarray's attributes and methods, for compressed items."""


def resolved_shape(wanted: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape to reshape to, with the length that -1 stands for."""
    size, known = prod(shape), prod(n for n in wanted if n != -1)
    unknown = wanted.count(-1)
    fits = known == size if not unknown else unknown == 1 and known > 0 and size % known == 0
    if not fits or any(n < -1 for n in wanted):
        raise ValueError(f"cannot reshape array of shape {shape} into shape {wanted}")
    return tuple(size // known if n == -1 else n for n in wanted)
