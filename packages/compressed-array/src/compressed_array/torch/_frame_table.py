"""`FrameTable`: for each frame on the device where its bytes are and which others it builds on.

A frame has a number. Number 0 is blank, and what was never written. An item is the number of its last frame: those
before it in the stack are found one from the other. A frame that nobody needs is not noticed when that happens; once
in a while all that are needed are marked, from what arrays and lanes hold, and the rest is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from compressed_array.torch._sync import storage_nbytes

# What a frame is, by position: the frame before it in its lane; the frame whose row of elements it begins with; the
# frame whose changes to that row come first; where its own changes begin and how many they are; where its own row is.
BEFORE, ROW_OF, KEY, START, LENGTH, ROW = range(6)
FRAME_NBYTES = 8 * (ROW + 1)


class FrameTable:
    """Frames by number, as rows of a tensor."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.words = torch.zeros((1, ROW + 1), dtype=torch.int64, device=device)
        self._free_numbers = torch.empty(0, dtype=torch.int64, device=device)
        self.free = 0
        self.taken = 0  # numbers, since the table was made

    @property
    def nbytes(self) -> int:
        """The memory that the table takes on the device."""
        return storage_nbytes(self.words, self._free_numbers)

    @property
    def in_use(self) -> int:
        """How many frames there are, needed or not."""
        return len(self.words) - 1 - self.free

    def allocate(self, count: int) -> torch.Tensor:
        """Returns numbers for so many new frames."""
        if count > self.free:
            self._grow(max(count - self.free, len(self.words) // 8, 64))
        self.free -= count
        self.taken += count
        return self._free_numbers[self.free : self.free + count]

    def frames_of(self, last: torch.Tensor, depth: int) -> torch.Tensor:
        """Returns the numbers of the `depth` frames of each item, oldest first, given that of its last frame."""
        frames = [last]
        for _ in range(depth - 1):
            frames.append(self.words[:, BEFORE].index_select(0, frames[-1]))
        return torch.stack(frames[::-1], 1)

    def mark_needed(self, items: Iterable[torch.Tensor], depth: int) -> torch.Tensor:
        """Returns a mask of the frames of these items, `depth` of each, and of those that they build on."""
        needed = torch.zeros(len(self.words), dtype=torch.bool, device=self.device)
        needed[0] = True
        for last in items:
            frame = last.reshape(-1).to(torch.int64)
            for step in range(depth):
                frame = frame if step == 0 else self.words[frame, BEFORE]
                needed[frame] = True
        links = torch.where(needed[:, None], self.words[:, ROW_OF : KEY + 1], 0)
        needed[links[:, 0]] = True
        needed[links[:, 1]] = True
        return needed

    def free_all_but(self, needed: torch.Tensor, count: int) -> None:
        """Free all frames that a mask does not mark; it marks `count`, for which the device is not asked."""
        free = len(self.words) - count
        # Needed ones last: what comes before them is the list of the others.
        others = torch.argsort(needed.to(torch.uint8), stable=True)[:free].clone()
        self._free_numbers, self.free = others, free

    def state(self) -> dict[str, Any]:
        """Returns all that there is, in tensors, which are not copied."""
        return {"words": self.words, "free": self._free_numbers[: self.free]}

    def restore(self, state: dict[str, Any]) -> None:
        """Hold what `state` returned of another table."""
        self.words, self._free_numbers = (state[name].to(self.device, copy=True) for name in ("words", "free"))
        self.free = len(self._free_numbers)

    def _grow(self, more: int) -> None:
        made = len(self.words)
        words = torch.zeros((made + more, ROW + 1), dtype=torch.int64, device=self.device)
        words[:made] = self.words
        fresh = torch.arange(made + more - 1, made - 1, -1, device=self.device)
        fresh = torch.cat([fresh, self._free_numbers[: self.free]])
        self.words, self._free_numbers, self.free = words, fresh, self.free + more
