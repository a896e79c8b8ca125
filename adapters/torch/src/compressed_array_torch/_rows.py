"""`Rows`: the small fields of all steps side by side in one tensor, of which one gather brings a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from compressed_array_torch._items import check_tensor
from compressed_array_torch._tensors import Array, Kind, as_host, zeros

ALIGNMENT = 16  # bytes; no dtype of torch has larger elements


class Rows:
    """Fields that are kept as they are, each a strided view of one tensor of bytes, (size, bytes of a row)."""

    def __init__(self, kinds: Sequence[Kind], size: int, device: torch.device) -> None:
        # The largest elements first, so that each field begins at a multiple of its own.
        self._kinds = sorted(kinds, key=lambda kind: -kind.dtype.itemsize)
        self._spans: list[tuple[Kind, int, int]] = []
        end = 0
        for kind in self._kinds:
            start, end = end, end + kind.nbytes
            self._spans.append((kind, start, end))
        width = -(-max(end, 1) // ALIGNMENT) * ALIGNMENT
        self._bytes = zeros((size, width), torch.uint8, device)
        self.fields = self._taken_apart(self._bytes)

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes

    def write(self, first: int, values: Mapping[str, torch.Tensor]) -> None:
        """Put values, (count, *shape) each, to the positions from `first` on."""
        for name, value in values.items():
            self.fields[name][first : first + len(value)] = value

    def chunk(self, count: int) -> Array:
        """The first rows as they are, for `write_chunk` of others with the same fields."""
        return as_host(self._bytes[:count])

    def write_chunk(self, first: int, rows: Array) -> None:
        self._bytes[first : first + len(rows)] = torch.from_numpy(rows).to(self._bytes.device)

    def read(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        """All fields at these positions, which may have any number of axes."""
        if positions.ndim == 1:
            taken = self._bytes.index_select(0, positions)
        else:
            taken = self._bytes.index_select(0, positions.reshape(-1)).view(*positions.shape, self._bytes.shape[1])
        parts = self._taken_apart(taken)
        # Fields with axes of their own are copied, so that `view` works on them.
        return {name: field.contiguous() if field.ndim > positions.ndim else field for name, field in parts.items()}

    def _taken_apart(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """The fields of rows of bytes."""
        views: dict[torch.dtype, torch.Tensor] = {}
        fields = {}
        for kind, start, end in self._spans:
            words = views.get(kind.dtype)
            if words is None:
                words = views[kind.dtype] = rows.view(kind.dtype)
            size = kind.dtype.itemsize
            if kind.shape:
                part = words[..., start // size : end // size]
                fields[kind.name] = part.view(*part.shape[:-1], *kind.shape) if len(kind.shape) > 1 else part
            else:
                fields[kind.name] = words[..., start // size]
        return fields

    def state_dict(self) -> dict[str, Any]:
        return {name: field.clone() for name, field in self.fields.items()}

    def loading(self, state: Mapping[str, torch.Tensor]) -> Callable[[], object]:
        """What makes this hold what a state does, once that is looked through and found to be of such fields."""
        for name, field in self.fields.items():
            check_tensor(state.get(name), field, name)
        return partial(self._take, state)

    def _take(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, field in self.fields.items():
            field.copy_(state[name])
