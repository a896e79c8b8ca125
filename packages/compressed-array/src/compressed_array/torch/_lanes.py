"""`DeviceLanes`: the lanes of a store on a device, and which frames of an item are new in its lane.

A lane is a stream of items that follow each other in time. It knows three frames by number: the last one, and those
that a coder builds on, its row and its key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array.torch._coders.base import LANE_KEY, LANE_ROW, LAST, PER_LANE, Batch, Coded
from compressed_array.torch._comparison import ComparedItems, DeviceComparison
from compressed_array.torch._frame_table import KEY, PREVIOUS, ROW_OF, side_by_side
from compressed_array.torch._host_lanes import HostLanes
from compressed_array.torch._pending import PendingSteps
from compressed_array.torch._sync import Array, Ints, on_device, storage_nbytes
from compressed_array.torch._values import as_tensor

WIDEST = 8
# Batches of so many items mostly have new frames at the same places as some before them, which are remembered.
FEW_NEW_FRAMES, MOST_KNOWN_BATCHES = 256, 32


@dataclass(eq=False)
class NewFrames:
    """Frames of a batch of items that their lanes did not show before.

    `frames` are their places, lane by lane, in a list of the frames of all items. `lane` is that of each, and `nth`
    how many new frames that lane got before it. Item i ends with the new frame `last[i]`; -1 stands for the last frame
    that its lane has already.
    """

    frames: Ints
    lane: Ints
    nth: Ints
    last: Ints
    links: torch.Tensor | None = None  # what `link_frames` looks up for staged frames


class DeviceLanes:
    """The last item of each lane, on the host or the device, and the numbers of the frames that a lane knows."""

    def __init__(self, layout: Layout, item_shape: tuple[int, ...], itemsize: int, device: torch.device) -> None:
        self.layout, self.device = layout, device
        self._kind = layout, item_shape, itemsize
        self.numbers = self._none = torch.zeros((0, PER_LANE), dtype=torch.int64, device=device)
        self.is_begun = np.zeros(0, bool)
        self._host_lanes = HostLanes(*self._kind)
        self.items: torch.Tensor | None = None  # on the device, once there were items from there
        self._blank = self.numbers.new_zeros(1)
        self._known_batches: dict[tuple[bytes, bytes], NewFrames] = {}

    @property
    def nbytes(self) -> int:
        """The memory that this takes on the device."""
        links = (new_frames.links for new_frames in self._known_batches.values())
        parts = self.items, self.numbers, self._blank, *links
        return storage_nbytes(*(part for part in parts if part is not None))

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return len(self.is_begun)

    def forget(self) -> None:
        """Forgets all lanes. This takes nothing from the device, which may have nothing left when it is called for."""
        host, is_begun = HostLanes(*self._kind), np.zeros(0, bool)
        self._host_lanes, self.numbers, self.is_begun, self.items, self._known_batches = (
            host,
            self._none,
            is_begun,
            None,
            {},
        )

    def divide(self, items: torch.Tensor) -> torch.Tensor:
        """Returns items as a tensor of the shape (items, frames, bytes)."""
        n, layout = len(items), self.layout
        data = items.reshape(n, -1).contiguous().view(torch.uint8)
        if data.storage_offset() % WIDEST:
            data = data.clone()  # it could not be seen as words
        if layout.outer > 1 and layout.depth > 1:
            data = data.reshape(n, layout.outer, layout.depth, layout.inner).transpose(1, 2).contiguous()
        return data.reshape(n, layout.depth, layout.frame_nbytes)

    def join(self, frames: torch.Tensor) -> torch.Tensor:
        """Returns items as rows of bytes, from a tensor of the shape (items, frames, bytes)."""
        n, layout = len(frames), self.layout
        whole = n, layout.depth * layout.frame_nbytes
        if layout.outer == 1 or layout.depth == 1:
            return frames.reshape(whole)
        return frames.reshape(n, layout.depth, layout.outer, layout.inner).transpose(1, 2).reshape(whole)

    def are_compared_on_host(self, items: torch.Tensor | Array) -> bool:
        """Whether items are compared on the host: if they are there, and so were all items before them."""
        return self.items is None and is_on_host(items)

    def compare(self, items: torch.Tensor | Array, lanes: Ints) -> ComparedItems:
        """Returns a copy of items, beside the last ones of their lanes, on the host or the device."""
        self.ensure(int(lanes.max()) + 1)
        if self.are_compared_on_host(items):
            # A copy: they are looked at again when they are taken and remembered, and another thread may change them.
            return self._host_lanes.compare(
                items.clone() if isinstance(items, torch.Tensor) else items.copy("K"), lanes
            )
        items = as_tensor(items)
        if self.items is None:
            self.is_begun = self._host_lanes.are_begun(self.count)
            self.items = torch.from_numpy(self._host_lanes.last(self.count)).to(self.device, non_blocking=True)
        divided = self.divide(items.to(self.device, non_blocking=True))
        if divided.untyped_storage().data_ptr() == items.untyped_storage().data_ptr():
            divided = divided.clone()  # as above
        return DeviceComparison(self, divided, lanes)

    def new_pending_steps(self, lanes: Ints, frames: int) -> PendingSteps:
        """Returns a place for steps from the host, with room for so many new frames."""
        return PendingSteps(self._host_lanes, lanes, self.layout.depth, self.layout.frame_nbytes, frames)

    def locate_new_frames(self, new: Ints, lanes: Ints) -> NewFrames:
        """Returns where the new frames of a batch are, given how many each item has."""
        if len(new) > FEW_NEW_FRAMES:
            return self._locate_new_frames(new, lanes)
        key = new.tobytes(), lanes.tobytes()
        found = self._known_batches.get(key)
        if found is None:
            if len(self._known_batches) >= MOST_KNOWN_BATCHES:
                self._known_batches.clear()
            found = self._known_batches[key] = self._locate_new_frames(new, lanes)
        return found

    def _locate_new_frames(self, new: Ints, lanes: Ints) -> NewFrames:
        depth, n = self.layout.depth, len(lanes)
        order = np.arange(n) if n < 2 or (lanes[1:] > lanes[:-1]).all() else np.argsort(lanes, kind="stable")
        by_lane, count = lanes[order], new[order]
        is_first = np.append(True, by_lane[1:] != by_lane[:-1])
        ends = np.cumsum(count)
        begins = ends - count
        item = np.repeat(order, count)
        within = np.arange(len(item)) - np.repeat(begins, count)
        of_lane = np.maximum.accumulate(np.where(is_first, begins, 0))  # new frames before this lane's first
        last = np.empty(n, np.int64)
        last[order] = np.where(ends > of_lane, ends - 1, -1)
        nth = np.arange(len(item)) - np.repeat(of_lane, count)
        return NewFrames(item * depth + (depth - new[item]) + within, lanes[item], nth, last)

    def link_frames(
        self, batch: Batch, coded: Coded | None, new_frames: NewFrames, lanes: Ints, numbers: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Lets lanes know their last frames. Returns the columns `LINKS` of new frames, and the numbers of the items.

        Args:
            coded: What the coder made of the frames; None if they are staged, so that lanes keep their rows and keys.
            numbers: The numbers of the new frames.
        """
        links = None if coded is not None else new_frames.links
        if links is None:
            links = on_device(self._links(batch, coded, new_frames, lanes), self.device)
        if coded is None:
            new_frames.links = links
        known = torch.cat([self._blank, self.numbers.view(-1), numbers])
        found, items, kept = known.index_select(0, links), len(lanes), self.numbers.numel()
        of_frames, of_items, of_lanes = torch.split(found, [len(found) - items - kept, items, kept])
        self.numbers = of_lanes.view(-1, PER_LANE)
        self.is_begun[lanes] = True
        return of_frames.view(len(batch.lane), -1), of_items

    def relink_staged(self, batch: Batch, coded: Coded, numbers: torch.Tensor) -> torch.Tensor:
        """Lets lanes know the rows and keys of frames that were staged. Returns the columns `BUILDS_ON` of these."""
        links = side_by_side({ROW_OF: coded.row_of, KEY: coded.key}, len(coded.key))
        of_lanes = self._lane_links(batch, coded)
        known = torch.cat([self._blank, self.numbers.view(-1), numbers])
        found = known.index_select(0, on_device(np.concatenate([links.reshape(-1), of_lanes.reshape(-1)]), self.device))
        self.numbers = found[links.size :].view(-1, PER_LANE)
        return found[: links.size].view(links.shape)

    def _links(self, batch: Batch, coded: Coded | None, new_frames: NewFrames, lanes: Ints) -> Ints:
        """Returns the links of new frames, of items, and of lanes, one after the other."""
        each = np.arange(len(batch.lane))
        previous = np.where(batch.nth == 0, batch.lane_link(batch.lane, LAST), batch.own_link(each - 1))
        row_of, key = (batch.own_link(each), 0 * each) if coded is None else (coded.row_of, coded.key)
        of_items = np.where(new_frames.last < 0, batch.lane_link(lanes, LAST), batch.own_link(new_frames.last))
        of_frames = side_by_side({PREVIOUS: previous, ROW_OF: row_of, KEY: key}, len(each))
        of_lanes = self._lane_links(batch, coded)
        of_lanes[lanes, LAST] = of_items  # of several items of a lane the last
        return np.concatenate([of_frames.reshape(-1), of_items, of_lanes.reshape(-1)])

    def _lane_links(self, batch: Batch, coded: Coded | None) -> Ints:
        """Returns the links of each lane: those that it has, but for the rows and keys that a coder gives it."""
        links = batch.lane_link(np.arange(self.count)[:, None], np.arange(PER_LANE))
        if coded is not None:
            links[:, LANE_ROW], links[:, LANE_KEY] = coded.lane_row, coded.lane_key
        return links

    def ensure(self, count: int) -> None:
        """Adds lanes until there are `count`."""
        more = count - self.count
        if more > 0:
            numbers = torch.cat([self.numbers, self.numbers.new_zeros((more, PER_LANE))])
            is_begun = np.concatenate([self.is_begun, np.zeros(more, bool)])
            items = self.items
            if items is not None:
                items = torch.cat([items, items.new_zeros((more, *items.shape[1:]))])
            # At once, for the sake of interrupts; what is known of batches goes, since it counts lanes.
            self.numbers, self.is_begun, self.items, self._known_batches = numbers, is_begun, items, {}


def is_on_host(items: torch.Tensor | Array) -> bool:
    """Whether the host can read items without waiting for a device."""
    return isinstance(items, np.ndarray) or items.device.type == "cpu"
