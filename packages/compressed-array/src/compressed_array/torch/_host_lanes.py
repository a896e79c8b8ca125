"""Items that come from the host: compared there with the last ones, so that only what is new goes to the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from compressed_array._runtime.loading import native
from compressed_array._stores.frames.lanes import Lanes
from compressed_array._stores.frames.layouts import Geometry, Layout, count_new, divided, geometry, strides_of
from compressed_array._stores.protocol import byte_rows
from compressed_array.torch._dtypes import INTEGERS
from compressed_array.torch._sync import Array, Ints


class HostLanes:
    """The last item of each lane, as it lay in the memory of the host."""

    def __init__(self, layout: Layout, item_shape: tuple[int, ...], itemsize: int) -> None:
        self._layout, self._item_shape, self._itemsize = layout, item_shape, itemsize
        self._lanes = Lanes(item_shape, itemsize, 0)
        self._known: Ints | None = None  # lanes that there are
        self._geometries: dict[tuple[int, ...], Geometry | None] = {}

    def compare(self, items: torch.Tensor | Array, lanes: Ints) -> HostComparison:
        """Returns items beside the last ones of their lanes. They are compared when it is asked what is new."""
        if lanes is not self._known:
            self._lanes.grow(int(lanes.max()) + 1)
            self._known = lanes
        array = as_array(items) if isinstance(items, torch.Tensor) else items
        found = self._geometry(strides_of(array))
        if found is None:
            array = np.ascontiguousarray(array)
            found = self._geometry(strides_of(array))
            assert found is not None  # C order is dense
        self._lanes.arrange(found.strides)
        return HostComparison(array, lanes, found, self._layout, self._lanes)

    def forget_items(self) -> None:
        """Forgets the last item of each lane, so that the next one is stored whole."""
        self._lanes.forget_items()

    def are_begun(self, count: int) -> npt.NDArray[np.bool_]:
        """Returns which of the first `count` lanes have a last item."""
        self._lanes.grow(count)
        begun: npt.NDArray[np.bool_] = self._lanes.table["last"][:count] != 0
        return begun

    def last(self, count: int) -> npt.NDArray[np.uint8]:
        """Returns the last items of the first `count` lanes, in frames."""
        self._lanes.grow(count)
        items = [divided(byte_rows(self._lanes.item(lane), 1), self._layout) for lane in range(count)]
        return np.stack(items) if items else np.zeros((0, self._layout.depth, self._layout.frame_nbytes), np.uint8)

    def _geometry(self, strides: tuple[int, ...]) -> Geometry | None:
        if strides not in self._geometries:
            self._geometries[strides] = geometry(self._layout, self._item_shape, self._itemsize, strides)
        return self._geometries[strides]


class HostComparison:
    """Items on the host, beside the last ones of their lanes."""

    to_fetch = None  # nothing that the device would have to be waited for

    def __init__(self, items: Any, lanes: Ints, found: Geometry, layout: Layout, known: Lanes) -> None:
        self._items, self._lanes, self._geometry, self._layout, self._known = items, lanes, found, layout, known
        self._kernels = native("_stores.frames.kernels.new_frames_for_device")
        if self._kernels is not None:
            self._at = (
                native("_runtime.numba_tools").address_of(items),
                items.strides[0] if len(items) > 1 else 0,
                found.address,
            )

    def count_new(self, _: list[int] | None) -> Ints | None:
        """Returns how many frames of each item are new, or None if none of any is."""
        new = np.empty(len(self._lanes), np.int64)
        if self._kernels is not None:
            return new if self._kernels.count_new_frames(*self._at, self._lanes, self._known.address, new) else None
        before = {lane: self._known.item(lane) for lane in np.flatnonzero(self._known.table["last"]).tolist()}
        for i, lane in enumerate(self._lanes.tolist()):
            item = self._items[i : i + 1]
            old = before.get(lane)
            new[i] = self._layout.depth if old is None else count_new(self._divided(item), self._divided(old))
            before[lane] = item
        return new if new.any() else None

    def frames(self, which: Ints, device: torch.device) -> torch.Tensor:
        """Returns frames, counted over all items, on a device."""
        taken = np.empty((len(which), self._layout.frame_nbytes), np.uint8)
        if self._kernels is not None:
            self._kernels.take_frames(*self._at, which, native("_runtime.numba_tools").address_of(taken))
        else:
            for k, (item, index) in enumerate(zip(*np.divmod(which, self._layout.depth), strict=True)):
                taken[k] = self._divided(self._items[item : item + 1])[index]
        return torch.from_numpy(taken).to(device, non_blocking=True)

    def take_new_frames(self, new: Ints, taken: npt.NDArray[np.uint8], room: int) -> int:
        """Counts new frames into `new`, copies them to `taken`, item by item, and records the items, all in one call.

        Returns how many new frames there are. If there is no room for so many, it does nothing and returns their
        number as a negative one.
        """
        if self._kernels is not None:
            target = native("_runtime.numba_tools").address_of(taken)
            return int(self._kernels.take_new_frames(*self._at, self._lanes, self._known.address, new, target, room))
        self._items = self._items.copy("K")  # another thread may change them before they are looked at again
        found = self.count_new(None)
        new[:] = 0 if found is None else found
        total, depth = int(new.sum()), self._layout.depth
        if total > room:
            return -total
        each = [np.arange(depth - count, depth) + item * depth for item, count in enumerate(new)]
        taken[:total] = self.frames(np.concatenate(each), torch.device("cpu")).numpy()
        self.remember()
        return total

    def remember(self) -> None:
        """Records these items as the last ones of their lanes."""
        if self._kernels is not None:
            self._kernels.remember(*self._at, self._lanes, self._known.address)
            return
        for i, lane in enumerate(self._lanes.tolist()):
            kept = self._known.item(lane)
            kept[...] = np.ascontiguousarray(self._items[i : i + 1]).view(kept.dtype).reshape(kept.shape)
            self._known.table["last"][lane] = 1

    def _divided(self, item: Any) -> npt.NDArray[np.uint8]:
        return divided(byte_rows(item, 1), self._layout)


def as_array(items: torch.Tensor) -> npt.NDArray[Any]:
    """Returns a tensor of the host as an array of the same bits, without a copy if an element is 1, 2, 4 or 8 bytes."""
    whole = INTEGERS.get(items.dtype.itemsize)
    if whole is not None:
        return items.detach().view(whole).numpy()
    words = items.contiguous().view(torch.uint8).numpy()
    return words.reshape(-1).view(f"V{items.dtype.itemsize}").reshape(items.shape)
