"""`WaitingSteps`: steps from the host that wait there to be stored on the device with others.

Most of what a step takes is calls, on a GPU launches, and it takes as many for sixteen steps. Only what is new in them
waits: what is not has been there before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.torch._coders.base import Ints, on_device
from compressed_array.torch._host_lanes import Array, HostItems

MOST_STEPS = 64


class DeviceGrid:
    """The numbers by which a store knows the items of an array, and the rows that wait for theirs."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self.numbers = numbers
        self.waiting: dict[int, int] = {}  # the steps that these rows are

    def __getstate__(self) -> None:
        """Nothing: numbers mean something with what they stand for, so that the store has them in its own state."""

    def replace(self, numbers: torch.Tensor) -> None:
        """Hold other items."""
        self.numbers, self.waiting = numbers, {}

    def fill(self, steps: torch.Tensor) -> None:
        """Take the numbers of steps for the rows that wait."""
        if self.waiting:
            at = on_device(np.array([[*self.waiting], [*self.waiting.values()]]), steps.device)
            self.numbers.index_copy_(0, at[0], steps.index_select(0, at[1]).to(self.numbers.dtype))
            self.waiting = {}


class WaitingSteps:
    """Rows of items, an item of each of `lanes` in every one, up to so many new frames."""

    def __init__(self, host: HostItems, lanes: Ints, depth: int, frame_nbytes: int, frames: int) -> None:
        self.lanes = lanes
        self.steps = 0
        self._lanes: Ints = np.tile(lanes, MOST_STEPS)
        self._host, self._depth = host, depth
        self._frames: npt.NDArray[np.uint8] = np.empty((frames, frame_nbytes), np.uint8)
        self._new: Ints = np.empty((MOST_STEPS, len(lanes)), np.int64)
        self._begins = [0] * (MOST_STEPS + 1)  # how many frames came before each step

    def add(self, items: torch.Tensor | Array, room: int) -> int | None:
        """Keep a step; says which it is, less than 0 if there is no room for it now, or None if there never is."""
        step = self.steps
        if step == MOST_STEPS:
            return -1
        begin = self._begins[step]
        try:
            look = self._host.look(items, self.lanes)
            total = look.take_new_frames(self._new[step], self._frames[begin:], min(room, len(self._frames)) - begin)
            if total < 0:
                return -1 if -total <= len(self._frames) else None
            self._begins[step + 1] = begin + total
            self.steps = step + 1  # from here on it is there
        except BaseException:
            self._host.forget()  # which may know items that nobody has
            raise
        return step

    @property
    def lanes_of_items(self) -> Ints:
        return self._lanes[: self.steps * len(self.lanes)]

    def new(self) -> Ints | None:
        """How many frames of each item are new; None if none of any is."""
        new = self._new[: self.steps].reshape(-1)
        return new.copy() if new.any() else None

    def frames(self, which: Ints, device: torch.device) -> torch.Tensor:
        """Frames, counted over all items, on a device."""
        new = self._new[: self.steps].reshape(-1)
        item, index = np.divmod(which, self._depth)
        at = np.cumsum(new)[item] - self._depth + index
        # As a copy: it may still be on its way to the device when the next steps come.
        return torch.from_numpy(self._frames[at]).to(device, non_blocking=True)

    def remember(self) -> None:
        """Lanes know their items already."""
