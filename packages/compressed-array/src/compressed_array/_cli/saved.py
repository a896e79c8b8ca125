"""Opens what was saved: an array, a recording, what `torch.save` has written, or a buffer of an adapter in a pickle.

Loading checks every checksum that there is, and `Saved.unchecked` says what has none. A pickle runs what is in it,
so that one is opened only if it is trusted.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import compressed_array as ca
from compressed_array._cli.failures import DataError, UsageError
from compressed_array._cli.kinds import Kind, check_archive, kind_of
from compressed_array._cli.output import with_article
from compressed_array._cli.sources import read_parts
from compressed_array._cli.states import open_state
from compressed_array._runtime.chunks import boxes
from compressed_array.recording import BaseRecordBuffer, load
from compressed_array.sampling import PriorityTree
from compressed_array.usage import MemoryUsage

SavedFile = Annotated[Path, typer.Argument(help="A saved array (.ca, .npy, .npz), a recording, or a buffer.")]
Trust = Annotated[bool, typer.Option("--trust", help="Open a pickle, which runs whatever is in it.")]


@dataclass(frozen=True)
class Saved:
    """What a file holds: arrays by the names of their fields; those of a buffer with what it says of itself."""

    kind: str
    arrays: dict[str, Any]
    keys: dict[str, list[str]]  # the arrays that have one store, which are observations of one key
    usage: MemoryUsage | None = None
    recording: BaseRecordBuffer | None = None
    others: dict[str, Any] = field(default_factory=dict)  # what a buffer has beside observations
    has_all_checksums: bool = True  # if not, only compressed items have some, and not which of them is where

    @property
    def checked(self) -> dict[str, Any]:
        """The arrays in whose items a change is noticed."""
        return {name: array for name, array in self._all() if self.has_all_checksums or not _is_plain(array)}

    @property
    def unchecked(self) -> dict[str, Any]:
        """The arrays in which a change goes unnoticed."""
        return {name: array for name, array in self._all() if not self.has_all_checksums and _is_plain(array)}

    def _all(self) -> Iterable[tuple[str, Any]]:
        return (self.arrays | self.others).items()


def open_saved(path: Path, *, trust: bool) -> Saved:
    """Loads a file, whole."""
    kind = kind_of(path)
    has_checksums = check_archive(path) if kind in (Kind.STATE, Kind.NPZ) else kind is not Kind.NPY
    if kind is Kind.STATE:
        return replace(_alone(*open_state(path)), has_all_checksums=has_checksums)
    if kind is Kind.RECORDING:
        return _of_recording(path)
    if kind is Kind.PICKLE:
        return _of_pickle(path, trust=trust)
    if kind is Kind.VIDEO:
        raise UsageError(f"{path}: a video is nothing that was saved here; `compressed-array recommend` measures it")
    saved = _alone(kind, {part.name: part.array for part in read_parts(path, None)})
    return replace(saved, has_all_checksums=has_checksums)


def blocks(array: Any) -> Iterator[Any]:
    """Decodes an array, a few megabytes at a time, and yields plain arrays."""
    grid = array.shape if isinstance(array, np.memmap) else getattr(array, "grid_shape", array.shape[:1])
    nbytes = array.nbytes // max(int(np.prod(grid, dtype=np.int64)), 1)
    for box in boxes(tuple(grid), nbytes):
        yield plain(array, (*box, ...) if box else ...)


def plain(array: Any, key: Any) -> Any:
    """Returns part of an array of whatever kind, as a plain array."""
    if isinstance(array, ca.CompressedArray):
        return array.read(key)
    if isinstance(array, np.ndarray):
        return np.asarray(array[key])
    import torch

    items = array[tuple(part for part in key if part is not ...) if isinstance(key, tuple) else key].cpu()
    return items.float().numpy() if items.dtype == torch.bfloat16 else items.numpy()


def _alone(kind: str, arrays: dict[str, Any]) -> Saved:
    return Saved(kind, arrays, {name: [name] for name in arrays})


def _of_recording(path: Path) -> Saved:
    recording = load(path)
    arrays = {name: recording.memory(name) for name in recording.names}
    return replace(_alone(type(recording).__name__, arrays), recording=recording)


def _of_pickle(path: Path, *, trust: bool) -> Saved:
    if not trust:
        raise UsageError(f"{path}: a pickle runs whatever is in it when it is opened; if you know its origin, --trust")
    try:
        with path.open("rb") as file:
            held = pickle.load(file)
    except ImportError as error:
        raise UsageError(f"{path}: opening it needs a library that is not installed ({error})") from None
    except MemoryError:
        raise
    except Exception as error:  # which a damaged pickle may raise any of
        raise DataError(f"{path}: the pickle was changed or cut short ({type(error).__name__}: {error})") from None
    if isinstance(held, ca.CompressedArray):
        return replace(_alone("pickled compressed array", {"": held}), has_all_checksums=False)
    if not hasattr(held, "memory_usage") or not hasattr(held, "observation_fields"):
        name = with_article(f"{type(held).__module__}.{type(held).__qualname__}")
        raise DataError(f"{path}: holds {name}, which is neither a compressed array nor a compressed buffer")
    arrays: dict[str, Any] = {}
    keys: dict[str, list[str]] = {}
    for attribute in held.observation_fields:
        value = getattr(held, attribute)
        for key, array in value.items() if isinstance(value, dict) else [("", value)]:
            name = f"{attribute}[{key!r}]" if key else attribute
            arrays[name] = array
            keys.setdefault(key, []).append(name)
    others = {name: value for name, value in _other_arrays(held) if name not in held.observation_fields}
    return Saved(type(held).__name__, arrays, keys, held.memory_usage(), others=others, has_all_checksums=False)


def _other_arrays(held: Any) -> Iterator[tuple[str, Any]]:
    """Yields what a buffer keeps in arrays, and its priorities."""
    for name, value in vars(held).items():
        if isinstance(value, PriorityTree):  # whose loading has refused what can be no priority
            yield "priorities", value.state_dict()["priorities"]
        elif isinstance(value, np.ndarray) or hasattr(value, "nbytes_stored"):
            yield name, value


def _is_plain(array: Any) -> bool:
    """Whether an array has no store, whose items have checksums even where nothing else has."""
    return getattr(array, "store", None) is None
