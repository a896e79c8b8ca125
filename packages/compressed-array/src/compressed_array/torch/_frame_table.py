"""`FrameTable`: for each frame on the device where its bytes are and which others it builds on.

A frame has a number. Number 0 is blank, and what was never written. An item is the number of its last frame: those
before it in the stack are found one from the other. A frame that nobody needs is not noticed when that happens; once
in a while all that are needed are marked, from what arrays and lanes hold, and the rest is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from compressed_array.torch._sync import Ints, on_device, storage_nbytes

# The columns of the table, of which a frame is a row; their order is known here alone:
(
    PREVIOUS,  # the frame before it in its lane
    ROW_OF,  # the frame whose row of elements it begins with
    KEY,  # the frame whose changes to that row come first
    START,  # where its own changes begin in their heap
    LENGTH,  # how many they are
    ROW,  # where its own row is in its heap
) = range(6)
LINKS, BUILDS_ON = slice(PREVIOUS, START), slice(ROW_OF, START)
COLUMNS = ROW + 1
FRAME_NBYTES = 8 * COLUMNS


class FrameTable:
    """Frames by number, as rows of a tensor."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.words = torch.zeros((1, COLUMNS), dtype=torch.int64, device=device)
        self._free_numbers = torch.empty(0, dtype=torch.int64, device=device)
        self.free = 0
        self.taken = 0  # numbers, since the table was made

    @property
    def nbytes(self) -> int:
        """The memory that the table takes on the device."""
        return storage_nbytes(self.words, self._free_numbers)

    def allocate(self, count: int) -> torch.Tensor:
        """Returns numbers for so many new frames."""
        if count > self.free:
            self._grow(max(count - self.free, len(self.words) // 8, 64))
        self.free -= count
        self.taken += count
        return self._free_numbers[self.free : self.free + count]

    def put(self, frames: torch.Tensor, links: torch.Tensor, places: Ints) -> None:
        """Writes new frames, given by number.

        Args:
            links: Their columns `LINKS`.
            places: Their columns from `START` on.
        """
        self.words.index_copy_(0, frames, torch.cat([links, on_device(places, self.device)], 1))

    def put_again(self, frames: torch.Tensor, links: torch.Tensor, places: Ints) -> None:
        """Writes frames that are stored in another way now, of which `links` are the columns `BUILDS_ON`."""
        self.words[frames, ROW_OF:] = torch.cat([links, on_device(places, self.device)], 1)

    def frames_of(self, last: torch.Tensor, depth: int) -> torch.Tensor:
        """Returns the numbers of the `depth` frames of each item, oldest first, given that of its last frame."""
        frames = [last]
        for _ in range(depth - 1):
            frames.append(self.words[:, PREVIOUS].index_select(0, frames[-1]))
        return torch.stack(frames[::-1], 1)

    def mark_needed(self, items: Iterable[torch.Tensor], depth: int) -> torch.Tensor:
        """Returns a mask of the frames of these items, `depth` of each, and of those that they build on."""
        needed = torch.zeros(len(self.words), dtype=torch.bool, device=self.device)
        needed[0] = True
        for last in items:
            frame = last.reshape(-1).to(torch.int64)
            for step in range(depth):
                frame = frame if step == 0 else self.words[frame, PREVIOUS]
                needed[frame] = True
        for frames in torch.where(needed[:, None], self.words[:, BUILDS_ON], 0).unbind(1):
            needed[frames] = True
        return needed

    def free_all_but(self, needed: torch.Tensor, count: int) -> None:
        """Frees all frames that a mask does not mark; it marks `count`, for which the device is not asked."""
        free = len(self.words) - count
        # Needed ones last: what comes before them is the list of the others.
        others = torch.argsort(needed.to(torch.uint8), stable=True)[:free].clone()
        self._free_numbers, self.free = others, free

    def state(self) -> dict[str, Any]:
        """Returns all that there is, in tensors, which are not copied."""
        return {"words": self.words, "free": self._free_numbers[: self.free]}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned of another table."""
        self.words, self._free_numbers = (state[name].to(self.device, copy=True) for name in ("words", "free"))
        self.free = len(self._free_numbers)

    def _grow(self, more: int) -> None:
        made = len(self.words)
        words = torch.zeros((made + more, COLUMNS), dtype=torch.int64, device=self.device)
        words[:made] = self.words
        fresh = torch.arange(made + more - 1, made - 1, -1, device=self.device)
        fresh = torch.cat([fresh, self._free_numbers[: self.free]])
        self.words, self._free_numbers, self.free = words, fresh, self.free + more


def side_by_side(columns: Mapping[int, Ints], count: int) -> Ints:
    """Returns columns of the table that lie side by side, as rows for `count` frames.

    Args:
        columns: The values of each column, by its name.
    """
    rows, first = np.empty((count, len(columns)), np.int64), min(columns)
    for column, values in columns.items():
        rows[:, column - first] = values
    return rows
