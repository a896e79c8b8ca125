"""`CompressedTensor`: compressed rows as a tensor, which decodes items when they are used.

TorchRL looks at one key of all that a storage holds (`storage[:]["next", "done"]`) and throws the rest away, so that
rest must not be decoded. A slice of rows is a view, as of any tensor, and what is written to it is stored. Every
other operation works on decoded items, and gives a copy.
"""

from __future__ import annotations

from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map  # what torch's own guide to such classes uses

from compressed_array.errors import UnsupportedOperationError
from compressed_array_torch._tensors import Kind, as_tensor

# These reach for a tensor's memory without going through an operation of torch.
DECODED = {
    torch.Tensor.__array__,
    torch.Tensor.__deepcopy__,
    torch.Tensor.__dlpack__,
    torch.Tensor.__reduce_ex__,
    torch.Tensor.numpy,
    torch.Tensor.tolist,
}
REFUSED = {
    torch.Tensor.data_ptr,
    torch.Tensor.set_,
    torch.Tensor.share_memory_,
    torch.Tensor.storage,
    torch.Tensor.untyped_storage,
}


class Leaf(Protocol):
    """Where the items of one key are, by position: rows one after the other."""

    kind: Kind
    device: torch.device

    def read(self, positions: torch.Tensor) -> torch.Tensor: ...

    def write(self, positions: torch.Tensor, items: torch.Tensor) -> None: ...


class CompressedTensor(torch.Tensor):
    """Some rows of a leaf, each with items in a grid of `lanes`."""

    _leaf: Leaf
    _rows: range
    _lanes: tuple[int, ...]

    @staticmethod
    def __new__(cls: type[CompressedTensor], leaf: Leaf, rows: range, lanes: tuple[int, ...]) -> CompressedTensor:
        shape = (len(rows), *lanes, *leaf.kind.shape)
        self: CompressedTensor = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=leaf.kind.dtype, device=leaf.device
        )
        self._leaf, self._rows, self._lanes = leaf, rows, lanes
        return self

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def decoded(self) -> torch.Tensor:
        """Returns all items, in a plain tensor."""
        return self._leaf.read(positions_of(slice(None), self._rows, self._lanes))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = args[0] if args else None
        if isinstance(first, CompressedTensor):
            if func is torch.Tensor.__getitem__:
                return first._get(args[1])
            if func is torch.Tensor.__setitem__:
                return first._set(args[1], args[2])
            if func in DECODED:
                return func(first.decoded(), *args[1:], **(kwargs or {}))
            if func in REFUSED:
                raise UnsupportedOperationError(
                    f"{func.__name__}: these items are compressed and have no memory of their own; clone() them first"
                )
            if func in (torch.Tensor.flatten, torch.flatten) and args[1:] == (0, len(first._lanes)):
                return first._flat()
        return torch._C._disabled_torch_function_impl(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]  # torch's own has no `func`
        if func is torch.ops.aten.detach.default:
            return cls(args[0]._leaf, args[0]._rows, args[0]._lanes)
        if func is torch.ops.aten.copy_.default and isinstance(args[0], CompressedTensor):
            args[0]._set(slice(None), args[1])
            return args[0]
        plain: dict[int, torch.Tensor] = {}

        def decode(value: Any) -> Any:
            if not isinstance(value, CompressedTensor):
                return value
            return plain[id(value)] if id(value) in plain else plain.setdefault(id(value), value.decoded())

        answer = func(*tree_map(decode, args), **tree_map(decode, kwargs or {}))
        for value in _written(func, args, kwargs or {}):
            value._set(slice(None), plain[id(value)])
            answer = value if answer is plain[id(value)] else answer
        return answer

    def _get(self, key: Any) -> torch.Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        if all(part is Ellipsis for part in parts):
            return self
        if len(parts) == 1 and isinstance(parts[0], slice) and (parts[0].step or 1) > 0:
            return CompressedTensor(self._leaf, self._rows[parts[0]], self._lanes)
        if self._reach_into_items(parts):
            return self.decoded()[key]
        return self._leaf.read(positions_of(key, self._rows, self._lanes))

    def _set(self, key: Any, value: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        if self._reach_into_items(parts):
            items, key = self.decoded(), slice(None)
            items[parts] = value
            value = items
        positions = positions_of(key, self._rows, self._lanes)
        items = self._leaf.kind.cast(as_tensor(value)).expand(*positions.shape, *self._leaf.kind.shape)
        self._leaf.write(positions.reshape(-1), items.reshape(positions.numel(), *self._leaf.kind.shape))

    def _reach_into_items(self, parts: tuple[Any, ...]) -> bool:
        """Whether the parts of a key pick something inside items, and not just items."""
        if any(part is None or part is Ellipsis or isinstance(part, bool) for part in parts):
            return True
        return axes_of(parts) > 1 + len(self._lanes)

    def _flat(self) -> torch.Tensor:
        """Returns the same items in one axis."""
        if self._rows.step != 1:
            return self.decoded().flatten(0, len(self._lanes))
        size = prod(self._lanes)
        return CompressedTensor(self._leaf, range(self._rows.start * size, self._rows.stop * size), ())


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[CompressedTensor]:
    """Returns those of an operation's arguments that it changes."""
    arguments = func._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, args, strict=False)} | kwargs
    changed = [
        given[a.name] for a in arguments if a.alias_info is not None and a.alias_info.is_write and a.name in given
    ]
    return [value for value in tree_leaves(changed) if isinstance(value, CompressedTensor)]


