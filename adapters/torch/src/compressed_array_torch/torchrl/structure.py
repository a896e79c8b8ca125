"""`Structure`: what data is made of, so that it can be taken apart into named tensors and put together again.

Data is a TensorDict or tensorclass, nested or not, a tensor, or a tree of dicts, lists and tuples with those in it.
"""

# tensordict ships no types, and need not be there:
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from tensordict import TensorDict, is_non_tensor, is_tensor_collection, is_tensorclass

from compressed_array_torch.errors import BufferStateError, StepError

PLAIN: dict[str, type] = {"TensorDict": TensorDict, "dict": dict, "list": list, "tuple": tuple}
ONLY = "data"  # the name of a tensor that is the whole data
KeyPath = tuple[str, ...]


@dataclass(frozen=True)
class Branch:
    """A node of data: its class, and its parts by key.

    For nodes with a batch size, also the batch size of one item, and the names of the axes of one row.
    """

    made_of: type
    parts: dict[Any, Branch | str]
    batch: tuple[int, ...] | None = None
    names: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Structure:
    """The nodes of data, with the names of its tensors, which are keys joined by dots, where the tensors are."""

    root: Branch | str

    @classmethod
    def of(cls, row: Any, lanes: int) -> Structure:
        """Returns the structure of one row, whose nodes have `lanes` batch axes before those of an item."""
        made = cls(_branch(row, (), lanes))
        for name in made.names:
            if made.names.count(name) > 1:
                raise StepError(f"two leaves are called {name!r}; give one of them a key without a dot in it")
        if not made.names:
            raise StepError("there is no tensor in the data")
        return made

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(_names(self.root))

    def taken_apart(self, data: Any) -> dict[str, torch.Tensor]:
        """Returns the tensors of data by name, if it has this structure; raises StepError otherwise."""
        try:
            found = dict(_leaves(data, ()))
        except RuntimeError as error:  # of a lazy stack
            raise StepError(f"items that are not alike cannot be stored together: {error}") from error
        if found.keys() != set(self.names):
            missing, unknown = sorted(set(self.names) - found.keys()), sorted(found.keys() - set(self.names))
            raise StepError(
                f"the data lacks {missing} and has {unknown}, which this storage does not know: whatever is added has "
                "the keys of what was added first"
            )
        return found

    def put_together(
        self, tensors: Mapping[str, torch.Tensor], batch: torch.Size, device: torch.device | None, unnamed: int = 0
    ) -> Any:
        """Returns data of this structure made of other tensors, which begin with these batch axes.

        Args:
            unnamed: How many of a row's first axes the tensors do not have, whose names are then left out.
        """
        return _built(self.root, tensors, batch, device, unnamed)

    def describe(self) -> Any:
        """Returns this in plain values."""
        return _described(self.root)

    @classmethod
    def described(cls, description: Any) -> Structure:
        """Returns the inverse of `describe`, for data of known classes."""
        return cls(_undescribed(description))


def first_row(data: Any) -> Any:
    """Returns the first of several rows."""
    if type(data) is dict:
        return {key: first_row(part) for key, part in data.items()}
    return type(data)(map(first_row, data)) if type(data) in (list, tuple) else data[0]


def stacked(rows: list[Any]) -> Any:
    """Returns the rows of a list as data with several rows."""
    if not rows:
        raise StepError("there is nothing in the list")
    structure = Structure.of(rows[0], 0)
    parts = [structure.taken_apart(row) for row in rows]
    for name in structure.names:
        if len({part[name].shape for part in parts}) > 1:
            raise StepError(f"items that are not alike cannot be stored together: {name} is of several shapes")
    tensors = {name: torch.stack([part[name] for part in parts]) for name in structure.names}
    return structure.put_together(tensors, torch.Size([len(rows)]), None)


def _parts(node: Any, path: KeyPath) -> Iterable[tuple[Any, Any]] | None:
    """Returns the keys and values of a node; None if it is a tensor."""
    if isinstance(node, torch.Tensor):
        if node.is_nested or node.layout is not torch.strided:
            raise StepError(f"{_name(path)} is a nested or sparse tensor, and only dense ones are stored")
        return None
    if type(node) is dict or (is_tensor_collection(node) and not is_non_tensor(node)):
        items: Iterable[tuple[Any, Any]] = node.items()
        return items
    if type(node) in (list, tuple):
        return enumerate(node)
    raise StepError(
        f"{_name(path)} is of type {type(node).__name__}; what is stored is tensors, in TensorDicts, tensorclasses, "
        "dicts, lists and tuples"
    )


def _leaves(node: Any, path: KeyPath) -> Iterator[tuple[str, torch.Tensor]]:
    parts = _parts(node, path)
    if parts is None:
        yield _name(path), node
        return
    for key, part in parts:
        yield from _leaves(part, (*path, str(key)))


def _branch(node: Any, path: KeyPath, lanes: int) -> Branch | str:
    parts = _parts(node, path)
    if parts is None:
        return _name(path)
    branches = {key: _branch(part, (*path, str(key)), lanes) for key, part in parts}
    if not is_tensor_collection(node):
        return Branch(type(node), branches)
    if node.ndim < lanes:
        raise StepError(f"a storage with ndim={lanes + 1} takes data with as many batch axes, not {node.ndim + 1}")
    # A lazy stack is put together as what it shows.
    made_of = type(node) if is_tensorclass(node) else TensorDict
    return Branch(made_of, branches, tuple(node.batch_size[lanes:]), tuple(node.names) if any(node.names) else ())


def _name(path: KeyPath) -> str:
    return ".".join(path) or ONLY


def _names(node: Branch | str) -> Iterator[str]:
    if isinstance(node, str):
        yield node
        return
    for part in node.parts.values():
        yield from _names(part)


def _built(
    node: Branch | str,
    tensors: Mapping[str, torch.Tensor],
    batch: torch.Size,
    device: torch.device | None,
    unnamed: int,
) -> Any:
    if isinstance(node, str):
        return tensors[node]
    parts = {key: _built(part, tensors, batch, device, unnamed) for key, part in node.parts.items()}
    if node.batch is None:
        return parts if node.made_of is dict else node.made_of(parts.values())
    shape = torch.Size([*batch, *node.batch])
    named = node.names[unnamed:]
    names = (*[None] * (len(shape) - len(named)), *named) if named else None
    made = TensorDict(parts, batch_size=shape, device=device, names=names)
    made_of: Any = node.made_of
    return made if made_of is TensorDict else made_of.from_tensordict(made)


def _described(node: Branch | str) -> Any:
    if isinstance(node, str):
        return node
    parts = [[key, _described(part)] for key, part in node.parts.items()]
    batch = None if node.batch is None else list(node.batch)
    return {"made_of": node.made_of.__name__, "parts": parts, "batch": batch, "names": list(node.names)}


def _undescribed(node: Any) -> Branch | str:
    if isinstance(node, str):
        return node
    made_of, batch = PLAIN.get(node["made_of"]), node["batch"]
    if made_of is None:
        raise BufferStateError(
            f"this is the state of a storage of {node['made_of']}s: add one before you load it, so that the storage "
            "knows that class, or pickle the storage instead"
        )
    parts = {key: _undescribed(part) for key, part in node["parts"]}
    return Branch(made_of, parts, None if batch is None else tuple(batch), tuple(node["names"]))
