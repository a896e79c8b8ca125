"""`Field`: what a buffer keeps of each step beside the usual; trees of observations by name; which codec each has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import compressed_array as ca
from compressed_array_torch._tensors import Kind, torch_dtype
from compressed_array_torch.errors import BufferOptionError, StepError

__all__ = ["Field"]

# `auto` leaves items of up to this many bytes uncompressed, since compressing them would gain little and take time.
# Fields that are kept uncompressed, and are no larger, are in `Rows`.
SMALL = 256
OBSERVATIONS = "observations"


@dataclass(frozen=True)
class Field:
    """One more thing that is kept of each step of each environment: a hidden state, a latent, a mask.

    Args:
        codec: How it is kept, if the buffer's `codec` does not say.
    """

    shape: tuple[int, ...] = ()
    dtype: Any = torch.float32
    codec: Any = "auto"


def leaves(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a tree of mappings, each with the names on the path to it, joined by dots."""
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            if not isinstance(key, str) or "." in key:
                raise BufferOptionError(f"observations are called by strings without dots, and not {key!r}")
            yield from leaves(part, f"{name}.{key}")
    else:
        yield name, tree


def tree_of(parts: Mapping[str, Any], name: str) -> Any:
    """Returns the inverse of `leaves`."""
    if name in parts:
        return parts[name]
    tree: dict[str, Any] = {}
    for path, part in parts.items():
        *parents, last = path.removeprefix(f"{name}.").split(".")
        branch = tree
        for key in parents:
            branch = branch.setdefault(key, {})
        branch[last] = part
    return tree


def observation_kinds(shape: Any, dtype: Any, lanes: int) -> dict[str, Kind]:
    """Returns what each observation is, by name: `shape` and `dtype` may be trees."""
    shapes = dict(leaves(shape, OBSERVATIONS))
    dtypes = dict(leaves(dtype, OBSERVATIONS))
    if not shapes:
        raise BufferOptionError("obs_shape is a mapping with nothing in it")
    kinds = {}
    for name, size in shapes.items():
        if isinstance(dtype, Mapping) and name not in dtypes:
            raise BufferOptionError(f"obs_dtype has no {name.removeprefix(OBSERVATIONS + '.')!r}; obs_shape has")
        kinds[name] = Kind(name, shape_of(size, name), torch_dtype(dtypes.get(name, dtype)), lanes)
    return kinds


def shape_of(shape: Any, name: str) -> tuple[int, ...]:
    """Returns a shape as a tuple of whole numbers."""
    try:
        return (int(shape),) if isinstance(shape, int) else tuple(int(n) for n in shape)
    except TypeError as error:
        raise BufferOptionError(f"the shape of {name} is a tuple of whole numbers, not {shape!r}") from error


def parts_of(value: Any, kinds: Mapping[str, Kind], called: str) -> dict[str, Any]:
    """Returns a step's observations by name."""
    parts = dict(leaves(value, OBSERVATIONS))
    if parts.keys() != kinds.keys():
        missing, unknown = sorted(kinds.keys() - parts.keys()), sorted(parts.keys() - kinds.keys())
        raise StepError(f"{called} lacks {missing} and has {unknown}, which this buffer does not know")
    return parts


class Codecs:
    """Which codec each field is kept with, from one for all observations, or from a mapping of names to codecs."""

    def __init__(self, codec: Any, names: list[str]) -> None:
        self._codec, self.names = dict(codec) if isinstance(codec, Mapping) else codec, frozenset(names)
        if isinstance(self._codec, dict):
            known = {part for name in names for part in _aliases(name)}
            unknown = sorted(set(self._codec) - known)
            if unknown:
                raise BufferOptionError(f"codecs for {unknown}, but the fields are {sorted(known)}")
        for chosen in self._codec.values() if isinstance(self._codec, dict) else [self._codec]:
            if chosen is not None and not (isinstance(chosen, str) and chosen == "auto"):
                ca.get_codec(chosen)

    def of(self, kind: Kind, otherwise: Any = "auto") -> Any:
        """Returns the codec of one field, or None if it is kept uncompressed."""
        chosen = otherwise
        if isinstance(self._codec, dict):
            chosen = next((self._codec[name] for name in _aliases(kind.name) if name in self._codec), otherwise)
        elif self._codec is None or f"{kind.name}.".startswith(f"{OBSERVATIONS}."):
            chosen = self._codec
        is_word = isinstance(chosen, str)
        if chosen is None or not kind.nbytes or (is_word and chosen == "none"):
            return None
        return None if is_word and chosen == "auto" and kind.nbytes <= SMALL else chosen


def _aliases(name: str) -> list[str]:
    """Returns what a field may be called in a mapping of codecs, from the most particular to the most general."""
    names = [name]
    while "." in names[-1]:
        names.append(names[-1].rpartition(".")[0])
    return [*names, *(part.removeprefix(f"{OBSERVATIONS}.") for part in names if part != OBSERVATIONS)]
