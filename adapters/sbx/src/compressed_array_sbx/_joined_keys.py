"""Dict observations side by side in one array, so that a batch of all keys is gathered at once, and joined already.

SBX calls `numpy()` on the tensors of all keys and joins them by `np.concatenate(..., axis=1)`. Tensors of one such
batch give arrays that know it, and to concatenate these, all of them and in order, is to hand out the batch itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from compressed_array_sb3._reads import batch_key, current
from compressed_array_sb3.replay import KeyedArrays
from compressed_array_sbx._memory import lend

Array = npt.NDArray[Any]


class Columns(KeyedArrays):
    """Arrays by name, each of which is some columns of `whole`; while a sample is read, what is gathered as one."""

    def __init__(self, whole: Array, widths: dict[str, int]) -> None:
        self.whole, self.widths = whole, widths
        self.spans: dict[str, tuple[int, int]] = {}
        end = 0
        for name, width in widths.items():
            self.spans[name] = (end, end + width)
            end += width
        super().__init__({name: whole[..., slice(*span)] for name, span in self.spans.items()})

    def items(self) -> Any:
        if current() is None:
            return super().items()
        gathered = GatheredRows(self)
        return {name: Column(gathered, name) for name in self.spans}.items()

    def __reduce__(self) -> tuple[Any, ...]:
        return Columns, (self.whole, self.widths)


class GatheredRows:
    """The last batch of columns."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._parts: tuple[Array, ...] | None = None
        self._batch: Array

    def at(self, parts: tuple[Array, ...]) -> Array:
        """Returns whole rows. Who asks for one column asks for the others next, by the same arrays."""
        if self._parts is None or any(a is not b for a, b in zip(self._parts, parts, strict=True)):
            self._batch, self._parts = rows_of(self.columns.whole, parts), parts
        return self._batch


class Column(NamedTuple):
    """What stands for the array of one key while a sample is read."""

    gathered: GatheredRows
    name: str

    def __getitem__(self, key: Any) -> Any:
        columns, parts = self.gathered.columns, batch_key(key, 2)
        if parts is None:
            return dict.__getitem__(columns, self.name)[key]
        batch, span = self.gathered.at(parts), columns.spans[self.name]
        part = batch[:, slice(*span)].view(ColumnArray)
        part.joined, part.span = batch, span
        return part


class ColumnArray(np.ndarray):
    """Some columns of the batch `joined`, from one to another."""

    joined: Array | None = None
    span: tuple[int, int] = (0, 0)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.concatenate:
            whole = whole_batch_of(*args, **kwargs)
            if whole is not None:
                return whole
        return super().__array_function__(func, types, args, kwargs)


class ColumnTensor(torch.Tensor):
    """Some columns of a batch; whatever is computed from it is a plain tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch's Parameter does
    columns: ColumnArray

    def numpy(self, *, force: bool = False) -> Array:
        # Or the tensor has been given other memory since.
        return self.columns if self.columns.ctypes.data == self.data_ptr() else super().numpy(force=force)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.as_subclass(torch.Tensor).clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain: Any = self.as_subclass(torch.Tensor)
        return plain.__reduce_ex__(protocol)


def join_keys(arrays: dict[str, Any]) -> Columns | None:
    """Returns arrays of the same kind, laid side by side; None if they are not plain vectors of one dtype."""
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
    """Returns `whole[parts]` in memory that JAX takes as it is."""
    try:
        places = np.ravel_multi_index(parts, whole.shape[:2])
    except ValueError:  # numpy counts from the end, or says what is wrong
        return whole[parts]
    flat = whole.reshape(-1, whole.shape[2])
    # Not "raise", for which numpy gathers elsewhere first; all places were just found to be there.
    return np.take(flat, places, axis=0, out=lend((places.size, flat.shape[1]), flat.dtype), mode="clip")


def whole_batch_of(arrays: Sequence[Any], axis: int = 0, **options: Any) -> Array | None:
    """Returns the batch that these columns make up, if they are all of its columns in their order; else None."""
    if axis != 1 or options or any(type(part) is not ColumnArray or part.joined is None for part in arrays):
        return None
    batch, end = arrays[0].joined, 0
    for part in arrays:
        if part.joined is not batch or part.span[0] != end:
            return None
        end = part.span[1]
    return batch if batch is not None and end == batch.shape[1] else None
