"""`PendingSteps`: steps from the host that are held back there, to be stored on the device with others.

Most of what a step takes is calls, on a GPU launches, and sixteen steps at once take as many calls as one. Only new
frames are held back: the other frames are stored already.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.torch._host_lanes import HostLanes
from compressed_array.torch._sync import Array, Ints

MOST_STEPS = 64


class NotHeld(Enum):
    """Why a step is not held back."""

    NO_ROOM_NOW = "there is room for it once the others are stored"
    TOO_LARGE = "it has more new frames than there ever is room for"


class PendingSteps:
    """Steps, which are rows of items with an item of each of `lanes`, as `ComparedItems`.

    Args:
        depth: How many frames an item has.
        frames: For how many new frames there is room.
    """

    to_fetch = None

    def __init__(self, host_lanes: HostLanes, lanes: Ints, depth: int, frame_nbytes: int, frames: int) -> None:
        self.lanes = lanes
        self.steps = 0
        self._lane_of_each_item: Ints = np.tile(lanes, MOST_STEPS)
        self._host_lanes, self._depth = host_lanes, depth
        self._frames: npt.NDArray[np.uint8] = np.empty((frames, frame_nbytes), np.uint8)
        self._new: Ints = np.empty((MOST_STEPS, len(lanes)), np.int64)
        self._begins = [0] * (MOST_STEPS + 1)  # how many frames came before each step

    def add(self, items: torch.Tensor | Array, room: int) -> int | NotHeld:
        """Holds a step back. Returns its number among the pending ones, or why it is not held.

        Args:
            room: How many frames may be pending in all, if that is less than there is room for here.
        """
        step = self.steps
        if step == MOST_STEPS:
            return NotHeld.NO_ROOM_NOW
        begin = self._begins[step]
        try:
            compared = self._host_lanes.compare(items, self.lanes)
            most = min(room, len(self._frames)) - begin
            total = compared.take_new_frames(self._new[step], self._frames[begin:], most)
            if total < 0:
                return NotHeld.NO_ROOM_NOW if -total <= len(self._frames) else NotHeld.TOO_LARGE
            self._begins[step + 1] = begin + total
            self.steps = step + 1  # from here on it is there
        except BaseException:
            self._host_lanes.forget_items()  # which may be some that nobody has
            raise
        return step

    @property
    def lane_of_each_item(self) -> Ints:
        """The lanes of the items of all steps."""
        return self._lane_of_each_item[: self.steps * len(self.lanes)]

    def count_new(self, _: list[int] | None) -> Ints | None:
        """Returns how many frames of each item are new, or None if none of any is."""
        new = self._new[: self.steps].reshape(-1)
        return new.copy() if new.any() else None

    def frames(self, which: Ints, device: torch.device) -> torch.Tensor:
        """Returns frames, counted over all items, on a device; they have to be new ones."""
        new = self._new[: self.steps].reshape(-1)
        item, index = np.divmod(which, self._depth)
        at = np.cumsum(new)[item] - self._depth + index
        # As a copy: it may still be on its way to the device when the next steps come.
        return torch.from_numpy(self._frames[at]).to(device, non_blocking=True)

    def remember(self) -> None:
        """Does nothing: lanes have known the items since `add`."""
