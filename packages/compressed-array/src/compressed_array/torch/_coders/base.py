"""`Coder`: the interface of what encodes frames on a device.

A coder is given new frames of some lanes and returns for each of them three links to other frames, which only exist as
numbers on the device, and three numbers of its own. It waits for the device once for all of them, to learn sizes.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch

from compressed_array.torch._frame_table import LENGTH, ROW, START, FrameTable, side_by_side
from compressed_array.torch._heap import TorchHeap
from compressed_array.torch._sync import Ints

# Elements that a coder looks at together; more of them take more memory, and on a GPU fewer kernels.
AT_ONCE = 4 * 1024 * 1024
# Links to frames that are not in the batch: to the blank one, and to those that a lane knows.
BLANK = 0
LAST, LANE_ROW, LANE_KEY = range(3)
PER_LANE = 3


class Batch(NamedTuple):
    """New frames of some lanes."""

    frames: torch.Tensor  # as rows of `frame_nbytes` bytes
    lane: Ints  # of each frame
    nth: Ints  # how many frames of its lane come before each
    lanes: int  # how many lanes there are

    def lane_link(self, lane: Ints, which: int | Ints) -> Ints:
        """Returns the link to a frame that a lane knows: `LAST`, `LANE_ROW` or `LANE_KEY`."""
        return 1 + PER_LANE * lane + which

    def own_link(self, frame: Ints) -> Ints:
        """Returns the link to a frame of this batch."""
        return 1 + PER_LANE * self.lanes + frame


class Coded(NamedTuple):
    """Where the frames of a batch are: what `FrameTable` has of each, of which `row_of` and `key` are links.

    `lane_row` and `lane_key` are the links that each lane has afterwards.
    """

    row_of: Ints
    key: Ints
    start: Ints
    length: Ints
    row: Ints
    lane_row: Ints
    lane_key: Ints

    def places(self) -> Ints:
        """Returns the columns of the frames from `START` on."""
        return side_by_side({START: self.start, LENGTH: self.length, ROW: self.row}, len(self.row))


class FrameHeap(NamedTuple):
    """A heap of a coder, and which words of a frame in the table say where the frame is in that heap."""

    heap: TorchHeap
    address_word: int
    length_word: int | None  # None if each frame has one row there


class Coder(Protocol):
    """How frames of one size are stored: encoded, or for now as rows on a stage, to be encoded later with others."""

    device: torch.device
    frame_nbytes: int

    @property
    def nbytes(self) -> int:
        """The memory that the coder holds besides its heaps."""

    def encode(self, batch: Batch) -> Coded:
        """Stores frames. If that fails, nothing has changed that a reader or the next write would notice."""

    def stage_size(self, lanes: int) -> int:
        """Returns how many frames fit on the stage when it is empty, if there are so many lanes; 0 without a stage."""

    def stage_room(self, lanes: int) -> int:
        """Returns how many more frames fit on the stage."""

    def stage(self, frames: torch.Tensor, lanes: int) -> int | None:
        """Puts frames on the stage. Returns the address of the first row, or None if there is no room for all."""

    def staged(self) -> torch.Tensor:
        """Returns all frames that are on the stage, in order."""

    def clear_stage(self, keep: int = 0) -> None:
        """Forgets the frames that are on the stage, but for the first `keep`."""

    def drop_stage(self) -> None:
        """Gives back the memory of the stage, on which there is nothing."""

    def decode(self, table: FrameTable, frames: torch.Tensor) -> torch.Tensor:
        """Returns the bytes of frames, given by number, one in each row."""

    def heaps(self) -> list[FrameHeap]:
        """Returns the heaps in which frames are."""

    def forget_lanes(self) -> None:
        """Forgets what frames of each lane were like. This takes nothing from the device and cannot fail."""


class StagesNothing:
    """The part of a coder that encodes every frame when it comes and remembers nothing of it."""

    @property
    def nbytes(self) -> int:
        return 0

    def stage_size(self, lanes: int) -> int:
        return 0

    def stage_room(self, lanes: int) -> int:
        return 0

    def stage(self, frames: torch.Tensor, lanes: int) -> int | None:
        return None

    def staged(self) -> torch.Tensor:
        raise AssertionError("nothing is ever staged")

    def clear_stage(self, keep: int = 0) -> None:
        pass

    def drop_stage(self) -> None:
        pass

    def forget_lanes(self) -> None:
        pass


def starts_of(first: int, length: Ints) -> Ints:
    """Returns where records of these lengths begin that lie one after the other from `first` on; 0 for empty ones."""
    return np.where(length > 0, first + np.cumsum(length) - length, 0)


def marked(mask: torch.Tensor, values: torch.Tensor, count: int, positions: torch.dtype) -> list[torch.Tensor]:
    """Returns two columns, for each element that a mask marks: where in its row it is, and the element.

    Args:
        count: How many are marked, which the device is not asked for.
        positions: The dtype of the first column.
    """
    places = places_of(mask.reshape(-1), count)
    return [(places % mask.shape[1]).to(positions), values.reshape(-1).index_select(0, places)]


def places_of(mask: torch.Tensor, count: int) -> torch.Tensor:
    """Returns where a mask is set, which it is `count` times: `nonzero` would wait for the device to count them."""
    if mask.device.type != "mps":
        return torch.nonzero_static(mask, size=count).view(-1)
    # A slot for each, and one behind all for the rest.
    slots = torch.where(mask, torch.cumsum(mask, 0), count + 1) - 1
    every = torch.arange(len(mask), device=mask.device)
    return torch.empty(count + 1, dtype=torch.int64, device=mask.device).scatter_(0, slots, every)[:count]