def positions_of(key: Any, rows: range, lanes: tuple[int, ...]) -> torch.Tensor:
    """Returns the positions that a key picks among these rows, each of which has a grid of lanes."""
    size, key = prod(lanes), as_torch_key(key)
    if isinstance(key, int):
        return rows[key] * size + torch.arange(size).reshape(lanes)
    parts = key if isinstance(key, tuple) else (key,)
    if rows.step == 1 and len(parts) == 1 + len(lanes) and all(is_integers(part) for part in parts):
        total = torch.zeros((), dtype=torch.int64)
        for part, length in zip(parts, (len(rows), *lanes), strict=True):
            total = total * length + _bounded(part, length)
        return total + rows.start * size
    grid = torch.arange(rows.start, rows.stop, rows.step).mul_(size).reshape(-1, *[1] * len(lanes))
    return (grid + torch.arange(size).reshape(lanes))[key]


def axes_of(parts: tuple[Any, ...]) -> int:
    """Returns how many axes the parts of a key are for: one each, but for masks with several."""
    masks = (np.ndarray, torch.Tensor)
    return sum(
        part.ndim if isinstance(part, masks) and part.dtype in (torch.bool, np.dtype(bool)) else 1 for part in parts
    )


def as_torch_key(key: Any) -> Any:
    """Returns a key of ints, slices and tensors on the host."""
    if isinstance(key, tuple):
        return tuple(map(as_torch_key, key))
    if isinstance(key, range):
        return torch.arange(key.start, key.stop, key.step)
    if isinstance(key, (list, np.ndarray, torch.Tensor)):
        found = torch.as_tensor(key).cpu()
        return found.long() if not found.numel() and isinstance(key, list) else found
    return int(key) if isinstance(key, np.integer) else key


def is_integers(part: Any) -> bool:
    """Whether a part of a key is a tensor of indices."""
    return isinstance(part, torch.Tensor) and part.dtype in (torch.int64, torch.int32)


def _bounded(indices: torch.Tensor, length: int) -> torch.Tensor:
    """Returns indices counted from 0, if there is a row for each; raises IndexError otherwise."""
    if indices.numel():
        low, high = (int(bound) for bound in torch.aminmax(indices))
        if low < -length or high >= length:
            raise IndexError(f"index {low if low < -length else high} is out of range for {length} rows")
        if low < 0:
            return torch.where(indices < 0, indices + length, indices)
    return indices
