"""`ComparedItems`: items and what is new in them; `DeviceComparison` finds that out on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from compressed_array.torch._sync import Ints, on_device

if TYPE_CHECKING:  # lanes make comparisons
    from compressed_array.torch._lanes import DeviceLanes

# Of this many items all frames are compared with all at once, which takes two kernels instead of two for each shift.
FEW_ITEMS = 64


class ComparedItems(Protocol):
    """Items that are compared with the last ones of their lanes: on the host, on the device, or when held back."""

    @property
    def to_fetch(self) -> torch.Tensor | None:
        """What has to be fetched from the device before it is known what is new; None if it is known."""

    def count_new(self, fetched: list[int] | None) -> Ints | None:
        """Returns how many frames of each item are new, or None if none of any is.

        Args:
            fetched: What `to_fetch` holds; None if that is None.
        """

    def frames(self, which: Ints, device: torch.device) -> torch.Tensor:
        """Returns frames as rows of bytes on a device.

        Args:
            which: Their places in a list of the frames of all items.
        """

    def remember(self) -> None:
        """Records these items as the last ones of their lanes."""


class DeviceComparison:
    """Items on the device, in frames, beside the last ones of their lanes, which are there as well."""

    def __init__(self, known: DeviceLanes, items: torch.Tensor, lanes: Ints) -> None:
        self._known, self._items, self._lanes = known, items, lanes
        after, before = widest_integers(items), widest_integers(self._before())
        depth = known.layout.depth
        if len(items) <= FEW_ITEMS:
            self.to_fetch = (after[:, :, None] != before[:, None]).any(3)
        else:
            differs = [(after[:, : depth - k] != before[:, k:]).flatten(1).any(1) for k in range(depth)]
            self.to_fetch = torch.stack(differs, 1)

    def count_new(self, fetched: list[int] | None) -> Ints | None:
        """Returns how many frames of each item are new, or None if none of any is."""
        depth, n = self._known.layout.depth, len(self._lanes)
        differs = np.array(fetched, bool)
        if n <= FEW_ITEMS:
            each = differs.reshape(n, depth, depth)
            differs = np.stack([each.diagonal(new, 1, 2).any(1) for new in range(depth)], 1)
        new: Ints = np.argmax(np.column_stack([~differs.reshape(n, depth), np.ones(n, bool)]), 1)
        lanes, first = np.unique(self._lanes, return_index=True)
        new[first[~self._known.is_begun[lanes]]] = depth
        return new if new.any() else None

    def frames(self, which: Ints, device: torch.device) -> torch.Tensor:
        """Returns frames, counted over all items."""
        return self._items.reshape(-1, self._items.shape[2]).index_select(0, on_device(which, device))

    def remember(self) -> None:
        """Records these items as the last ones of their lanes."""
        known = self._known.items
        assert known is not None
        last = np.full(len(known), -1)
        last[self._lanes] = np.arange(len(self._lanes))
        has = np.flatnonzero(last >= 0)
        known[on_device(has, known.device)] = self._items.index_select(0, on_device(last[has], known.device))

    def _before(self) -> torch.Tensor:
        """Returns for each item the one before it in its lane."""
        known, lanes = self._known.items, self._lanes
        assert known is not None
        order = np.argsort(lanes, kind="stable")
        follows = np.append(False, lanes[order][1:] == lanes[order][:-1])
        at = np.empty(len(lanes), np.int64)
        at[order] = np.where(follows, len(known) + np.append(0, order[:-1]), lanes[order])
        return torch.cat([known, self._items]).index_select(0, on_device(at, known.device))


def widest_integers(frames: torch.Tensor) -> torch.Tensor:
    """Returns frames of bytes in the widest integers that they divide into: fewer to compare."""
    nbytes = frames.shape[-1]
    for width, dtype in ((8, torch.int64), (4, torch.int32), (2, torch.int16)):
        if nbytes % width == 0:
            return frames.view(dtype)
    return frames
