"""`RowGather`: small tensors of the host at the same positions, all taken in one native call."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compressed_array.sampling import Gather, Table

# Rows of up to this many bytes are copied in less time than a call to torch takes.
SHORT = 1024
Source = tuple[torch.Tensor, torch.Tensor | None]


class RowGather:
    """Tensors of rows, each with or without a table, of int32 or int64, that says which row is at a position.

    `read` returns what `index_select` would, or None where `index_select` has to be called.
    """

    def __init__(self, size: int, sources: Sequence[Source]) -> None:
        self._size, self._sources = size, list(sources)
        self._tensors = [tensor for source in sources for tensor in source if tensor is not None]
        are_short = bool(sources) and all(_nbytes(rows) <= SHORT for rows, _ in sources)
        self._is_covered = are_short and all(map(_is_covered, self._tensors))
        self._gather, self._addresses = Gather(size, []), list[int]()
        self._likes: tuple[tuple[int, ...], list[torch.Tensor]] = (-1,), []

    def read(self, positions: torch.Tensor) -> list[torch.Tensor] | None:
        """Returns the rows of each tensor at these positions, which may have any number of axes."""
        is_here = positions.device.type == "cpu"
        if not self._is_covered or not is_here or positions.dtype is not torch.int64 or not positions.is_contiguous():
            return None
        shape, likes = self._likes
        if shape != positions.shape:
            found = self._like(positions)
            if found is None:
                return None
            likes = found
        # Looked up each time: torch moves what it shares with another process.
        addresses = [tensor.data_ptr() for tensor in self._tensors]
        if addresses != self._addresses:
            self._gather, self._addresses = Gather(self._size, [_table(*source) for source in self._sources]), addresses
        taken = [torch.empty_like(like) for like in likes]
        is_done = self._gather.into(positions.data_ptr(), positions.numel(), [part.data_ptr() for part in taken])
        return taken if is_done else None

    def _like(self, positions: torch.Tensor) -> list[torch.Tensor] | None:
        """Returns tensors with the shapes of the result: views, which take no memory. None if the rows are too few."""
        count, shape = positions.numel(), positions.shape
        if any(len(rows) < count for rows, _ in self._sources):
            return None
        likes = [rows[:count].view(*shape, *rows.shape[1:]) for rows, _ in self._sources]
        self._likes = tuple(shape), likes
        return likes


def _is_covered(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.numel() > 0


def _nbytes(rows: torch.Tensor) -> int:
    return rows.nbytes // max(len(rows), 1)


def _table(rows: torch.Tensor, through: torch.Tensor | None) -> Table:
    if through is None:
        return Table(rows.data_ptr(), _nbytes(rows), len(rows))
    return Table(rows.data_ptr(), _nbytes(rows), len(rows), through.data_ptr(), through.dtype.itemsize)
