"""How an array's items are stacked: as its codec says, or as is found by comparing items that follow each other."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._stores.frames.lanes import Lanes
from compressed_array._stores.frames.layouts import DEEPEST_STACK, Layout, continues, possible_stacks

# Pairs of items that are compared before giving up, and batches until the next attempt.
TRIES, TRY_AGAIN = 64, 4096
# Pairs that have to agree on how items are stacked, and what share of all compared pairs they have to be.
SIGNS, MOSTLY = 3, 0.6


def given_layout(item_shape: tuple[int, ...], itemsize: int, codec: Any) -> Layout | None:
    """Returns the layout that a codec asks for; None if it leaves that to be found."""
    width, axis = getattr(codec, "frame_width", None), getattr(codec, "stack_axis", None)
    if width == 0 or not item_shape or not itemsize:
        return Layout.unstacked(int(np.prod(item_shape)) * itemsize)
    if width is None:
        return None
    axis = 0 if axis is None else operator.index(axis)
    if not -len(item_shape) <= axis < len(item_shape):
        raise ValueError(f"stack_axis {axis} is no axis of an item of shape {item_shape}")
    axis %= len(item_shape)
    if width < 0 or item_shape[axis] % width or not 1 <= item_shape[axis] // width <= DEEPEST_STACK:
        raise ValueError(
            f"frame_width {width} does not divide axis {axis} of an item of shape {item_shape} into a stack of "
            f"1 to {DEEPEST_STACK} frames"
        )
    return Layout.of(item_shape, itemsize, axis, width)


class StackFinder:
    """Compares items with those written right before them, until most pairs agree on how items are stacked."""

    def __init__(self, item_shape: tuple[int, ...]) -> None:
        self._signs = dict.fromkeys(possible_stacks(item_shape), 0)
        self._pairs, self._tries, self._batches = 0, TRIES, 0

    @property
    def gave_up(self) -> bool:
        """Whether it has compared enough pairs for now."""
        return not self._tries

    def skip_batch(self) -> bool:
        """Skips the next batch if it need not be inspected, and counts it as `inspect` does. Returns whether it did."""
        skips = self.gave_up and (self._batches + 1) % TRY_AGAIN != 0
        self._batches += skips
        return skips

    def inspect(self, items: npt.NDArray[Any], lane_of: npt.NDArray[np.int64], lanes: Lanes) -> tuple[int, int] | None:
        """Returns the axis of the stack and the width of a frame along it, once they are known; None before."""
        self._batches += 1
        if self._batches % TRY_AGAIN == 0:
            self._tries, self._pairs = max(self._tries, SIGNS), 0
            self._signs = dict.fromkeys(self._signs, 0)
        if self.gave_up:
            return None
        before: dict[int, npt.NDArray[Any]] = {}
        for item, lane in zip(items[: 2 * TRIES], lane_of.tolist(), strict=False):
            if lane not in before and lanes.table["last"][lane]:
                before[lane] = lanes.item(lane).view(items.dtype)[0]
            if lane in before and self._tries:
                found = self.compare(before[lane], item)
                if found is not None:
                    return found
            before[lane] = item
        return None

    def compare(self, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, int] | None:
        """Compares one pair of items. Returns the same as `inspect`."""
        if before.tobytes() == after.tobytes():
            return None
        self._tries -= 1
        self._pairs += 1
        for (axis, width), signs in self._signs.items():
            if continues(before, after, axis, width):
                self._signs[axis, width] = signs + 1
                if signs + 1 >= SIGNS and signs + 1 >= MOSTLY * self._pairs:
                    return axis, width
        return None
