"""`FrameTables`: what a store of frames keeps, and both of its engines, native and numpy's, work on.

Only a thread that holds the store's `epochs.writing` changes it; any number of threads read.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._heap import MAX_PAYLOAD, OFFSET_BITS, OFFSET_MASK, HostHeap
from compressed_array._runtime.memory import map_memory
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.groups import (
    ADDRESS_MASK,
    BITPACKED,
    FIRST_PACKED,
    SLOTS,
    TAG_BITS,
    Groups,
    split_numbers,
)
from compressed_array._stores.frames.kernel_records import LAYOUT, StructArray
from compressed_array._stores.frames.lanes import ROOM, Lanes
from compressed_array._stores.frames.layouts import Geometry, Layout, geometry
from compressed_array._stores.protocol import RecordNumbers

MOST_REFERENCES = 256
LARGEST_ITEM = MAX_PAYLOAD // SLOTS - ROOM  # bytes; a group of such frames that do not shrink is one payload


class FrameTables:
    """All state of a store of frames but its policy: groups, lanes, layouts, references, codecs and the heap."""

    def __init__(self, item_shape: tuple[int, ...], itemsize: int, frame_nbytes: int) -> None:
        self.item_shape, self.itemsize = item_shape, itemsize
        self.item_nbytes = prod(item_shape) * itemsize
        self.heap, self.groups = HostHeap(), Groups()
        self.layouts: list[Layout] = []
        self.layout_table: StructArray = np.empty(0, LAYOUT)
        # Reference 0 is a frame of zeros, of whatever size, in memory that is never written to and costs nothing.
        # Others may be codebooks.
        self.references: list[Bytes] = [map_memory(max(self.item_nbytes, 1))]
        self.codecs: list[Any] = []  # what groups are packed by, or were
        self.decoder: Any = None
        self.most_unpacked = 0  # bytes of a group before a codec packed it
        self.lanes = Lanes(item_shape, itemsize, frame_nbytes)
        self._geometries: dict[tuple[Layout, tuple[int, ...]], Geometry | None] = {}

    def number_of(self, layout: Layout) -> int:
        """Returns the number by which groups know a layout, which is new if the layout is."""
        if layout not in self.layouts:
            parts = [*self.layouts, layout]
            # First: no kernel may be given a number for which the table has no row, whatever interrupt comes.
            table = np.zeros(len(parts), LAYOUT)
            for field in ("depth", "outer", "inner"):
                table[field] = [getattr(part, field) for part in parts]
            self.layout_table = table
            self.layouts.append(layout)
        return self.layouts.index(layout)

    @property
    def has_room_for_references(self) -> bool:
        """Whether another reference can be added: there are at most 256."""
        return len(self.references) < MOST_REFERENCES

    def add_reference(self, frame: Bytes) -> int:
        """Adds a frame, or a codebook, for good. Returns its number."""
        self.references.append(frame)
        return len(self.references) - 1

    def add_codec(self, codec: Any) -> int:
        """Adds a codec that groups may be packed by. Returns its number."""
        self.codecs.append(codec)
        return len(self.codecs) - 1

    def drop_dictionary(self, codec: int) -> None:
        """Frees a codec's dictionary, which no group and no reader needs any more; the first codec has none."""
        self.codecs[codec] = self.codecs[0]

    def set_decoder(self, decoder: Any) -> None:
        """Sets the codec that reads zstd's records, of whatever level; None where zstd is missing."""
        self.decoder = decoder

    def restore(self, layouts: list[Layout], layout: Layout, references: list[Bytes], codecs: list[Any]) -> None:
        """Adds what groups from outside need to tables that have no group yet. Items are divided as `layout` says.

        Groups know layouts, references and codecs by their place in these lists; reference 0 is here already.
        """
        self.layouts = []
        for part in layouts:
            self.number_of(part)
        self.lanes.resize_frames(layout.frame_nbytes)
        self.references += [np.ascontiguousarray(reference) for reference in references]
        self.codecs = list(codecs) or self.codecs

    def raise_unpack_limit(self, nbytes: int) -> None:
        """Makes readers prepare for groups that unpack to so many bytes. It has to be called before there is one."""
        self.most_unpacked = max(self.most_unpacked, nbytes)

    def group_bytes(self, where: int) -> Bytes:
        """Returns a group's records, unpacked if a codec packed them, else with what is behind them in the segment."""
        start, tag = where & ADDRESS_MASK & OFFSET_MASK, where >> TAG_BITS
        data = self.heap.segment((where & ADDRESS_MASK) >> OFFSET_BITS)[start:]
        return self.codecs[tag - FIRST_PACKED].decode_part(data) if FIRST_PACKED <= tag < BITPACKED else data

    def needed(self, numbers: RecordNumbers) -> npt.NDArray[np.int64]:
        """Returns the groups that hold the frames of these items, each once for every item that needs it."""
        written = numbers[numbers != 0]
        groups, _ = split_numbers(written)
        before = self.groups.table["before"][groups[self.reaches_back(written)]]
        return np.concatenate([groups, before.astype(np.int64) - 1])

    def reaches_back(self, written: RecordNumbers) -> npt.NDArray[np.bool_]:
        """Returns which of these items, all of them written, begin in the group before."""
        groups, slots = split_numbers(written)
        return np.asarray(slots < self.layout_table["depth"][self.groups.table["layout"][groups]] - 1)

    def geometry(self, layout: Layout, strides: tuple[int, ...]) -> Geometry | None:
        """Returns how to find frames in items of these strides, or None where they are not dense."""
        try:
            return self._geometries[layout, strides]
        except KeyError:
            found = geometry(layout, self.item_shape, self.itemsize, strides)
            self._geometries[layout, strides] = found
            return found
