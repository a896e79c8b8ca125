"""Lanes: the streams that a store keeps apart, and for each the open group that its next frames go to.

What a lane remembers is the last item written to it, as it lay in memory, and that item's last frame in C order: the
next item is compared with the one, the next frame coded against the other. Nothing depends on which lane an item is
written to but the space it takes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

# What a lane is, by position: the number of its last item; its open group's number plus one, how many frames that
# holds and for how many it was opened, and how they are written; the segment it writes to, where that begins in
# memory, how many bytes of it are written and how many there are; where the last item and the last frame are, and
# where the last item still lies in the batch that is being written, or 0.
LAST, GROUP_OF, COUNT, CAPACITY, MODE, SEGMENT, BUFFER, USED, SIZE, ITEM, FRAME_AT, IN_BATCH = range(12)
WIDTH = 12  # words of a lane
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
        self.words: npt.NDArray[np.int64] = np.zeros((0, WIDTH), np.int64)
        self.items: npt.NDArray[np.uint8] = np.zeros((0, self._record), np.uint8)
        self.frames: npt.NDArray[np.uint8] = np.zeros((0, frame_nbytes), np.uint8)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.items.nbytes + self.frames.nbytes

    def grow(self, count: int) -> None:
        """See to it that there are lanes 0 to `count - 1`."""
        more = count - len(self.words)
        if more > 0:
            words, items, frames = (
                np.concatenate([part, np.zeros((more, part.shape[1]), part.dtype)])
                for part in (self.words, self.items, self.frames)
            )
            self._replace(words, items, frames, self.strides)

    def start_over(self, frame_nbytes: int) -> None:
        """Forget the last items, for frames of another size."""
        frames = np.zeros((len(self.words), frame_nbytes), np.uint8)
        self._replace(np.zeros_like(self.words), self.items, frames, self.strides)

    def clear(self) -> None:
        """Have no lanes, and none of their memory."""
        self._replace(self.words[:0].copy(), self.items[:0].copy(), self.frames[:0].copy(), self.strides)

    def arrange(self, strides: tuple[int, ...]) -> None:
        """Lay the remembered items out as those that come next are."""
        if strides != self.strides:
            arranged = np.empty_like(self.items)
            self._shaped(arranged, strides)[...] = self._shaped(self.items, self.strides)
            self._replace(self.words.copy(), arranged, self.frames, strides)

    def item(self, lane: int) -> npt.NDArray[np.void]:
        """A lane's last item, as a batch of one."""
        return self._shaped(self.items, self.strides)[lane : lane + 1]

    def _shaped(self, items: npt.NDArray[np.uint8], strides: tuple[int, ...]) -> npt.NDArray[np.void]:
        elements = items.reshape(-1).view(f"V{self._itemsize}")
        return as_strided(elements, (len(items), *self._item_shape), (self._record, *strides))

    def _replace(
        self,
        words: npt.NDArray[np.int64],
        items: npt.NDArray[np.uint8],
        frames: npt.NDArray[np.uint8],
        strides: tuple[int, ...],
    ) -> None:
        # All at once, and the addresses before: a failure in between would leave some of memory that is gone.
        lanes = np.arange(len(words))
        words[:, ITEM] = items.ctypes.data + lanes * self._record
        words[:, FRAME_AT] = frames.ctypes.data + lanes * frames.shape[1]
        self.words, self.items, self.frames, self.strides = words, items, frames, strides
