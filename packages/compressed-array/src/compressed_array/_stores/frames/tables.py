"""`Frames`: what a store of frames consists of, and what both of its engines, native and numpy's, work on."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._heap import MAX_PAYLOAD, HostHeap
from compressed_array._runtime.memory import map_memory
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.groups import MANY, SLOTS, Groups, split_numbers
from compressed_array._stores.frames.lanes import DELTA, ROOM, Lanes
from compressed_array._stores.frames.layouts import Geometry, Layout, geometry
from compressed_array._stores.frames.residuals import PLAIN
from compressed_array._stores.protocol import RecordNumbers

MOST_REFERENCES = 256
LARGEST_ITEM = MAX_PAYLOAD // SLOTS - ROOM  # bytes; a group of such frames that do not shrink is one payload
SMALL_FRAME = 256  # bytes; below, a record's header and the walk to it cost more than its changes save


class Frames:
    """Groups of frames in a heap, the lanes that add to them, and all that is needed to decode them."""

    def __init__(self, item_shape: tuple[int, ...], itemsize: int, layout: Layout) -> None:
        self.item_shape, self.itemsize = item_shape, itemsize
        self.record_nbytes = prod(item_shape) * itemsize
        self.heap, self.groups = HostHeap(), Groups()
        self.layouts: list[Layout] = []
        # Reference 0 is a frame of zeros, of whatever size, in memory that is never written to and costs nothing.
        # Others may be codebooks.
        self.references: list[Bytes] = [map_memory(max(self.record_nbytes, 1))]
        self.codecs: list[Any] = []  # what groups are packed by, or were
        # What writes zstd's records, and what reads them, whatever their level; None where zstd is missing.
        self.intra: Any = None
        self.decoder: Any = None
        # How the next group is written: the kind of its records, and how many it may hold.
        self.mode, self.capacity = DELTA, 1
        self.many_full = MANY  # groups that are full before something is done about them
        self.worth_zstd = 0  # of a record of more bytes than this, zstd may make fewer
        self.foretold = PLAIN  # what is taken from a frame before zstd gets it, or the codebook, as `residuals` says
        self.most_unpacked = 0  # bytes of a group before a codec packed it
        self.reference = 0
        self.use_layout(layout)
        self.lanes = Lanes(item_shape, itemsize, layout.frame_nbytes)

    @property
    def layout(self) -> Layout:
        """How the next item is divided into frames."""
        return self.layouts[self.layout_number]

    def use_layout(self, layout: Layout) -> None:
        """Divide items in another way from the next one on; the lanes start over."""
        self.layout_number = self.number_of(layout)
        self.reference, self.foretold = 0, PLAIN
        self._geometries: dict[tuple[int, ...], Geometry | None] = {}

    def number_of(self, layout: Layout) -> int:
        """By which number groups know a layout."""
        if layout not in self.layouts:
            self.layouts.append(layout)
            self.layout_words = np.array([part[:3] for part in self.layouts], np.int64)
        return self.layouts.index(layout)

    def add_reference(self, frame: Bytes) -> None:
        """Code frames against this one from now on."""
        if len(self.references) < MOST_REFERENCES:
            self.references.append(frame)
            self.reference = len(self.references) - 1

    def needed(self, numbers: RecordNumbers) -> npt.NDArray[np.int64]:
        """The groups that hold the frames of these items, as often as an item needs one."""
        written = numbers[numbers != 0]
        groups, _ = split_numbers(written)
        before = self.groups.table["before"][groups[self.reaches_back(written)]]
        return np.concatenate([groups, before.astype(np.int64) - 1])

    def reaches_back(self, written: RecordNumbers) -> npt.NDArray[np.bool_]:
        """Which of these items, none of them unwritten, begin in the group before."""
        groups, slots = split_numbers(written)
        return np.asarray(slots < self.layout_words[self.groups.table["layout"][groups], 0] - 1)

    def geometry(self, strides: tuple[int, ...]) -> Geometry | None:
        """How to find frames in items of these strides, or None where they are not dense."""
        try:
            return self._geometries[strides]
        except KeyError:
            found = geometry(self.layout, self.item_shape, self.itemsize, strides)
            self._geometries[strides] = found
            return found
