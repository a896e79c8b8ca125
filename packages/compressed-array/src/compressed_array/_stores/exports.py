"""Stores outside of their process: records on their way to a file or a pickle, and back.

What a kind of store writes down, checks and restores is its own to say; here is how it is found, and how arrays that
are pickled together share a store again.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Bytes
from compressed_array._stores.protocol import RecordNumbers, Store
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

    @property
    def entries(self) -> int:
        """How many payloads there are: one for each record, or for each group of frames."""

    @property
    def reference_nbytes(self) -> int:
        """The bytes of the frames that payloads are changes from; 0 where each is decoded by itself."""


class StoreKind(Store, Protocol):
    """A store whose records go to files and pickles, and come back from there."""

    SECTIONS: ClassVar[dict[str, str]]  # what a file has of these records, in its order, and the dtype of each

    @staticmethod
    def describe(records: Any, /) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Returns what a file's header says of an export, and the file's sections."""

    @staticmethod
    def from_file(
        header: dict[str, Any],
        sections: dict[str, Any],
        codecs: list[Any],
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        cells: RecordNumbers,
    ) -> Export:
        """Returns the export that a file has for these cells; raises if its parts contradict each other."""

    @classmethod
    def restore(
        cls,
        item_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        export: Any,
        numbers: RecordNumbers,
        *,
        shared: bool = False,
    ) -> Self:
        """Returns a store of just the export's records, with a reference for each occurrence in `numbers`.

        A shared one has a reference of its own to each entry, which the restorer gives up when all arrays that
        were pickled together have claimed theirs.
        """

    def claim(self, numbers: RecordNumbers) -> None:
        """Takes a reference for each occurrence of a restored number."""

    def give_up_restored(self, entries: int, /) -> None:
        """Releases, with the next write, the references of a shared store's own; a finaliser may call it."""


# The stores by the names that files have for them. `selection`, which imports them all, fills it.
KINDS: dict[str, type[StoreKind]] = {}


def pickle_parts(records: Any, protocol: int) -> tuple[dict[str, Any], int, type, bool]:
    """Returns what `from_pickle_parts` is given; from protocol 5 on, a pickle does not copy the payloads."""
    payload = pickle.PickleBuffer(records.data.data) if protocol >= 5 else records.data.tobytes()
    parts = {field.name: getattr(records, field.name) for field in fields(records)}
    return parts | {"data": payload}, _checksum(parts), type(records), True


def from_pickle_parts(parts: dict[str, Any], checksum: int, kind: type, is_of_all: bool = False) -> Any:
    """Returns the export that `pickle_parts` was given.

    Args:
        parts: Its fields.
        checksum: As it was when they were pickled.
        kind: Its type.
        is_of_all: Whether the checksum is also of the tables, references and dictionaries, as it was not always.
    """
    data = np.frombuffer(parts["data"], np.uint8)
    parts = parts | {"data": data}
    if (_checksum(parts) if is_of_all else zlib.crc32(data.data)) != checksum:
        raise CorruptPayloadError("the pickled items were changed since they were pickled")
    return kind(**parts)


def _checksum(parts: dict[str, Any]) -> int:
    """Returns a checksum of all arrays, layouts and dictionaries, which decide what payloads decode to."""
    checksum = 0
    for value in parts.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, tuple | int):
                part = np.array(part)
            dictionary = getattr(part, "dictionary", None)
            if isinstance(dictionary, str):  # as text, for configs
                checksum = zlib.crc32(dictionary.encode(), checksum)
            elif isinstance(part, np.ndarray):
                checksum = zlib.crc32(part.tobytes() if part is not parts["data"] else part.data, checksum)
    return checksum


@dataclass(frozen=True)
class Snapshot:
    """All of a store at one time. Arrays that are pickled together refer to one, and share a store again afterwards."""

    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    export: Any

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return restore_snapshot, (self.item_shape, self.dtype, *pickle_parts(self.export, int(protocol)))


class RestoredStore:
    """A store on its way in: unpickling keeps this until all arrays that were pickled with it have found theirs."""

    def __init__(self, store: StoreKind, export: Export) -> None:
        self.store, self._entries = store, export.entries

    def claim(self, numbers: RecordNumbers) -> Store:
        """Takes a reference for each of an array's numbers, and returns the store."""
        self.store.claim(numbers)
        return self.store

    def __del__(self) -> None:
        self.store.give_up_restored(self._entries)


def restore_snapshot(item_shape: tuple[int, ...], dtype: np.dtype[Any], *records: Any) -> RestoredStore:
    """Returns the store that a snapshot was taken of, to be claimed by the arrays that were pickled with it."""
    export = from_pickle_parts(*records)
    store = KINDS[export.kind].restore(item_shape, dtype, export, np.empty(0, np.uint32), shared=True)
    return RestoredStore(store, export)
