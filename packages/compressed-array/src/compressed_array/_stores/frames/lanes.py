"""Lanes: the streams that a store keeps apart, and for each the open group that its next frames go to.

What a lane remembers is the last item written to it, as it lay in memory, and that item's last frame in C order: the
next item is compared with the one, the next frame coded against the other. Nothing depends on which lane an item is
written to but the space it takes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from compressed_array._stores.frames.kernel_records import LANE, Table

# How frames are written to a group: as the smallest of all kinds of record, by zstd or raw, raw without any header.
DELTA, INTRA, ROWS = range(3)
# A record this many times smaller than its frame is small enough to look for no other frame it differs less from.
ENOUGH = 16
# For a record's header, for a token that turns out to be one too many, and for kernels that take whole words.
ROOM = 64


class Lanes:
    """The lanes of one store, made as they are needed."""

    def __init__(self, item_shape: tuple[int, ...], itemsize: int, frame_nbytes: int) -> None:
        self._item_shape = item_shape
        # The strides of the remembered items: those of the batch that was written last.
        self.strides = np.empty((1, *item_shape), f"V{itemsize}").strides[1:] if itemsize else ()
        self._record = int(np.prod(item_shape)) * itemsize
        self._itemsize = itemsize
        self.table: Table = np.zeros(0, LANE)
        self.items: npt.NDArray[np.uint8] = np.zeros((0, self._record), np.uint8)
        self.frames: npt.NDArray[np.uint8] = np.zeros((0, frame_nbytes), np.uint8)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.items.nbytes + self.frames.nbytes

    def grow(self, count: int) -> None:
        """Make lanes 0 to `count - 1`, as far as they are missing."""
        known = len(self.table)
        if count > known:
            table = np.zeros(count, LANE)
            table[:known] = self.table
            items, frames = (
                np.concatenate([part, np.zeros((count - known, part.shape[1]), np.uint8)])
                for part in (self.items, self.frames)
            )
            self._replace(table, items, frames, self.strides)

    def start_over(self, frame_nbytes: int) -> None:
        """Forget the last items, for frames of another size."""
        frames = np.zeros((len(self.table), frame_nbytes), np.uint8)
        self._replace(np.zeros_like(self.table), self.items, frames, self.strides)

    def clear(self) -> None:
        """Give up all lanes and their memory."""
        self._replace(self.table[:0].copy(), self.items[:0].copy(), self.frames[:0].copy(), self.strides)

    def arrange(self, strides: tuple[int, ...]) -> None:
        """Lay the remembered items out as those that come next are."""
        if strides != self.strides:
            arranged = np.empty_like(self.items)
            self._shaped(arranged, strides)[...] = self._shaped(self.items, self.strides)
            self._replace(self.table.copy(), arranged, self.frames, strides)

    def item(self, lane: int) -> npt.NDArray[np.void]:
        """Returns a lane's last item, as a batch of one."""
        return self._shaped(self.items, self.strides)[lane : lane + 1]

    def _shaped(self, items: npt.NDArray[np.uint8], strides: tuple[int, ...]) -> npt.NDArray[np.void]:
        elements = items.reshape(-1).view(f"V{self._itemsize}")
        return as_strided(elements, (len(items), *self._item_shape), (self._record, *strides))

    def _replace(
        self,
        table: Table,
        items: npt.NDArray[np.uint8],
        frames: npt.NDArray[np.uint8],
        strides: tuple[int, ...],
    ) -> None:
        # All at once, and the addresses before: a failure in between would leave some of memory that is gone.
        lanes = np.arange(len(table))
        table["item"] = items.ctypes.data + lanes * self._record
        table["frame"] = frames.ctypes.data + lanes * frames.shape[1]
        self.table, self.items, self.frames, self.strides = table, items, frames, strides
