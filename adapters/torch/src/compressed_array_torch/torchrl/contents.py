"""`Contents`: all that a storage holds, which is rows of data of one structure, in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch

from compressed_array_torch._items import Delivery
from compressed_array_torch._tensors import Kind
from compressed_array_torch.errors import BufferStateError, StepError
from compressed_array_torch.torchrl.columns import Columns
from compressed_array_torch.torchrl.structure import Structure


class Place(NamedTuple):
    """How and where rows are kept, and where batches go."""

    codec: Any
    device: torch.device
    delivery: Delivery


class Plan(NamedTuple):
    """What rows are made of, and how many there are: all that empty contents are made from."""

    structure: Structure
    kinds: dict[str, tuple[tuple[int, ...], torch.dtype]]
    rows: int
    lanes: tuple[int, ...]

    @classmethod
    def of(cls, row: Any, size: int, ndim: int) -> Plan:
        """Returns the plan for `size` items, or a few more, so that they are whole rows like this one."""
        axes = ndim - 1
        structure = Structure.of(row, axes)
        leaves = structure.taken_apart(row)
        lanes = tuple(next(iter(leaves.values())).shape[:axes])
        for name, leaf in leaves.items():
            if tuple(leaf.shape[:axes]) != lanes or len(lanes) < axes or 0 in lanes:
                raise StepError(
                    f"{name} is of shape {tuple(leaf.shape)} in each row: in a storage with ndim={ndim} the first "
                    f"{axes} axes of that are the same for all keys, and not empty"
                )
        kinds = {name: (tuple(leaf.shape[axes:]), leaf.dtype) for name, leaf in leaves.items()}
        return cls(structure, kinds, rows_for(size, lanes), lanes)

    @property
    def shape(self) -> torch.Size:
        return torch.Size([self.rows, *self.lanes])

    def describe(self) -> dict[str, Any]:
        """Returns this in plain values."""
        kinds = {name: [list(shape), str(dtype).removeprefix("torch.")] for name, (shape, dtype) in self.kinds.items()}
        return {"structure": self.structure.describe(), "kinds": kinds, "shape": list(self.shape)}

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> Plan:
        """Returns the inverse of `describe`."""
        kinds = {name: (tuple(shape), getattr(torch, dtype)) for name, (shape, dtype) in description["kinds"].items()}
        rows, *lanes = description["shape"]
        structure = Structure.described(description["structure"])
        dtypes = [dtype for _, dtype in kinds.values()]
        if set(structure.names) != kinds.keys() or not all(isinstance(dtype, torch.dtype) for dtype in dtypes):
            raise BufferStateError("the state is damaged: it does not say of what dtype its keys are")
        return cls(structure, kinds, rows, tuple(lanes))


class Contents:
    """Rows of data, written and read by position: rows one after the other, with the items of all lanes in each."""

    def __init__(self, plan: Plan, place: Place) -> None:
        self.plan, self._place = plan, place
        kinds = {name: Kind(name, shape, dtype, prod(plan.lanes)) for name, (shape, dtype) in plan.kinds.items()}
        self.columns = Columns(kinds, plan.rows, *place)

    def tensors(self) -> Any:
        """Returns all rows, as data whose tensors show what is held."""
        plan = self.plan
        return plan.structure.put_together(self.columns.tensors(plan.lanes), plan.shape, self._place.device)

    def read(self, positions: torch.Tensor, *, are_rows: bool) -> Any:
        """Returns data of these positions, which are whole rows or any others, on the device of batches."""
        leaves, unnamed = self.columns.read(positions), 0 if are_rows else len(self.plan.lanes)
        return self.plan.structure.put_together(leaves, positions.shape, self._place.delivery.device, unnamed)

    def write(self, positions: torch.Tensor, data: Any, *, is_row: bool, held: int) -> None:
        """Writes data; raises StepError before anything has changed if it is not of these shapes and dtypes.

        Args:
            is_row: Whether they are one row.
            held: How many positions hold something that can still be read.
        """
        values = self.plan.structure.taken_apart(data)
        for name, kind in self.columns.kinds.items():
            if tuple(values[name].shape) != (*positions.shape, *kind.shape):
                raise StepError(
                    f"{name} is of shape {tuple(values[name].shape)}, where {tuple(positions.shape)} items of shape "
                    f"{kind.shape} belong"
                )
            values[name] = kind.cast(values[name].detach()).reshape(positions.numel(), *kind.shape)
        where = positions.reshape(-1)
        if not is_row:
            where, values = last_of_each(where, values)
        if len(where):
            self.columns.write(where, values, is_row=is_row, is_held=int(where.min()) < held)

    def state_dict(self) -> dict[str, Any]:
        return {**self.plan.describe(), "columns": self.columns.state_dict()}

    def prepare_load(self, state: Mapping[str, Any]) -> Callable[[], object]:
        """Checks a state, and returns a function that loads it."""
        if any(state[name] != part for name, part in self.plan.describe().items()):
            raise BufferStateError(
                "this is the state of a storage of another size, or with other keys, shapes or dtypes"
            )
        return self.columns.prepare_load(state["columns"])


def rows_for(size: int, lanes: tuple[int, ...]) -> int:
    """Returns how many rows hold so many items."""
    return -(-size // prod(lanes))


def last_of_each(where: torch.Tensor, values: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Returns positions once each, with what was given for them last."""
    if bool((where[1:] > where[:-1]).all()):
        return where, values
    newest = np.unique(where.numpy()[::-1], return_index=True)[1]
    if len(newest) == len(where):
        return where, values
    stays = torch.from_numpy(np.sort(len(where) - 1 - newest))
    return where[stays], {name: value[stays.to(value.device)] for name, value in values.items()}
