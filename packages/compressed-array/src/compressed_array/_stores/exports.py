"""Stores outside of their process: records on their way to a file or a pickle, and back.

What a kind of store writes down, checks and restores is its own to say; here is how it is found, and how arrays that
are pickled together share a store again.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from compressed_array._runtime.types import Bytes
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.errors import CorruptPayloadError


class Export(Protocol):
    """Records outside of a store, still compressed: a dataclass, whose `kind` says which store they are of."""

    kind: ClassVar[str]

    @property
    def codecs(self) -> list[Any]:
        """The codecs that the records went through."""

    @property
    def data(self) -> Bytes:
        """All payloads, one after the other."""


# The stores by the names that files have for them. `selection`, which imports them all, fills it.
KINDS: dict[str, Any] = {}


def packed(records: Any, protocol: int) -> tuple[dict[str, Any], int, type]:
    """Returns an export's fields, a checksum and its type; from protocol 5 on, a pickle does not copy the payloads."""
    payload = pickle.PickleBuffer(records.data.data) if protocol >= 5 else records.data.tobytes()
    parts = {field.name: getattr(records, field.name) for field in fields(records)}
    return parts | {"data": payload}, zlib.crc32(records.data.data), type(records)


def unpacked(parts: dict[str, Any], checksum: int, kind: type) -> Any:
    """Returns the export that `packed` was given."""
    data = np.frombuffer(parts["data"], np.uint8)
    if zlib.crc32(data.data) != checksum:
        raise CorruptPayloadError("the pickled items were changed since they were pickled")
    return kind(**parts | {"data": data})


@dataclass(frozen=True)
class Snapshot:
    """All of a store at one time. Arrays that are pickled together refer to one, and share a store again afterwards."""

    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    export: Any

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return restore_snapshot, (self.item_shape, self.dtype, *packed(self.export, int(protocol)))


class RestoredStore:
    """A store on its way in: unpickling keeps this until all arrays that were pickled with it have found theirs."""

    def __init__(self, store: Any, export: Any) -> None:
        self.store, self._count = store, len(export.size)

    def claim(self, numbers: RecordNumbers) -> Any:
        """Takes a reference for each of an array's numbers, and returns the store."""
        self.store.claim(numbers)
        return self.store

    def __del__(self) -> None:
        self.store.give_up_restored(self._count)


def restore_snapshot(item_shape: tuple[int, ...], dtype: np.dtype[Any], *records: Any) -> RestoredStore:
    """Returns the store that a snapshot was taken of, to be claimed by the arrays that were pickled with it."""
    export = unpacked(*records)
    store = KINDS[export.kind].restore(item_shape, dtype, export, np.empty(0, np.uint32), shared=True)
    return RestoredStore(store, export)
