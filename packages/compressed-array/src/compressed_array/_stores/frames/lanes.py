"""Lanes: the streams that a store keeps apart, and for each the open group that its next frames go to.

What a lane remembers is the last item written to it, as it lay in memory, and that item's last frame in C order: the
next item is compared with the one, the next frame coded against the other. Nothing depends on which lane an item is
written to but the space it takes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.kernel_records import LANE, StructArray

# If a record is this many times smaller than its frame, no other base is tried.
SMALL_ENOUGH = 16
# For a record's header, for a token that turns out to be one too many, and for kernels that take whole words.
ROOM = 64


class Lanes:
    """The lanes of one store, made as they are needed."""

    def __init__(self, item_shape: tuple[int, ...], itemsize: int, frame_nbytes: int) -> None:
        self._item_shape = item_shape
        # The strides of the remembered items: those of the batch that was written last.
        self.strides = np.empty((1, *item_shape), f"V{itemsize}").strides[1:] if itemsize else ()
        self._item_nbytes = int(np.prod(item_shape)) * itemsize
        self._itemsize = itemsize
        self.table: StructArray = np.zeros(0, LANE)
        self.address = self.table.ctypes.data  # of the table: to ask numpy for it takes as long as to compare an item
        self.items: npt.NDArray[np.uint8] = np.zeros((0, self._item_nbytes), np.uint8)
        self.frames: npt.NDArray[np.uint8] = np.zeros((0, frame_nbytes), np.uint8)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.items.nbytes + self.frames.nbytes

    def grow(self, count: int) -> None:
        """Makes lanes 0 to `count - 1`, as far as they are missing."""
        known = len(self.table)
        if count > known:
            table = np.zeros(count, LANE)
            table[:known] = self.table
            items, frames = (
                np.concatenate([part, np.zeros((count - known, part.shape[1]), np.uint8)])
                for part in (self.items, self.frames)
            )
            self._replace(table, items, frames, self.strides)

    def resize_frames(self, frame_nbytes: int) -> None:
        """Makes room for last frames of another size. Every lane starts over, as after `reset`."""
        frames = np.zeros((len(self.table), frame_nbytes), np.uint8)
        self._replace(np.zeros_like(self.table), self.items, frames, self.strides)

    def drop_all(self) -> None:
        """Removes all lanes and frees their memory."""
        self._replace(self.table[:0].copy(), self.items[:0].copy(), self.frames[:0].copy(), self.strides)

    def use_segment(self, lane: int, segment: int, memory: Bytes) -> None:
        """Gives a lane a segment of the heap, to the beginning of which it writes its next group."""
        written = self.table[lane]  # a view of it
        written["capacity"] = 0  # first: nothing may be added to a group whose segment is no longer the lane's
        written["segment"], written["buffer"] = segment, memory.ctypes.data
        written["used"], written["size"] = 0, memory.size

    def use_new_segments(self) -> None:
        """Ends the room that lanes have in their segments, so that each gets a new one for its next group."""
        table = self.table
        table["size"] = np.minimum(table["size"], np.maximum(table["used"], 1))  # with a size of 0 they are nowhere

    def close_groups(self) -> None:
        """Ends the groups that are open: each lane opens another one for its next frame."""
        self.table["capacity"] = 0

    def reset(self) -> None:
        """Makes every lane start over, without a last item, a group or a segment."""
        self.table[["last", "group", "capacity", "size"]] = 0

    def forget_items(self) -> None:
        """Forgets the last item of each lane, so that all frames of the next one are new."""
        self.table["last"] = 0

    def arrange(self, strides: tuple[int, ...]) -> None:
        """Lays the remembered items out in memory as those that come next are."""
        if strides != self.strides:
            arranged = np.empty_like(self.items)
            self._shaped(arranged, strides)[...] = self._shaped(self.items, self.strides)
            self._replace(self.table.copy(), arranged, self.frames, strides)

    def item(self, lane: int) -> npt.NDArray[np.void]:
        """Returns a lane's last item, as a batch of one."""
        return self._shaped(self.items, self.strides)[lane : lane + 1]

    def _shaped(self, items: npt.NDArray[np.uint8], strides: tuple[int, ...]) -> npt.NDArray[np.void]:
        elements = items.reshape(-1).view(f"V{self._itemsize}")
        return as_strided(elements, (len(items), *self._item_shape), (self._item_nbytes, *strides))

    def _replace(
        self,
        table: StructArray,
        items: npt.NDArray[np.uint8],
        frames: npt.NDArray[np.uint8],
        strides: tuple[int, ...],
    ) -> None:
        # All at once, and the addresses before: a failure in between would leave some of memory that is gone.
        lanes = np.arange(len(table))
        table["item"] = items.ctypes.data + lanes * self._item_nbytes
        table["frame"] = frames.ctypes.data + lanes * frames.shape[1]
        address = table.ctypes.data
        self.table, self.items, self.frames, self.strides, self.address = table, items, frames, strides, address
