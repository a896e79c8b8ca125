"""States of arrays that come from outside: reading them from a file, and what kind of array they say they are."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from compressed_array._heap import MAX_PAYLOAD
from compressed_array.codecs._description import described
from compressed_array.errors import (
    BusyStoreError,
    CodecUnavailableError,
    CorruptFileError,
    CorruptPayloadError,
    UnknownCodecError,
)
from compressed_array.torch._state import CHECKSUM, verify_checksum

KEYS = {"cells", "dense", "store"}
# Errors that say by themselves what is the matter.
PASSED_ON = (
    CorruptPayloadError,
    CorruptFileError,
    UnknownCodecError,
    CodecUnavailableError,
    BusyStoreError,
    OSError,
    MemoryError,
    torch.OutOfMemoryError,
)


@dataclass(frozen=True)
class ArrayKind:
    """What a file says an array is."""

    shape: tuple[int, ...]
    item_ndim: int
    dtype: torch.dtype
    device: str
    codec: Any
    heap_bytes: int | None

    @classmethod
    def of(cls, about: dict[str, Any], *, is_dense: bool) -> ArrayKind:
        """Returns what a state says in "about"; raises if there can be no such array."""
        codec, dtype = about["codec"], getattr(torch, about["dtype"])
        if "library" not in codec:  # as files of earlier versions have it
            codec = {"library": "compressed-array", "config": codec}
        shape, items = tuple(about["shape"]), about["item_ndim"]
        kind = cls(shape, items, dtype, about["device"], described(codec), about["heap_bytes"])
        sizes = [items, *shape, 0 if kind.heap_bytes is None else kind.heap_bytes]
        if not all(type(n) is int and n >= 0 for n in sizes) or items > len(shape):
            raise CorruptPayloadError(f"there is no array of shape {shape} with items of {items!r} axes")
        if not isinstance(dtype, torch.dtype) or not isinstance(kind.device, str):
            raise CorruptPayloadError(f"there is no array of {about['dtype']} on {kind.device}")
        if not is_dense and not 0 < prod(shape[len(shape) - items :]) * dtype.itemsize <= MAX_PAYLOAD:
            raise CorruptPayloadError(f"items of shape {shape[len(shape) - items :]} are too large, or nothing")
        return kind


def check_keys(state: Any) -> None:
    """Raises `CorruptPayloadError` if something is not the state of an array, or was changed since it was taken."""
    if not isinstance(state, dict) or set(state) - {"about", CHECKSUM} != KEYS:
        raise CorruptPayloadError("this is not the state of an array")
    verify_checksum(state)


def read_file(path: str | Path) -> Any:
    """Returns what torch saved to a file; raises if reading it would take more memory than the file does."""
    size = Path(path).stat().st_size
    with zipfile.ZipFile(path) as file:
        entries = file.infolist()
    if sum(entry.file_size for entry in entries) > size or any(entry.compress_type for entry in entries):
        raise CorruptPayloadError("what is in it is larger than the file")
    return torch.load(path, map_location="cpu", weights_only=True)


@contextmanager
def errors_as_corrupt() -> Iterator[None]:
    """Raises `CorruptPayloadError` instead of any error that comes of reading what is not a state."""
    try:
        yield
    except PASSED_ON:
        raise
    except Exception as error:
        raise CorruptPayloadError(f"this is not the state of an array: {type(error).__name__}: {error}") from error
