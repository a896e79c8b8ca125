"""Where the items of one field are kept: dense, compressed on the host, or compressed on a device.

All three are read by position, rows one after the other, and give tensors on the device that batches go to.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

import compressed_array as ca
from compressed_array.sampling import batch_memory
from compressed_array.torch import DeviceArray
from compressed_array.usage import KeyUsage, usage_of
from compressed_array_torch._saving import as_bytes, from_bytes
from compressed_array_torch._tensors import Array, Kind, as_bits, as_host, from_host, zeros
from compressed_array_torch.errors import BufferStateError

CPU = torch.device("cpu")


class Items(Protocol):
    """What a buffer asks of the place where it keeps a field."""

    kind: Kind

    def prepare(self, value: Any) -> Any:
        """Returns a step's items in the form that `write` takes; raises StepError if they are not of this field."""

    def write(self, row: int, items: Any) -> None: ...

    def update(self, positions: torch.Tensor, items: Any) -> None:
        """Writes items of any steps, (positions, *shape); of several for the same position, the last one stays."""

    def chunk(self, steps: int) -> Any:
        """Returns the first steps, (steps or more, lanes, *shape), as a chunk for pickling and `write_chunk`."""

    def write_chunk(self, rows: slice, chunk: Any) -> None:
        """Writes steps of such a chunk to as many rows."""

    def read(self, positions: torch.Tensor) -> torch.Tensor: ...

    def clear(self) -> None:
        """Drops all items. What is added next does not follow what was there."""

    def usage(self, steps: int) -> KeyUsage: ...

    def state_dict(self) -> Any: ...

    def prepare_load(self, state: Any) -> Callable[[], object]:
        """Checks that a state is of such a field, and returns a function that loads it."""


