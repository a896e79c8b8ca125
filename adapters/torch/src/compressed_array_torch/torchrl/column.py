"""`Column`: compressed items of one leaf, or of a leaf and the one of the same name under "next".

Those two share one array, in which their rows alternate, in the order of time: so the next observation of a step comes
just before the same observation of the step after, and is kept once, however many rows are written at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import compressed_array as ca
from compressed_array.usage import KeyUsage
from compressed_array_torch._items import CPU, Delivery, DeviceItems, HostItems, Items
from compressed_array_torch._tensors import Kind

AT_A_TIME = 1 << 22  # bytes of items that are arranged alternately before they are written


class Column:
    """Compressed items of one leaf, or of two whose rows alternate: a row of the one, then a row of the other."""

    def __init__(self, kinds: Sequence[Kind], rows: int, codec: Any, device: torch.device, delivery: Delivery) -> None:
        self.kinds, self.kind, self._delivery = kinds, kinds[0], delivery
        count = rows * len(kinds)
        self.items: Items = (
            HostItems(self.kind, count, codec, delivery)
            if device == CPU
            else DeviceItems(self.kind, count, codec, device, delivery)
        )

    @property
    def name(self) -> str:
        return ", ".join(kind.name for kind in self.kinds)

    def read(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns the items of all leaves."""
        if len(self.kinds) == 2 and isinstance(self.items, HostItems):
            return dict(zip((kind.name for kind in self.kinds), self._read_pair(self.items, positions), strict=True))
        return {kind.name: self.items.read(self._at(positions, leaf)) for leaf, kind in enumerate(self.kinds)}

    def read_leaf(self, leaf: int, positions: torch.Tensor) -> torch.Tensor:
        return self.items.read(self._at(positions, leaf))

    def _read_pair(self, items: HostItems, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        where, lanes = positions.numpy(), self.kind.lanes
        shape = (*where.shape, *self.kind.shape)
        first, second = self._delivery.empty(shape, self.kind), self._delivery.empty(shape, self.kind)
        out = None if first is None or second is None else (first, second)
        key = (where // lanes, where % lanes)
        one, other = ca.read_pair(items.array[0::2], items.array[1::2], key, out)
        return self._delivery.decoded(one, self.kind), self._delivery.decoded(other, self.kind)

    def write(self, positions: torch.Tensor, values: Mapping[str, torch.Tensor], is_row: bool) -> None:
        """Writes items, (positions, *shape) of each leaf, to these positions: to all of one row, or to any others."""
        parts = [values[kind.name] for kind in self.kinds]
        if is_row:
            row = int(positions[0]) // self.kind.lanes * len(parts)
            for leaf, part in enumerate(parts):
                self.items.write(row + leaf, self.items.prepare(part))
        elif len(parts) == 1:
            self.items.update(positions, parts[0])
        else:
            count = max(AT_A_TIME // (len(parts) * self.kind.nbytes), 1)
            for low in range(0, len(positions), count):
                items = torch.stack([part[low : low + count] for part in parts], 1)
                self.items.update(self._all(positions[low : low + count]), items.flatten(0, 1))

    def write_leaf(self, leaf: int, positions: torch.Tensor, items: torch.Tensor) -> None:
        self.items.update(self._at(positions, leaf), items)

    def remember(self, positions: torch.Tensor) -> Callable[[], object]:
        """Returns a function that writes back what is at these positions now."""
        at = self._all(positions)
        before = self.items.read(at)
        return lambda: self.items.update(at, before)

    def _at(self, positions: torch.Tensor, leaf: int) -> torch.Tensor:
        """Returns where the items of one leaf, by its index, are among those of all."""
        if len(self.kinds) == 1:
            return positions
        lanes = self.kind.lanes
        return positions + (positions // lanes * (len(self.kinds) - 1) + leaf) * lanes

    def _all(self, positions: torch.Tensor) -> torch.Tensor:
        """Returns where the items of all leaves are, alternately."""
        return torch.stack([self._at(positions, leaf) for leaf in range(len(self.kinds))], 1).flatten()

    def usage(self, rows: int) -> KeyUsage:
        return self.items.usage(rows * len(self.kinds))


class ColumnLeaf:
    """One leaf of a column, as `CompressedTensor` sees it: where it is kept, not where batches go."""

    def __init__(self, column: Column, leaf: int, device: torch.device) -> None:
        self.kind, self.device, self._column, self._leaf = column.kinds[leaf], device, column, leaf

    def read(self, positions: torch.Tensor) -> torch.Tensor:
        return self._column.read_leaf(self._leaf, positions).to(self.device)

    def write(self, positions: torch.Tensor, items: torch.Tensor) -> None:
        self._column.write_leaf(self._leaf, positions, items)
