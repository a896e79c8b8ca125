"""`DeviceArray`: a grid of items that lie compressed on a torch device, read and written as tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from compressed_array._runtime.casting import fit_shape
from compressed_array._runtime.replacing import replacing
from compressed_array.errors import UnsupportedOperationError
from compressed_array.registry import get_codec, shorthand
from compressed_array.torch import _saving
from compressed_array.torch._cells import DeviceCells
from compressed_array.torch._coders import DeviceCodec
from compressed_array.torch._dtypes import INTEGERS, as_torch_dtype, numpy_dtype_or_none
from compressed_array.torch._grid import Grid
from compressed_array.torch._store import DeviceStore
from compressed_array.torch._sync import (
    Array,
    available_device,
    copy_to_host,
    device_with_index,
    fetch,
    on_device,
    outside_inference_mode,
)
from compressed_array.torch._values import as_tensor, cast_exactly

# An item this small is not worth its entry in a table.
SMALL = 64


class DeviceArray:
    """A compressed tensor on a device: `a[key] = items` stores items, `a[key]` returns them as a tensor on that device.

    The first axes are a grid, the last ones those of an item, the unit that is compressed. Keys pick items by integers,
    slices, and arrays or tensors of integers, as they would in a tensor; whole batches go in and out at once. What was
    never written is zero. A value is stored as it is or refused with `LossyWriteError`; but a float is rounded to the
    array's precision. One item may be written to several cells, a batch of one may not.

    >>> import torch
    >>> from compressed_array.torch import DeviceArray
    >>> obs = DeviceArray((1000, 2, 4, 84, 84), torch.uint8, item_ndim=3, device="cpu")
    >>> next_obs = DeviceArray(obs.shape, obs.dtype, item_ndim=3, device="cpu", store=obs.store)
    >>> obs[0] = torch.full((2, 4, 84, 84), 7, dtype=torch.uint8)
    >>> next_obs[0] = obs[0]
    >>> next_obs[[0, 1], 1].amax((1, 2, 3)).tolist()
    [7, 0]

    Args:
        shape: The length of each axis.
        dtype: The dtype of elements, of torch or numpy.
        device: Where items are kept.
        item_ndim: How many axes an item has; without it, all but the first.
        codec: "delta" (what "auto" means here) or "rle", coded on the device; "none" for a dense tensor; any other of
            the core's for a round trip to the host per batch.
        store: That of another array of such items, to keep once what both hold.
        heap_bytes: What the store's heap may take at the most; without it, what there is.
        max_slot_bytes: Deprecated, the same for each item of the grid.
    """

    @outside_inference_mode
    def __init__(
        self,
        shape: Any,
        dtype: Any = torch.uint8,
        *,
        device: torch.device | str = "cpu",
        item_ndim: int | None = None,
        codec: Any = "auto",
        store: DeviceStore | None = None,
        heap_bytes: int | None = None,
        max_slot_bytes: int | None = None,
    ) -> None:
        self._shape = tuple(int(n) for n in shape)
        self.dtype, self.device = as_torch_dtype(dtype), device_with_index(device)
        items = max(len(self._shape) - 1, 0) if item_ndim is None else item_ndim
        if not 0 <= items <= len(self._shape):
            raise ValueError(f"item_ndim must be from 0 to {len(self._shape)}, the number of axes, not {items}")
        self._host_dtype = numpy_dtype_or_none(self.dtype)
        self.grid_shape, self.item_shape = self._shape[: len(shape) - items], self._shape[len(shape) - items :]
        if max_slot_bytes is not None:
            warnings.warn("max_slot_bytes is deprecated; heap_bytes caps the heap, which needs none", stacklevel=2)
            heap_bytes = max_slot_bytes * prod(self.grid_shape) if heap_bytes is None else heap_bytes
        self._dense: torch.Tensor | None = None
        self._cells = DeviceCells(torch.zeros(self.grid_shape, dtype=torch.int32, device=self.device))
        if store is None:
            coded = DeviceCodec(codec)
            small = prod(self.item_shape) * self.dtype.itemsize <= SMALL
            if coded.is_dense or small:
                self._dense = torch.zeros(self._shape, dtype=self._stored_dtype, device=self.device)
                self._cells.replace(self._cells.numbers.new_zeros(0))
            else:
                store = DeviceStore(self.item_shape, self.dtype, coded, self.device, heap_bytes)
        elif store.item_shape != self.item_shape or store.dtype != self.dtype or store.device != self.device:
            raise ValueError(
                f"the store is not one for items of {self.dtype} and shape {self.item_shape} on {self.device}"
            )
        self._store = store
        self._grid = Grid(self.grid_shape, self.item_shape, self.device)
        if store is not None:
            store.holders.add(self._cells)

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self._shape)

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def store(self) -> DeviceStore | None:
        """The store that keeps the items; None where they are kept as they are."""
        return self._store

    @property
    @outside_inference_mode
    def cells(self) -> torch.Tensor:
        """The numbers by which the store knows the items; 0 where none was written."""
        if self._store is None:
            return self._cells.numbers
        with self._store.lock, self._store.guard:
            return self._store.flushed_numbers(self._cells)

    @property
    def codec(self) -> Any:
        """The codec that items are stored with."""
        return get_codec("none") if self._store is None else self._store.codec.codec

    @property
    def nbytes(self) -> int:
        """The size of the dense tensor that this stands for."""
        return prod(self._shape) * self.dtype.itemsize

    @property
    def nbytes_stored(self) -> int:
        """The memory that this takes on the device, as its allocator counts it, with all that shares the store."""
        return self.nbytes if self._store is None else self._store.nbytes + self._cells.numbers.nbytes

    def count_written(self) -> int:
        """Returns how many items were written; waits for the device."""
        return prod(self.grid_shape) if self._store is None else fetch((self.cells != 0).sum())[0][0]

    def __len__(self) -> int:
        return self._shape[0]

    @property
    def _stored_dtype(self) -> torch.dtype:
        """The dtype of dense items in memory: torch copies integers, of some others it knows little but the name."""
        return INTEGERS.get(self.dtype.itemsize, self.dtype)

    @outside_inference_mode
    def __getitem__(self, key: Any) -> torch.Tensor:
        host_grid, inside = self._grid.split(key)
        grid = self._grid.on_device(host_grid)
        if self._dense is not None:
            items = self._dense[grid].view(self.dtype)
            if not any(isinstance(part, torch.Tensor) for part in grid):
                items = items.clone()  # not to show what is written later
        else:
            assert self._store is not None
            with self._store.lock, self._store.guard:
                numbers = self._store.flushed_numbers(self._cells)[grid]
                items = torch.empty((*numbers.shape, *self.item_shape), dtype=self.dtype, device=self.device)
                if items.numel():
                    items = self._store.read(numbers.reshape(-1).to(torch.int64)).reshape(items.shape)
        return items[(..., *inside)] if inside else items

    @outside_inference_mode
    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, DeviceArray):
            value = value[...]
        # numpy takes None for a name of float64.
        is_array = type(value) is np.ndarray and self._host_dtype is not None and value.dtype == self._host_dtype
        # Before the store's lock and guard, which a value that is an array on it takes as well.
        items = value if is_array else cast_exactly(value, self.dtype)
        if self._store is not None and self._grid.is_step(key, items):  # it should not wait for what other keys need
            with self._store.lock, self._store.guard:
                self._store.write_row(self._cells, key % self._shape[0], items, self._grid.row_lanes)
            return
        host_grid, inside = self._grid.split(key)
        grid = self._grid.on_device(host_grid)
        if inside:
            raise UnsupportedOperationError("items are written whole; read them, change them and write them back")
        if self._dense is not None:
            items = self._fitted(items, self._dense[grid].shape)
            self._dense[grid] = items.view(self._stored_dtype).to(self.device)
            return
        assert self._store is not None
        with self._store.lock, self._store.guard:
            target = self._store.flushed_numbers(self._cells)[grid]
            items = self._fitted(items, (*target.shape, *self.item_shape))
            if not items.numel():
                return
            lanes = self._grid.lanes(host_grid, target.numel())
            numbers = self._store.write(items.reshape(-1, *self.item_shape), lanes).to(target.dtype)
            cells, stays = self._cells.numbers, self._grid.last_of_each(host_grid)
            if stays is None:
                cells[grid] = numbers.reshape(target.shape)
            else:
                positions, last = (on_device(part, self.device) for part in stays)
                cells.view(-1)[positions] = numbers[last]

    @outside_inference_mode
    def swapaxes(self, first: int, second: int) -> DeviceArray:
        """Returns the same items with two axes of the grid exchanged. It does not follow what is written to this array.

        Args:
            first: An axis of the grid.
            second: Another one.
        """
        axes = len(self.grid_shape)
        first, second = (axis + self.ndim if axis < 0 else axis for axis in (first, second))
        if not (0 <= first < axes and 0 <= second < axes):
            raise UnsupportedOperationError(f"only axes of the grid can be exchanged, which are 0 to {axes - 1}")
        return self._with_grid(lambda held: held.transpose(first, second).clone(memory_format=torch.contiguous_format))

    @outside_inference_mode
    def reshape(self, *shape: Any) -> DeviceArray:
        """Returns the same items in another grid. It does not follow what is written to this array.

        Args:
            shape: The lengths of the new axes, or a tuple of them; the last ones have to be those of an item.
        """
        asked = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        kept = len(asked) - len(self.item_shape)
        if tuple(asked[kept:]) != self.item_shape:
            raise UnsupportedOperationError(f"items of shape {self.item_shape} cannot be given another shape")
        return self._with_grid(lambda held: held.reshape(asked if self._store is None else asked[:kept]).clone())

    def compact(self) -> None:
        """Frees all memory but that of items, for this array and all that share its store.

        The next write may take more, since it knows nothing of what was written before.
        """
        if self._store is not None:
            self._store.compact()

    @outside_inference_mode
    def state_dict(self) -> dict[str, Any]:
        """Returns all that the array holds, in tensors of its own, with a checksum."""
        return _saving.state_of(self)

    @outside_inference_mode
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what an array of the same kind held. Other arrays on its store lose what they hold.

        Args:
            state: What `state_dict` returned, of an array on any device. It is checked before anything changes; what is
                damaged raises `CorruptPayloadError`.
        """
        _saving.load_state(self, state)

    def save(self, path: str | Path) -> None:
        """Writes the array to a file.

        Args:
            path: The name of the file. One that is there is replaced once all is written.
        """
        with replacing(path) as file:
            torch.save(copy_to_host(self.state_dict()), file)

    @classmethod
    @outside_inference_mode
    def load(cls, path: str | Path, device: torch.device | str | None = None) -> DeviceArray:
        """Returns an array from a file; raises `CorruptFileError` if there is none in it.

        Args:
            path: The name of a file that `save` wrote.
            device: The device to put it on; without it, the one it was on, or the host if there is no such device.
        """
        return _saving.load_array(cls, path, device)

    @outside_inference_mode
    def __copy__(self) -> DeviceArray:
        return self._with_grid(torch.Tensor.clone)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "about": _saving.about(self),
            "cells": self._cells,
            "dense": copy_to_host(self._dense),
            "shared": self._store,
        }

    @outside_inference_mode
    def __setstate__(self, state: dict[str, Any]) -> None:
        about, shared = state["about"], state["shared"]
        device = shared.device if shared is not None else available_device(about["device"])
        self.__init__(  # type: ignore[misc]  # of an object that was made without it
            about["shape"],
            getattr(torch, about["dtype"]),
            device=device,
            item_ndim=about["item_ndim"],
            codec="none" if shared is None else "auto",
            store=shared,
        )
        if shared is not None:
            self._cells = state["cells"]
            shared.holders.add(self._cells)
        if state["dense"] is not None:
            self._dense = state["dense"].to(device, copy=True)

    def __repr__(self) -> str:
        return (
            f"<DeviceArray {self._shape} {str(self.dtype).removeprefix('torch.')} on {self.device}: items of "
            f"{self.item_shape}, {shorthand(self.codec)}, {self.nbytes:,} bytes in {self.nbytes_stored:,}>"
        )

    def _with_grid(self, change: Callable[[torch.Tensor], torch.Tensor]) -> DeviceArray:
        """Returns an array of the same items with the grid that `change` makes of their numbers, or of dense items."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        if self._dense is not None:
            made._dense = change(self._dense)
            made._shape = tuple(made._dense.shape)
        elif self._store is not None:
            with self._store.lock, self._store.guard:
                made._cells = DeviceCells(change(self._store.flushed_numbers(self._cells)))
                self._store.holders.add(made._cells)
            made._shape = (*made._cells.numbers.shape, *self.item_shape)
        made.grid_shape = made._shape[: len(made._shape) - len(self.item_shape)]
        made._grid = Grid(made.grid_shape, made.item_shape, self.device)
        return made

    def _fitted(self, items: torch.Tensor | Array, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns items in the shape of the cells they go to; one item may go to all of them."""
        tensor = as_tensor(items)
        return tensor.reshape(fit_shape(tensor.shape, tuple(shape), len(shape) - len(self.item_shape))).expand(shape)
