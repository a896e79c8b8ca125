"""A store of frames outside of its process: which groups are needed, and how they are laid end to end.

Groups are exported whole and as they are, packed or not, so that nothing is decoded or encoded on the way. What lanes
remember is left behind: the first items written after saving and loading are stored as if a stream had just begun.
`checks` has what is asked of groups that come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Words
from compressed_array._stores.exports import Snapshot
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    BITPACKED,
    FIRST_PACKED,
    GROUP,
    RECORDS,
    SLOTS,
    TAG_BITS,
    split_numbers,
)
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.records import needed_by, split_records
from compressed_array._stores.frames.tables import MOST_REFERENCES, FrameTables
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs.delta import DeltaZstd

NEGLIGIBLE = 16  # references that take so many times fewer bytes than groups are all exported, needed or not


@dataclass(frozen=True)
class FrameExport:
    """Groups on their way out of the process, numbered from 0, and what is needed to read them."""

    kind: ClassVar[str] = "frames"

    choice: Any
    layouts: list[Layout]
    layout: int
    found: bool  # whether it is settled that items are stacked as `layout` says
    codecs: list[Any]
    references: list[npt.NDArray[np.uint8]]
    tag: npt.NDArray[np.uint8]
    size: npt.NDArray[np.uint32]
    before: npt.NDArray[np.uint32]
    count: npt.NDArray[np.uint8]
    layout_of: npt.NDArray[np.uint8]
    data: npt.NDArray[np.uint8]

    @property
    def entries(self) -> int:
        """How many groups there are."""
        return len(self.size)

    @property
    def reference_nbytes(self) -> int:
        """The bytes of all references."""
        return sum(reference.nbytes for reference in self.references)


@dataclass(frozen=True)
class FrameSnapshot(Snapshot):
    """All groups of a store, counted from 0 in the order of `groups`; `version` tells if it has changed since."""

    groups: Words
    version: tuple[int, ...]

    def renumbered(self, numbers: RecordNumbers) -> RecordNumbers:
        """Returns an array's numbers as they are in the snapshot."""
        return renumbered(self.groups, numbers)


def renumbered(groups: Words, numbers: RecordNumbers) -> RecordNumbers:
    """Returns numbers as they are when `groups`, which are in order, are counted from 0."""
    new = np.zeros(numbers.shape, np.uint32)
    written = numbers != 0
    of, slots = split_numbers(numbers[written])
    new[written] = np.searchsorted(groups, of) * SLOTS + slots + 1
    return new


def export_groups(frames: FrameTables, groups: Words, choice: Any, layout: int, found: bool) -> FrameExport:
    """Returns these groups, in this order."""
    table = frames.groups.table[groups]
    size = table["size"].astype(np.int64)
    data = np.empty(int(size.sum()), np.uint8)
    frames.heap.payloads(table["where"] & ADDRESS_MASK, size).copy_to(data, np.cumsum(size) - size)
    tag = (table["where"] >> TAG_BITS).astype(np.uint8)
    is_packed = (tag >= FIRST_PACKED) & (tag != BITPACKED)
    before = table["before"].astype(np.int64) - 1
    # A group that is there for the sake of others may have one before it that nobody needs.
    at = np.minimum(np.searchsorted(groups, before), max(len(groups) - 1, 0))
    there = (before >= 0) & (groups[at] == before) if len(groups) else before >= 0
    needs_codecs = is_packed.any() or isinstance(choice, DeltaZstd)  # others go without: zstd may be missing elsewhere
    return FrameExport(
        choice=choice,
        layouts=list(frames.layouts),
        layout=layout,
        found=found,
        codecs=list(frames.codecs) if needs_codecs else [],
        references=_references(frames, tag, data, size, table["count"].astype(np.int64)),
        tag=tag,
        size=table["size"].copy(),
        before=np.where(there, at + 1, 0).astype(np.uint32),
        count=table["count"].copy(),
        layout_of=table["layout"].copy(),
        data=data,
    )


def _references(
    frames: FrameTables, tag: npt.NDArray[np.uint8], data: npt.NDArray[np.uint8], size: Words, count: Words
) -> list[npt.NDArray[np.uint8]]:
    """Returns the references that groups may need; others are left empty where they would take much space."""
    references = list(frames.references[1:])
    if ((tag >= FIRST_PACKED) & (tag < BITPACKED)).any():  # whose references are not known without unpacking them
        return references
    if NEGLIGIBLE * sum(map(len, references)) <= data.nbytes:
        return references
    groups = np.flatnonzero(tag == RECORDS)
    payloads = Payloads.in_one_buffer(data, (np.cumsum(size) - size)[groups], size[groups])
    used, kernels = np.zeros(MOST_REFERENCES, np.int64), native("_stores.frames.kernels.adoption")
    if kernels is not None:
        kernels.mark_references(payloads.addresses(), count[groups], used)
    else:
        for i, records in enumerate(count[groups].tolist()):
            used[[needed_by(kind, body)[0] for kind, body in split_records(payloads[i], records)]] = 1
    return [reference if used[k] else reference[:0].copy() for k, reference in enumerate(references, 1)]


def restore_groups(frames: FrameTables, export: FrameExport) -> None:
    """Puts exported groups into new `FrameTables`, without any use of them."""
    frames.restore(export.layouts, export.layouts[export.layout], export.references, export.codecs)
    size = export.size.astype(np.int64)
    address = frames.heap.append(Payloads.in_one_buffer(export.data, np.cumsum(size) - size, size))
    entries = np.zeros(len(size), GROUP)
    entries["where"] = address | export.tag.astype(np.int64) << TAG_BITS
    entries["size"], entries["before"] = export.size, export.before
    entries["count"], entries["layout"] = export.count, export.layout_of
    frames.groups.restore(entries)
    largest = max((layout.frame_nbytes for layout in frames.layouts), default=0)
    frames.raise_unpack_limit(SLOTS * (largest + ROOM))
