"""`Rows`: the small fields of all steps, uncompressed, each in a tensor of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from compressed_array_torch._items import check_tensor
from compressed_array_torch._row_gather import RowGather, Source
from compressed_array_torch._tensors import Array, Kind, as_host, from_host, zeros


class Rows:
    """Fields by name, (size, *shape) each."""

    def __init__(self, kinds: Sequence[Kind], size: int, device: torch.device) -> None:
        self.fields = {kind.name: zeros((size, *kind.shape), kind.dtype, device) for kind in kinds}
        self._row_gather = RowGather(size, self.sources)

    @property
    def sources(self) -> list[Source]:
        """Returns the fields as `RowGather` takes them."""
        return [(field, None) for field in self.fields.values()]

    @property
    def nbytes(self) -> int:
        return sum(field.nbytes for field in self.fields.values())

    def write(self, first: int, values: Mapping[str, torch.Tensor]) -> None:
        """Puts values, (count, *shape) each, to the positions from `first` on."""
        for name, value in values.items():
            self.fields[name][first : first + value.shape[0]] = value

    def chunk(self, count: int) -> dict[str, Array]:
        """Returns the first rows, for `write_chunk` of others with the same fields."""
        return {name: as_host(field[:count]) for name, field in self.fields.items()}

    def write_chunk(self, first: int, rows: Mapping[str, Array]) -> None:
        for name, field in self.fields.items():
            field[first : first + len(rows[name])] = from_host(rows[name], field.dtype).to(field.device)

    def read(self, positions: torch.Tensor, names: Iterable[str] | None = None) -> dict[str, torch.Tensor]:
        """Returns some fields, or all, at these positions, which may have any number of axes."""
        if names is None:
            parts = self._row_gather.read(positions)
            if parts is not None:
                return dict(zip(self.fields, parts, strict=True))
        names = self.fields if names is None else names
        if positions.ndim == 1:
            return {name: self.fields[name].index_select(0, positions) for name in names}
        flat, shape = positions.reshape(-1), positions.shape
        taken = {name: self.fields[name].index_select(0, flat) for name in names}
        return {name: field.view(*shape, *field.shape[1:]) for name, field in taken.items()}

    def state_dict(self) -> dict[str, Any]:
        return {name: field.clone() for name, field in self.fields.items()}

    def prepare_load(self, state: Mapping[str, torch.Tensor]) -> Callable[[], object]:
        """Checks that a state is of such fields, and returns a function that loads it."""
        for name, field in self.fields.items():
            check_tensor(state.get(name), field, name)
        return partial(self._take, state)

    def _take(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, field in self.fields.items():
            field.copy_(state[name])