class Delivery:
    """Where batches go, and memory from which they get there without waiting."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._is_gpu = device.type == "cuda"

    def empty(self, shape: tuple[int, ...], kind: Kind) -> Array | None:
        """Returns pinned memory to decode into if batches go to a GPU, else None for any memory."""
        if not self._is_gpu:
            return None
        memory = torch.empty(shape, dtype=torch.from_numpy(np.empty(0, kind.host_dtype)).dtype, pin_memory=True)
        return memory.numpy()

    def taken(self, items: torch.Tensor, at: torch.Tensor, kind: Kind) -> torch.Tensor:
        """Returns rows of a tensor; on the host, in memory that earlier batches have left."""
        if items.device.type != "cpu":
            return items.index_select(0, at)
        shape = (len(at), *kind.shape)
        memory = self.empty(shape, kind)
        out = batch_memory(shape, kind.host_dtype) if memory is None else memory
        taken = from_host(out, kind.dtype)
        torch.index_select(as_bits(items), 0, at, out=as_bits(taken))  # torch does not take all dtypes by index
        return taken

    def decoded(self, items: Array, kind: Kind) -> torch.Tensor:
        """Returns items that were decoded into such memory, as a tensor on the device."""
        tensor = from_host(items, kind.dtype)
        return tensor if self.device is CPU else tensor.to(self.device, non_blocking=self._is_gpu)

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if tensor.device == self.device else tensor.to(self.device)


class DenseItems:
    """Uncompressed items, in one tensor."""

    def __init__(self, kind: Kind, rows: int, device: torch.device, delivery: Delivery) -> None:
        self.kind, self._delivery = kind, delivery
        self._items = zeros((rows * kind.lanes, *kind.shape), kind.dtype, device)

    def prepare(self, value: Any) -> torch.Tensor:
        return self.kind.tensor(value)

    def write(self, row: int, items: torch.Tensor) -> None:
        first = row * self.kind.lanes
        self._items[first : first + self.kind.lanes] = items

    def update(self, positions: torch.Tensor, items: torch.Tensor) -> None:
        as_bits(self._items)[positions] = as_bits(items.to(self._items.device))

    def chunk(self, steps: int) -> Array:
        return as_host(self._items[: steps * self.kind.lanes]).reshape(steps, *self.kind.full)

    def write_chunk(self, rows: slice, chunk: Any) -> None:
        items = decoded(chunk, self.kind).flatten(0, 1)
        self._items[rows.start * self.kind.lanes : rows.stop * self.kind.lanes] = items.to(self._items.device)

    def read(self, positions: torch.Tensor) -> torch.Tensor:
        taken = self._delivery.taken(self._items, positions.reshape(-1), self.kind)
        return self._delivery.tensor(taken.view(*positions.shape, *self.kind.shape))

    def clear(self) -> None:
        pass

    def usage(self, steps: int) -> KeyUsage:
        return KeyUsage(steps * self.kind.lanes * self.kind.nbytes, self._items.nbytes, 0, "plain")

    def state_dict(self) -> torch.Tensor:
        return self._items.clone()

    def prepare_load(self, state: torch.Tensor) -> Callable[[], object]:
        check_tensor(state, self._items, self.kind.name)
        return lambda: self._items.copy_(state)


class HostItems:
    """Items in a compressed array on the host."""

    def __init__(self, kind: Kind, rows: int, codec: Any, delivery: Delivery, store: Any = None) -> None:
        self.kind, self._delivery = kind, delivery
        where: dict[str, Any] = {"codec": codec} if store is None else {"store": store}
        self.use(ca.CompressedArray((rows, *kind.full), kind.host_dtype, item_ndim=len(kind.shape), **where))

    def use(self, array: ca.CompressedArray) -> None:
        """Keeps the items in this array from now on; it has the right shape."""
        self.array = array
        self.flat = array.reshape(array.shape[0] * self.kind.lanes, *self.kind.shape)

    def prepare(self, value: Any) -> Array:
        return self.kind.array(value)

    def write(self, row: int, items: Array) -> None:
        self.array[row] = items

    def update(self, positions: torch.Tensor, items: torch.Tensor) -> None:
        self.flat[positions.numpy()] = as_host(items)

    def chunk(self, steps: int) -> ca.CompressedArray:
        return self.array  # whole: as such it is pickled with its store, which the next observations share

    def write_chunk(self, rows: slice, chunk: Any) -> None:
        self.array[rows] = chunk

    def read(self, positions: torch.Tensor) -> torch.Tensor:
        where = positions.numpy()
        out = self._delivery.empty((*where.shape, *self.kind.shape), self.kind)
        return self._delivery.decoded(self.flat.read(where, out), self.kind)

    def clear(self) -> None:
        self.array.compact()
        # On the same store, which already knows this stream.
        shape, items = self.array.shape, len(self.kind.shape)
        self.use(ca.CompressedArray(shape, self.kind.host_dtype, item_ndim=items, store=self.array.store))

    def usage(self, steps: int) -> KeyUsage:
        return usage_of([self.array], steps * self.kind.lanes, self.kind.nbytes)

    def state_dict(self) -> torch.Tensor:
        return as_bytes(self.array)

    def prepare_load(self, state: torch.Tensor) -> Callable[[], object]:
        return partial(self.use, from_bytes(state, self.array, len(self.array)))


class DeviceItems:
    """Items in a compressed array on a torch device."""

    def __init__(
        self, kind: Kind, rows: int, codec: Any, device: torch.device, delivery: Delivery, store: Any = None
    ) -> None:
        self.kind, self._delivery = kind, delivery
        where: dict[str, Any] = {"codec": codec} if store is None else {"store": store}
        self.array = DeviceArray((rows, *kind.full), kind.dtype, item_ndim=len(kind.shape), device=device, **where)

    def prepare(self, value: Any) -> torch.Tensor:
        return self.kind.tensor(value)

    def write(self, row: int, items: torch.Tensor) -> None:
        self.array[row] = items

    def update(self, positions: torch.Tensor, items: torch.Tensor) -> None:
        lanes = self.kind.lanes
        self.array[positions // lanes, positions % lanes] = items

    def chunk(self, steps: int) -> Array:
        return as_host(self.array[:steps])

    def write_chunk(self, rows: slice, chunk: Any) -> None:
        for row, items in zip(range(rows.start, rows.stop), decoded(chunk, self.kind), strict=True):
            self.write(row, items)

    def read(self, positions: torch.Tensor) -> torch.Tensor:
        lanes = self.kind.lanes
        return self._delivery.tensor(self.array[positions // lanes, positions % lanes])

    def clear(self) -> None:
        store = self.array.store
        if store is not None:
            self.array.compact()
            shape, items, device = self.array.shape, len(self.kind.shape), self.array.device
            self.array = DeviceArray(shape, self.kind.dtype, item_ndim=items, device=device, store=store)

    def usage(self, steps: int) -> KeyUsage:
        return usage_of([self.array], steps * self.kind.lanes, self.kind.nbytes)

    def state_dict(self) -> DeviceArray:
        return copy(self.array)

    def prepare_load(self, state: Any) -> Callable[[], object]:
        like = self.array
        if not isinstance(state, DeviceArray) or (state.shape, state.dtype) != (like.shape, like.dtype):
            raise BufferStateError(f"the state of {self.kind.name} is not of a buffer like this one")
        if state.device != like.device:
            raise BufferStateError(f"the state of {self.kind.name} lies on {state.device}, and this on {like.device}")
        return lambda: setattr(self, "array", copy(state))


def decoded(chunk: Any, kind: Kind) -> torch.Tensor:
    """Returns the items of a chunk, compressed or not."""
    return from_host(chunk.read() if isinstance(chunk, ca.CompressedArray) else chunk, kind.dtype)


def check_tensor(state: Any, like: torch.Tensor, name: str) -> None:
    """Refuses a state that is not a tensor with the shape and dtype of another one."""
    if not isinstance(state, torch.Tensor) or state.shape != like.shape or state.dtype != like.dtype:
        raise BufferStateError(
            f"the state of {name} is not of a buffer like this one, which has {like.dtype} of shape {tuple(like.shape)}"
        )
