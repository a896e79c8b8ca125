"""`CompressedArray`: an ndarray whose items are compressed.

It has a table of record numbers, one per cell of the *grid*, and slicing or transposing the grid axes makes views that
share the table and the store. What it shows is the *logical* array, grid axes followed by item axes: `shape`,
`dtype`, `flags` and the rest speak of that one.

Nobody reaches the records but through the array. An ndarray's memory is open to all of C, and numpy does not ask a
subclass before it takes it: what it finds there is `decoy_array`, which holds no record and refuses every use.

Where numpy would answer with a view that writes through, and decoded items are no such view, the answer is read-only:
a write that could not reach the store fails instead of getting lost.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from compressed_array._array.decoy import decoy_array
from compressed_array._array.functions import call_function, call_ufunc, decoded, read_only
from compressed_array._array.grid import ItemGrid, memory_of
from compressed_array._array.keys import field_names
from compressed_array._array.methods import ArrayMethods
from compressed_array._array.table import CellTable
from compressed_array._array.transfer import transferred
from compressed_array._runtime.casting import cast_exactly, check_dtype
from compressed_array._runtime.types import Compressed, is_compressed
from compressed_array._stores.protocol import RecordNumbers, Store
from compressed_array._stores.selection import new_store
from compressed_array.errors import UnsupportedOperationError
from compressed_array.registry import shorthand


# numpy's type hints cannot know that every method is overridden.
class CompressedArray(ArrayMethods, Compressed, NDArrayOperatorsMixin, np.ndarray[Any, np.dtype[Any]]):  # type: ignore[misc,override]
    """An ndarray in compressed memory, zero to begin with; its last axes are those of an item, the unit of compression.

    It is indexed and written as an ndarray is, and `a.read()` is the plain array. What goes round the array to its
    memory finds none: `np.asarray(a)`, which cannot be told to decode, gives something that is read-only, cannot be
    copied, and raises when it is compared, added up or printed; `f.write(a)`, `hashlib.sha1(a)`, `file.readinto(a)` and
    `rng.random(out=a)` raise.

    Args:
        shape: The axes that count items, followed by those of an item.
        dtype: Of any kind but object.
        item_ndim: How many of the last axes make one item, the unit that is compressed and read; all but the first, if
            left out.
        codec: A name such as "zstd-3", a codec, or "auto", which looks at the data and picks.
        store: `other.store`, to keep what this array has in common with another, of such items, once: observations and
            next observations.

    >>> import numpy as np, compressed_array as ca
    >>> obs = ca.CompressedArray((1000, 4, 84, 84), np.uint8)
    >>> after = ca.CompressedArray(obs.shape, np.uint8, store=obs.store)
    >>> obs[0] = np.arange(84)
    >>> after[0] = obs[0]
    >>> int(after[0, 3, 10].sum()), after[:2].mean(axis=(1, 2, 3)).tolist()
    (3486, [41.5, 0.0])
    """

    _table: CellTable
    _numbers: RecordNumbers
    _item_shape: tuple[int, ...]
    _item_dtype: np.dtype[Any]
    _cells: ItemGrid | None = None
    _owner: CompressedArray | None = None
    is_writeable = True

    def __new__(
        cls,
        shape: int | tuple[int, ...],
        dtype: npt.DTypeLike = float,
        *,
        item_ndim: int | None = None,
        codec: Any = "auto",
        store: Store | None = None,
    ) -> CompressedArray:
        full = (operator.index(shape),) if not np.iterable(shape) else tuple(operator.index(n) for n in shape)
        if any(length < 0 for length in full):
            raise ValueError(f"negative dimensions are not allowed: {full}")
        grid_ndim = len(full) - check_item_ndim(item_ndim, len(full))
        item_dtype = check_dtype(dtype)
        grid, item_shape = full[:grid_ndim], full[grid_ndim:]
        if store is None:
            store = new_store(grid, item_shape, item_dtype, codec)
        elif not (isinstance(codec, str) and codec == "auto"):
            raise ValueError("give either a codec or a store, which has one already")
        elif isinstance(store, np.ndarray):
            raise TypeError("give the store of an array, array.store, not the array")
        elif not store.holds(item_shape, item_dtype):
            raise ValueError(f"the store is not one for items of {item_dtype} and shape {item_shape}")
        else:
            store.note_another_array()
        return cls.on_table(CellTable.unwritten(store, grid), item_shape, item_dtype)

    @classmethod
    def on_table(cls, table: CellTable, item_shape: tuple[int, ...], dtype: np.dtype[Any]) -> CompressedArray:
        """Returns an array that shows a table's records as items of this shape and dtype."""
        self = np.ndarray.view(decoy_array(), cls)
        self._table, self._numbers, self._item_shape, self._item_dtype = table, table.cells, item_shape, dtype
        return self

    def seen_as(self, numbers: RecordNumbers) -> Any:
        """Returns a view of this array that shows these of its cells."""
        view = np.ndarray.view(decoy_array(), type(self))
        view.__dict__.update(self.__dict__)
        view._numbers, view._cells, view._owner = numbers, None, self if self._owner is None else self._owner
        return view

    def __array_finalize__(self, obj: Any) -> None:
        # What numpy makes of an array by itself is not refused here but when it is used: where it takes an array for a
        # sequence (`plain.choose(a)`) it does not expect that to fail.
        if obj is not decoy_array() and not isinstance(obj, CompressedArray):
            raise UnsupportedOperationError("a plain array cannot be viewed as a compressed one; use compress(array)")

    def __getattr__(self, name: str) -> Any:
        if name in CompressedArray.__annotations__:
            raise UnsupportedOperationError(
                "numpy went round the array to its memory; use a.view(), a.copy() or a.read()"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def store(self) -> Store:
        """The store that holds the array's records."""
        return self._table.store

    @property
    def cells(self) -> ItemGrid:
        """The grid of this view: which record each cell holds, in the table's own memory."""
        if self._cells is None:
            self._cells = ItemGrid(self._table, self._numbers, self._item_shape, self._item_dtype)
        return self._cells

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The axes along which items lie."""
        return self._numbers.shape

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The axes of one item, the unit of compression."""
        return self._item_shape

    @property
    def codec(self) -> Any:
        """The codec that the next item will be written with."""
        return self.store.codec

    @property
    def nbytes_stored(self) -> int:
        """The memory that this array's items take, compressed, with the index, slack and garbage.

        A view, or an array that shares items with a copy, counts its own items without the slack.
        """
        with self.store.epochs.writing:
            numbers = self.cells.numbers
            return self.store.nbytes_of(numbers.reshape(-1)) + numbers.nbytes

    @property
    def ratio(self) -> float:
        """How many times smaller than the plain array this is."""
        return float(self.nbytes / max(self.nbytes_stored, 1))

    def compact(self) -> None:
        """Holds nothing but the items until the next write, for all arrays on this store.

        What helps the next write goes: the last item of each stream, groups that are not full, spare memory. That write
        may have to store more than it otherwise would.
        """
        self.store.compact()

    def read(self, key: Any = ..., out: Any = None) -> Any:
        """Returns what the plain array would give for a key, always as a plain array.

        Args:
            key: A key as for `array[key]`; all of the array, if left out.
            out: A plain array, or a tensor of torch in the host's memory, to write the answer into. It is returned.

        >>> import numpy as np, compressed_array as ca
        >>> frames = ca.zeros((100, 84, 84), np.uint8)
        >>> frames[3] = 7
        >>> batch = np.empty((2, 84, 84), np.uint8)
        >>> frames.read(np.array([3, 4]), out=batch) is batch, batch[:, 0, 0].tolist()
        (True, [7, 0])
        """
        if out is not None and not isinstance(out, np.ndarray):
            self.read(key, memory_of(out))
            return out
        if out is not None and (is_compressed(out) or not out.flags.writeable):
            raise ValueError("out must be a plain, writable array")
        if field_names(key):
            answer = self.read()[key]
        else:
            cells = self.cells
            answer = cells.read(key, cells.split(key), out)
        if out is None:
            return np.asarray(answer)
        if answer is not out:
            if out.shape != np.shape(answer) or out.dtype != answer.dtype:
                raise ValueError(
                    f"out is {out.dtype} of shape {out.shape}; the key reads {answer.dtype} of shape {np.shape(answer)}"
                )
            out[...] = answer
        return out

    def __getitem__(self, key: Any) -> Any:
        if field_names(key):
            return read_only(self.read(key))
        cells = self.cells
        plan = cells.split(key)
        if plan is not None and plan.basic and plan.whole_items:
            numbers = self._numbers[(*plan.grid, ...)]
            if numbers.ndim or (not self._numbers.ndim and not (plan.scalar and self.ndim == 0)):
                return self.seen_as(numbers)
        answer = cells.read(key, plan)
        return read_only(answer) if plan is not None and plan.basic and isinstance(answer, np.ndarray) else answer

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self.is_writeable:
            raise ValueError("assignment destination is read-only")
        rows = self.cells.row_writer
        if rows is not None and rows.write(key, value):
            return
        has_fields = field_names(key)
        if isinstance(value, CompressedArray) and not has_fields and transferred([self.cells], key, [value.cells]):
            return
        epochs = self._table.store.epochs
        with epochs.writing, epochs.guard:
            if has_fields:
                items = self.read()
                items[key] = cast_exactly(value, items[key].dtype)
                key, value = ..., items
            self.cells.write(key, value.cells if isinstance(value, CompressedArray) else decoded(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_function(func, args, kwargs)

    def __repr__(self) -> str:
        return (
            f"<CompressedArray {self.shape} {self.dtype}: items of {self.item_shape}, {shorthand(self.codec)}, "
            f"{self.nbytes:,} bytes in {self.nbytes_stored:,}, ratio {self.ratio:.1f}>"
        )

    __str__ = __repr__


def check_item_ndim(item_ndim: int | None, ndim: int) -> int:
    """Returns how many axes of an array of `ndim` are an item's: all but the first, if nothing else is asked for."""
    if item_ndim is None:
        return max(ndim - 1, min(ndim, 1))
    if not 0 <= operator.index(item_ndim) <= ndim:
        raise ValueError(f"item_ndim must be from 0 to {ndim}, the number of axes, not {item_ndim}")
    return operator.index(item_ndim)
