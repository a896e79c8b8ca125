"""`Undecided`: the first items of a store, kept as they are until it is seen how they are stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.stacks import StackFinder
from compressed_array.torch._coders.base import Ints, on_device
from compressed_array.torch._sync import to_host

MOST_BYTES = 16 * 1024 * 1024


class Undecided:
    """Items by number, from 1 on, in the order they were written; number 0 is blank."""

    def __init__(self, item_shape: tuple[int, ...], itemsize: int, device: torch.device) -> None:
        self.item_shape, self.itemsize, self.device = item_shape, itemsize, device
        self._finder = StackFinder(item_shape)
        self._last: dict[int, int] = {}
        self.host: npt.NDArray[np.uint8] = np.zeros((1, int(np.prod(item_shape)) * itemsize), np.uint8)
        self.items = torch.from_numpy(self.host).to(device)
        self.lanes: Ints = np.zeros(1, np.int64)
        self.layout: Layout | None = None

    @property
    def nbytes(self) -> int:
        return self.items.numel()

    def write(self, items: torch.Tensor, lanes: Ints) -> torch.Tensor:
        """Keep items of bytes; says their numbers. Afterwards, `layout` may be known."""
        if items.device.type == "cpu":
            items = items.clone()  # another thread may change them between two looks
        data = to_host(items)
        numbers, kept = np.empty(len(data), np.int64), []
        rows = list(self.host)
        shape = (*self.item_shape, self.itemsize)
        for i, lane in enumerate(lanes.tolist()):
            last = self._last.get(lane)
            if last is not None and np.array_equal(rows[last], data[i]):
                numbers[i] = last
                continue
            if last is not None and self.layout is None and not self._finder.gave_up:
                found = self._finder.compare(rows[last].reshape(shape), data[i].reshape(shape))
                if found is not None:
                    self.layout = Layout.of(self.item_shape, self.itemsize, *found)
            self._last[lane] = numbers[i] = len(rows)
            rows.append(data[i])
            kept.append(i)
        chosen = items.index_select(0, on_device(np.array(kept, np.int64), items.device))
        self.items = torch.cat([self.items, chosen.to(self.device, non_blocking=True)])
        self.host = np.concatenate([self.host, data[kept]])
        self.lanes = np.concatenate([self.lanes, lanes[kept]])
        if self.layout is None and (self._finder.gave_up or self.host.nbytes > MOST_BYTES):
            self.give_up()
        return on_device(numbers, self.device)

    def give_up(self) -> None:
        """Take items for no stacks, if nothing else is known."""
        self.layout = self.layout or Layout.unstacked(self.host.shape[1])

    def mark(self) -> Any:
        """What `go_back` needs to undo the writes that come."""
        return self.items, self.host, self.lanes, self.layout, dict(self._last)

    def go_back(self, mark: Any) -> None:
        self.items, self.host, self.lanes, self.layout, self._last = mark

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Items of bytes."""
        return self.items[numbers]

    def state(self) -> dict[str, Any]:
        return {"items": self.items, "lanes": torch.from_numpy(self.lanes)}
