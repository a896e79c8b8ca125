"""`UndecidedItems`: the first items of a store, kept as they are until it is seen how they are stacked.

Frames cannot be stored before their size is known, and arrays are read, copied and saved before that; so this stage of
an item's life is needed, and a saved state may be of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.stacks import StackFinder
from compressed_array.torch._sync import Ints, on_device, to_host

MOST_BYTES = 16 * 1024 * 1024


class UndecidedItems:
    """Items by number, from 1 on, in the order they were written; number 0 is blank.

    They do not change: `with_items` makes others, so that a write that fails has nothing to undo. The first 64 stacks
    of four Atari-sized frames take 0.9 MB with this stage and 2.1 MB if each is a frame from the first on, in the same
    time.
    """

    def __init__(self, item_shape: tuple[int, ...], itemsize: int, device: torch.device) -> None:
        self.item_shape, self.itemsize, self.device = item_shape, itemsize, device
        self._finder = StackFinder(item_shape)
        self._last: dict[int, int] = {}  # of each lane the number of its last item
        self.host: npt.NDArray[np.uint8] = np.zeros((1, int(np.prod(item_shape)) * itemsize), np.uint8)
        self.items = torch.from_numpy(self.host).to(device)
        self.lanes: Ints = np.zeros(1, np.int64)
        self.layout: Layout | None = None  # how items are stacked, once that is known

    @property
    def nbytes(self) -> int:
        """The memory that items take on the device."""
        return self.items.numel()

    @property
    def unstacked_layout(self) -> Layout:
        """The layout of items that are no stacks, each of which is one frame."""
        return Layout.unstacked(self.host.shape[1])

    def with_items(self, items: torch.Tensor, lanes: Ints) -> tuple[UndecidedItems, torch.Tensor]:
        """Returns these items and others behind them, and the numbers of the others.

        Args:
            items: Rows of bytes.
            lanes: The lane that each of them follows in.
        """
        if items.device.type == "cpu":
            items = items.clone()  # another thread may change them before they are looked at again
        data = to_host(items)
        numbers, kept = np.empty(len(data), np.int64), []
        rows, last_of, layout = list(self.host), dict(self._last), self.layout
        shape = (*self.item_shape, self.itemsize)
        for i, lane in enumerate(lanes.tolist()):
            last = last_of.get(lane)
            if last is not None and np.array_equal(rows[last], data[i]):
                numbers[i] = last
                continue
            if last is not None and layout is None and not self._finder.gave_up:
                found = self._finder.compare(rows[last].reshape(shape), data[i].reshape(shape))
                if found is not None:
                    layout = Layout.of(self.item_shape, self.itemsize, *found)
            last_of[lane] = numbers[i] = len(rows)
            rows.append(data[i])
            kept.append(i)
        more = object.__new__(type(self))
        more.item_shape, more.itemsize, more.device = self.item_shape, self.itemsize, self.device
        more._finder, more._last = self._finder, last_of
        chosen = items.index_select(0, on_device(np.array(kept, np.int64), items.device))
        more.items = torch.cat([self.items, chosen.to(self.device, non_blocking=True)])
        more.host = np.concatenate([self.host, data[kept]])
        more.lanes = np.concatenate([self.lanes, lanes[kept]])
        is_over = self._finder.gave_up or more.host.nbytes > MOST_BYTES
        more.layout = self.unstacked_layout if layout is None and is_over else layout
        return more, on_device(numbers, self.device)

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Returns items as rows of bytes."""
        return self.items[numbers]

    def state(self) -> dict[str, Any]:
        """Returns all that there is, in tensors, by a name that the state of frames does not have."""
        return {"undecided": {"items": self.items, "lanes": torch.from_numpy(self.lanes)}}
