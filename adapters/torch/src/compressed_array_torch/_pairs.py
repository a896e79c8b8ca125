"""Where observations and next observations are kept together, so that what both contain is kept once.

`Pair` is what a buffer asks of such a place. Those for compressed observations are here, `DensePair` is in a module of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

import compressed_array as ca
from compressed_array.usage import KeyUsage, usage_of
from compressed_array_torch._items import Delivery, DeviceItems, HostItems, decoded
from compressed_array_torch._saving import as_bytes, from_bytes
from compressed_array_torch._tensors import Array, Kind

Tensors = tuple[torch.Tensor, torch.Tensor]


class Pair(Protocol):
    """What a buffer asks of the place where it keeps observations."""

    kind: Kind

    def prepare(self, value: Any) -> Any:
        """Returns a step's items in the form that `write` takes; raises StepError if they are not of this field."""

    def write(self, row: int, items: Any, others: Any) -> None: ...

    def chunk(self, steps: int) -> tuple[Any, Any]:
        """Returns the first steps, (steps or more, lanes, *shape), as a chunk for pickling and `write_chunk`."""

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        """Writes steps of such a chunk to as many rows."""

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        """Returns observations at `positions`, and next observations there or at `others`: other steps, or fewer."""

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        """Returns observations alone."""

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        """Returns next observations alone."""

    def clear(self) -> None: ...

    def usage(self, steps: int) -> KeyUsage: ...

    def state_dict(self) -> Any: ...

    def prepare_load(self, state: Any) -> Callable[[], object]:
        """Checks that a state is of such a field, and returns a function that loads it."""


class CompressedPair:
    """What the two kinds of pairs of compressed arrays share: each pair stands on one store."""

    kind: Kind
    first: HostItems | DeviceItems
    second: HostItems | DeviceItems

    def chunk(self, steps: int) -> tuple[Any, Any]:
        return self.first.chunk(steps), self.second.chunk(steps)

    def read_first(self, positions: torch.Tensor) -> torch.Tensor:
        return self.first.read(positions)

    def read_second(self, positions: torch.Tensor) -> torch.Tensor:
        return self.second.read(positions)

    def clear(self) -> None:
        self.first.clear()
        self.second.clear()

    def usage(self, steps: int) -> KeyUsage:
        return usage_of([self.first.array, self.second.array], steps * self.kind.lanes, self.kind.nbytes)


class HostPair(CompressedPair):
    """Two compressed arrays of the host on one store."""

    first: HostItems
    second: HostItems

    def __init__(self, kind: Kind, rows: int, codec: Any, delivery: Delivery) -> None:
        self.kind, self._delivery = kind, delivery
        self.first = HostItems(kind, rows, codec, delivery)
        self.second = HostItems(kind, rows, codec, delivery, self.first.array.store)

    def prepare(self, value: Any) -> Array:
        return self.kind.array(value)

    def write(self, row: int, items: Array, others: Array) -> None:
        ca.write_pair(self.first.array, self.second.array, row, items, others)

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        ca.write_pair(self.first.array, self.second.array, rows, chunk, others)

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        where, after_where = positions.numpy(), None if others is None else others.numpy()
        shape = (*where.shape, *self.kind.shape)
        other_shape = shape if after_where is None else (*after_where.shape, *self.kind.shape)
        first, second = self._delivery.empty(shape, self.kind), self._delivery.empty(other_shape, self.kind)
        out = None if first is None or second is None else (first, second)
        items, after = ca.read_pair(self.first.flat, self.second.flat, where, out, after_where)
        return self._delivery.decoded(items, self.kind), self._delivery.decoded(after, self.kind)

    def state_dict(self) -> torch.Tensor:
        return as_bytes(ca.concatenate([self.first.array, self.second.array]))  # one file, as they are on one store

    def prepare_load(self, state: torch.Tensor) -> Callable[[], object]:
        rows = len(self.first.array)
        return partial(self._take, from_bytes(state, self.first.array, 2 * rows), rows)

    def _take(self, both: ca.CompressedArray, rows: int) -> None:
        self.first.use(both[:rows].copy())
        self.second.use(both[rows:].copy())
        self.second.array.store.note_another_array()  # as the constructor does; `copy` does not


class DevicePair(CompressedPair):
    """Two compressed arrays of a torch device on one store."""

    first: DeviceItems
    second: DeviceItems

    def __init__(self, kind: Kind, rows: int, codec: Any, device: torch.device, delivery: Delivery) -> None:
        self.kind = kind
        self.first = DeviceItems(kind, rows, codec, device, delivery)
        self.second = DeviceItems(kind, rows, codec, device, delivery, self.first.array.store)

    def prepare(self, value: Any) -> torch.Tensor:
        return self.kind.tensor(value)

    def write(self, row: int, items: torch.Tensor, others: torch.Tensor) -> None:
        self.first.write(row, items)
        self.second.write(row, others)

    def write_chunk(self, rows: slice, chunk: Any, others: Any) -> None:
        write_row_by_row(self, rows, chunk, others)

    def read(self, positions: torch.Tensor, others: torch.Tensor | None = None) -> Tensors:
        return self.first.read(positions), self.second.read(positions if others is None else others)

    def state_dict(self) -> Any:
        return {"first": self.first.state_dict(), "second": self.second.state_dict()}

    def prepare_load(self, state: Any) -> Callable[[], object]:
        ready = self.first.prepare_load(state["first"]), self.second.prepare_load(state["second"])
        return lambda: [take() for take in ready]


def write_row_by_row(pair: Pair, rows: slice, chunk: Any, others: Any) -> None:
    """Writes the steps of a chunk one by one, as if they came so, for what two steps share to be found."""
    first, second = decoded(chunk, pair.kind), decoded(others, pair.kind)
    for row, items, after in zip(range(rows.start, rows.stop), first, second, strict=True):
        pair.write(row, items, after)
