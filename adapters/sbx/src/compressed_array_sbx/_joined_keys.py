"""Dict observations side by side in one array, so that a batch of all keys is gathered at once and need not be joined.

SBX calls `numpy()` on the tensors of all keys and joins them by `np.concatenate(..., axis=1)`. Here the arrays that it
gets remember the batch they are parts of: concatenating all of them in order returns the batch itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.dtypes import cast_exactly
from compressed_array_sb3._reads import batch_key, current
from compressed_array_sb3.replay import KeyedArrays
from compressed_array_sbx._memory import lend

Array = npt.NDArray[Any]


class Columns(KeyedArrays):
    """Arrays by name, each of which is some columns of `whole`.

    While a sample is read, `items()` gives parts of one gathered batch. An array that is assigned is copied into its
    columns.
    """

    def __init__(self, whole: Array, widths: dict[str, int]) -> None:
        self.whole, self.widths = whole, widths
        self.spans: dict[str, tuple[int, int]] = {}
        end = 0
        for name, width in widths.items():
            self.spans[name] = (end, end + width)
            end += width
        super().__init__({name: whole[..., slice(*span)] for name, span in self.spans.items()})

    def __setitem__(self, name: str, value: Any) -> None:
        # The value is copied and not kept: samples are gathered from `whole`.
        part = dict.__getitem__(self, name)
        if np.shape(value) != part.shape:
            raise ValueError(f"{name!r} is an array of shape {part.shape}, and not {np.shape(value)}")
        part[...] = cast_exactly(np.asarray(value), part.dtype)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc, override]  # as `update`, of which a dict knows nothing
        self.update(other)
        return self

    def items(self) -> Any:
        if current() is None:
            return super().items()
        gathered = GatheredRows(self)
        return {name: GatheredColumn(gathered, name) for name in self.spans}.items()

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (self.whole, self.widths)


class GatheredRows:
    """The last batch of columns."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._parts: tuple[Array, ...] | None = None
        self._batch: Array

    def at(self, parts: tuple[Array, ...]) -> Array:
        """Returns whole rows. SB3 reads one column after the other by the same arrays, so the last batch is kept."""
        if self._parts is None or any(a is not b for a, b in zip(self._parts, parts, strict=True)):
            self._batch, self._parts = rows_of(self.columns.whole, parts), parts
        return self._batch


class GatheredColumn(NamedTuple):
    """Stands for the array of one key while a sample is read."""

    gathered: GatheredRows
    name: str

    def __getitem__(self, key: Any) -> Any:
        columns, parts = self.gathered.columns, batch_key(key, 2)
        if parts is None:
            return dict.__getitem__(columns, self.name)[key]
        batch, span = self.gathered.at(parts), columns.spans[self.name]
        part = batch[..., slice(*span)].view(ColumnArray)
        part.joined, part.span = batch, span
        return part


class ColumnArray(np.ndarray):
    """Some columns of the batch `joined`: those from `span[0]` up to `span[1]`."""

    joined: Array | None = None
    span: tuple[int, int] = (0, 0)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.concatenate:
            whole = whole_batch_of(*args, **kwargs)
            if whole is not None:
                return whole
        return super().__array_function__(func, types, args, kwargs)


class ColumnTensor(torch.Tensor):
    """Some columns of a batch; what is computed from it is a plain tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch's Parameter does
    columns: ColumnArray

    def numpy(self, *, force: bool = False) -> Array:
        # Otherwise the tensor was given other memory meanwhile.
        return self.columns if self.columns.ctypes.data == self.data_ptr() else super().numpy(force=force)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.as_subclass(torch.Tensor).clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain: Any = self.as_subclass(torch.Tensor)
        return plain.__reduce_ex__(protocol)


def join_keys(arrays: dict[str, Any]) -> Columns | None:
    """Returns new arrays like these, side by side; None if the arrays do not hold plain vectors of one dtype."""
    parts = list(arrays.values())
    if len(parts) < 2 or any(type(part) is not np.ndarray or part.ndim != 3 for part in parts):
        return None
    if len({part.dtype for part in parts}) > 1:
        return None
    widths = {name: part.shape[2] for name, part in arrays.items()}
    return Columns(np.zeros((*parts[0].shape[:2], sum(widths.values())), parts[0].dtype), widths)


def column_tensor(array: ColumnArray) -> torch.Tensor:
    tensor = torch.from_numpy(array.view(np.ndarray)).as_subclass(ColumnTensor)
    tensor.columns = array
    return tensor


def rows_of(whole: Array, parts: tuple[Array, ...]) -> Array:
    """Returns `whole[parts]` in memory that JAX takes without a copy."""
    try:
        places = np.ravel_multi_index(parts, whole.shape[:2])
    except ValueError:  # numpy counts negative rows from the end, or raises
        return whole[parts]
    flat = whole.reshape(-1, whole.shape[2])
    # With mode "raise", numpy would gather into other memory first; `ravel_multi_index` has checked the places already.
    return np.take(flat, places, axis=0, out=lend((*places.shape, flat.shape[1]), flat.dtype), mode="clip")


def whole_batch_of(arrays: Sequence[Any], axis: int = 0, **options: Any) -> Array | None:
    """Returns the batch that these columns make up, if they are all of its columns in their order; else None."""
    if axis != 1 or options or any(type(part) is not ColumnArray or part.joined is None for part in arrays):
        return None
    batch, end = arrays[0].joined, 0
    for part in arrays:
        if part.joined is not batch or part.span[0] != end:
            return None
        end = part.span[1]
    return batch if batch is not None and batch.ndim == 2 and end == batch.shape[1] else None
