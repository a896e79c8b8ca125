"""Records of a `CellStore` outside of it, and what a file says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Bytes
from compressed_array._stores.exports import Snapshot
from compressed_array._stores.protocol import UNWRITTEN, RecordNumbers
from compressed_array.errors import CorruptFileError

# How a record is coded: not at all, as it is, or by codec number `tag - FIRST_CODEC` of the store.
ZERO, RAW, FIRST_CODEC = 0, 1, 2
SECTIONS = {"tag": "u1", "size": "<u4", "data": "u1"}


@dataclass(frozen=True)
class CellExport:
    """How each record is coded, and the payloads one after another; what "auto" has seen, and when it looks again."""

    kind: ClassVar[str] = "cells"

    codecs: list[Any]
    current: int
    seen: int
    looks: list[int]
    tag: npt.NDArray[np.uint8]
    size: npt.NDArray[np.uint32]
    data: Bytes
    reference_nbytes: ClassVar[int] = 0

    @property
    def entries(self) -> int:
        """How many records there are."""
        return len(self.size)


@dataclass(frozen=True)
class CellSnapshot(Snapshot):
    """All records of a store, counted from 1 in the order of `numbers`; `version` tells if it has changed since."""

    numbers: RecordNumbers
    version: tuple[int, ...]

    def renumbered(self, numbers: RecordNumbers) -> RecordNumbers:
        """Returns an array's numbers as they are in the snapshot."""
        new = np.searchsorted(self.numbers, numbers) + 1
        return np.where(numbers == UNWRITTEN, UNWRITTEN, new).astype(np.uint32)


def describe(records: CellExport) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Returns what a file's header says of records, and the file's sections."""
    auto = {"current": records.current, "seen": records.seen, "looks": records.looks}
    return {"auto": auto}, {name: getattr(records, name) for name in SECTIONS}


def from_file(
    header: dict[str, Any], sections: dict[str, Any], codecs: list[Any], record_nbytes: int, cells: RecordNumbers
) -> CellExport:
    """Returns the records that a file has for these cells; raises if its parts contradict each other."""
    tag, size, data = (sections[name] for name in SECTIONS)
    auto = header["auto"]
    agree = (
        all(type(n) is int and n >= 0 for n in (auto["current"], auto["seen"], *auto["looks"]))
        and auto["current"] < len(codecs)
        and len(tag) == len(size)
        and (not len(cells) or int(cells.max()) <= len(size))
        and int(size.sum(dtype=np.uint64)) == len(data)
        and bool(((tag >= RAW) & (tag < FIRST_CODEC + len(codecs))).all())
        and bool((size[tag == RAW] == record_nbytes).all())
    )
    if not agree:
        raise CorruptFileError("the parts of the file contradict each other")
    return CellExport(codecs, **auto, tag=tag, size=size, data=data)
