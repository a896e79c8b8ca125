"""`Columns`: the leaves of all rows of a storage, each where its codec and its size put it.

Small leaves are kept uncompressed, and so are others that are not to be compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from compressed_array.usage import PLAIN, KeyUsage, MemoryUsage
from compressed_array_torch._items import Delivery, check_tensor
from compressed_array_torch._rows import Rows
from compressed_array_torch._tensors import Kind, as_bits, zeros
from compressed_array_torch.errors import BufferStateError
from compressed_array_torch.fields import SMALL, Codecs
from compressed_array_torch.torchrl.column import Column, ColumnLeaf
from compressed_array_torch.torchrl.decoding import CompressedTensor

NEXT = "next."


class Columns:
    """All leaves of `rows` rows.

    Args:
        kinds: What each leaf is, by name.
        codec: None for no compression, a codec for all that are not small, or a mapping of names to these.
        device: Where they are kept.
    """

    def __init__(
        self, kinds: Mapping[str, Kind], rows: int, codec: Any, device: torch.device, delivery: Delivery
    ) -> None:
        self.kinds, self.device, self._count, self._delivery = dict(kinds), device, rows, delivery
        codecs = _codecs(kinds, codec)
        plain = [kind for name, kind in kinds.items() if codecs[name] is None]
        self._lanes = next(iter(kinds.values())).lanes
        self._small = Rows([kind for kind in plain if kind.nbytes <= SMALL], rows * self._lanes, device)
        self._dense = {
            kind.name: zeros((rows * self._lanes, *kind.shape), kind.dtype, device)
            for kind in plain
            if kind.nbytes > SMALL
        }
        self._compressed = [
            Column(group, rows, codecs[group[0].name], device, delivery)
            for group in _groups({name: kind for name, kind in kinds.items() if codecs[name] is not None}, codecs)
        ]

    def tensors(self, lanes: tuple[int, ...]) -> dict[str, torch.Tensor]:
        """Returns all leaves, as tensors that show what is held: (rows, *lanes, *shape) each."""
        shape, rows = (self._count, *lanes), range(self._count)
        found = {name: leaf.view(*shape, *leaf.shape[1:]) for name, leaf in (self._small.fields | self._dense).items()}
        for column in self._compressed:
            for leaf, kind in enumerate(column.kinds):
                found[kind.name] = CompressedTensor(ColumnLeaf(column, leaf, self.device), rows, lanes)
        return found

    def read(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns all leaves at these positions, where batches go."""
        there = positions.to(self.device)
        flat = there.reshape(-1)
        found = self._small.read(flat)
        for name, leaf in self._dense.items():
            found[name] = leaf.index_select(0, flat)
        for name, leaf in found.items():
            found[name] = self._delivery.tensor(leaf.view((*positions.shape, *leaf.shape[1:])))
        for column in self._compressed:
            found |= column.read(there)
        return found

    def write(
        self, positions: torch.Tensor, values: Mapping[str, torch.Tensor], *, is_row: bool, is_held: bool
    ) -> None:
        """Writes items, (positions, *shape) of each leaf, to positions that all differ: all of them, or nothing.

        Args:
            is_row: Whether the positions are those of one row.
            is_held: Whether these positions may hold items that can still be read.
        """
        undo: list[Callable[[], object]] = []
        several = sum(len(column.kinds) for column in self._compressed) > 1  # one alone is written whole, or not at all
        try:
            for column in self._compressed:
                if is_held and several:
                    undo.append(column.remember(positions))
                column.write(positions, values, is_row)
        except BaseException:
            for put_back in undo:
                put_back()
            raise
        there: Any = positions.to(self.device)
        if is_row:
            there = slice(int(positions[0]), int(positions[0]) + len(positions))
        for name, leaf in (self._small.fields | self._dense).items():
            as_bits(leaf)[there] = as_bits(values[name].to(self.device))

    def clear(self) -> None:
        """Drops all items. What is added next does not follow what was there."""
        for column in self._compressed:
            column.items.clear()

    def usage(self, rows: int, transitions: int, capacity: int) -> MemoryUsage:
        """Returns how much memory so many rows take."""
        keys = {column.name: column.usage(rows) for column in self._compressed}
        for name, leaf in self._dense.items():
            keys[name] = KeyUsage(rows * self._lanes * self.kinds[name].nbytes, leaf.nbytes, 0, PLAIN)
        return MemoryUsage(transitions, capacity, keys, self._small.nbytes)

    def state_dict(self) -> dict[str, Any]:
        return {
            "small": self._small.state_dict(),
            "dense": {name: leaf.clone() for name, leaf in self._dense.items()},
            "compressed": {column.name: column.items.state_dict() for column in self._compressed},
        }

    def prepare_load(self, state: Mapping[str, Any]) -> Callable[[], object]:
        """Checks a state, and returns a function that loads it."""
        compressed = {column.name: column for column in self._compressed}
        parts: dict[str, Mapping[str, Any]] = {
            "small": self._small.fields,
            "dense": self._dense,
            "compressed": compressed,
        }
        for part, expected in parts.items():
            if state[part].keys() != expected.keys():
                raise BufferStateError(
                    f"in this state {sorted(state[part])} are {part}, and here {sorted(expected)}: give the storage "
                    "the codec that the saved one had"
                )
        for name, leaf in self._dense.items():
            check_tensor(state["dense"][name], leaf, name)
        ready = [self._small.prepare_load(state["small"])]
        ready += [column.items.prepare_load(state["compressed"][name]) for name, column in compressed.items()]

        def take() -> None:
            for name, leaf in self._dense.items():
                leaf.copy_(state["dense"][name])
            for load in ready:
                load()

        return take


def _codecs(kinds: Mapping[str, Kind], codec: Any) -> dict[str, Any]:
    """Returns the codec that each leaf is kept with; None for those that are kept uncompressed."""
    rule = Codecs(codec, list(kinds))
    if not isinstance(codec, Mapping):
        is_none = codec is None or (isinstance(codec, str) and codec == "none")
        return {name: None if is_none or kind.nbytes <= SMALL else codec for name, kind in kinds.items()}
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        twin = kinds.get(name.removeprefix(NEXT)) if name.startswith(NEXT) else None
        found[name] = rule.of(kind, "auto" if twin is None else rule.of(twin))
    return found


def _groups(kinds: Mapping[str, Kind], codecs: Mapping[str, Any]) -> list[list[Kind]]:
    """Returns leaves that are kept together: one with the same one of the next step, and any other by itself."""
    groups: list[list[Kind]] = []
    taken: set[str] = set()
    for name, kind in kinds.items():
        after = kinds.get(NEXT + name)
        if after is None or name in taken or (after.shape, after.dtype) != (kind.shape, kind.dtype):
            continue
        if codecs[name] == codecs[after.name]:
            groups.append([kind, after])
            taken |= {name, after.name}
    return groups + [[kind] for name, kind in kinds.items() if name not in taken]
