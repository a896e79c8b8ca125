"""What frames are stored as: rows of elements, of which most are given by a row that is there already.

A coder is given new frames of some lanes and says for each where it put them, as three links to other frames (which
only exist as numbers on the device) and three numbers of its own. It asks the device for sizes once for all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.torch._frame_table import FrameTable
from compressed_array.torch._heap import TorchHeap

Ints = npt.NDArray[np.int64]
# Elements that a coder looks at together; more of them take more memory, and on a GPU fewer kernels.
AT_ONCE = 4 * 1024 * 1024
# Links to frames that are not in the batch: to the blank one, and to those that a lane knows.
BLANK = 0
LAST, LANE_ROW, LANE_KEY = range(3)
PER_LANE = 3


class Batch(NamedTuple):
    """New frames, as bytes in rows of `frame_nbytes`; for each the lane it is of, and how many of that come before."""

    frames: torch.Tensor
    lane: Ints
    turn: Ints
    lanes: int  # how many lanes there are

    def lane_link(self, lane: Ints, which: int | Ints) -> Ints:
        """The link to what a lane knows."""
        return 1 + PER_LANE * lane + which

    def own_link(self, frame: Ints) -> Ints:
        """The link to a frame of this batch."""
        return 1 + PER_LANE * self.lanes + frame


class Coded(NamedTuple):
    """Where frames went: `row_of` and `key` as links, the rest as `FrameTable` has it. Then what the lanes know now."""

    row_of: Ints
    key: Ints
    start: Ints
    length: Ints
    row: Ints
    lane_row: Ints
    lane_key: Ints


class Coder(Protocol):
    """How frames of one size are stored."""

    device: torch.device
    frame_nbytes: int

    @property
    def nbytes(self) -> int:
        """The memory that it holds besides its heaps."""

    def encode(self, batch: Batch) -> Coded:
        """Store frames. If that fails, nothing has changed that a reader or the next write would notice."""

    def stage_size(self, lanes: int) -> int:
        """How many frames may be kept for now, to be encoded together; with so many lanes."""

    def room(self, lanes: int) -> int:
        """How many more."""

    def stage(self, frames: torch.Tensor, lanes: int) -> int | None:
        """Keep frames for now; says where, or None if there is no room."""

    def staged(self) -> torch.Tensor:
        """All frames that were kept for now, in order."""

    def unstage(self, but: int = 0, *, for_good: bool = False) -> None:
        """Forget them, but for the first; for good, if there is no need to keep room for others."""

    def decode(self, table: FrameTable, frames: torch.Tensor) -> torch.Tensor:
        """The bytes of frames, one a row."""

    def heaps(self) -> list[tuple[TorchHeap, int, int | None]]:
        """The heaps, and in which words of a frame its address and its length in there are; of a row it is one."""

    def compact(self) -> None:
        """Forget what lanes had."""


class Immediate:
    """The part of a coder that stores every frame at once and by itself: nothing waits, and nothing is remembered."""

    @property
    def nbytes(self) -> int:
        return 0

    def stage_size(self, lanes: int) -> int:
        return 0

    def room(self, lanes: int) -> int:
        return 0

    def stage(self, frames: torch.Tensor, lanes: int) -> int | None:
        return None

    def staged(self) -> torch.Tensor:
        raise AssertionError("nothing is ever staged")

    def unstage(self, but: int = 0, *, for_good: bool = False) -> None:
        pass

    def compact(self) -> None:
        pass


def on_device(numbers: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """Numbers of the host, on a device."""
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, non_blocking=True)


def starts_of(first: int, length: Ints) -> Ints:
    """Where records begin that lie one after the other; one without rows is nowhere."""
    return np.where(length > 0, first + np.cumsum(length) - length, 0)


def marked(mask: torch.Tensor, values: torch.Tensor, count: int, positions: torch.dtype) -> list[torch.Tensor]:
    """Columns of the elements that are marked: where in its row each is, and what. `count` says how many they are."""
    places = places_of(mask.reshape(-1), count)
    return [(places % mask.shape[1]).to(positions), values.reshape(-1).index_select(0, places)]


def places_of(mask: torch.Tensor, count: int) -> torch.Tensor:
    """Where a mask is set, which it is `count` times: `nonzero` would wait for the device to count them."""
    if mask.device.type != "mps":
        return torch.nonzero_static(mask, size=count).view(-1)
    # A slot for each, and one behind all for the rest.
    slots = torch.where(mask, torch.cumsum(mask, 0), count + 1) - 1
    every = torch.arange(len(mask), device=mask.device)
    return torch.empty(count + 1, dtype=torch.int64, device=mask.device).scatter_(0, slots, every)[:count]
