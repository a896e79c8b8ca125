"""Lanes on a device: the streams of items that a store keeps apart, and what of an item is new in its stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from compressed_array._stores.frames.layouts import Layout
from compressed_array.torch._coders.base import LANE_KEY, LANE_ROW, LAST, PER_LANE, Batch, Coded, Ints, on_device
from compressed_array.torch._host_lanes import Array, HostItems, HostLook
from compressed_array.torch._pending import WaitingSteps
from compressed_array.torch._sync import storage_nbytes
from compressed_array.torch._values import as_tensor

# Of this many items all frames are compared with all at once, which takes two kernels instead of two for each shift.
FEW_ITEMS = 64
WIDEST = 8
# Batches of so many items mostly have new frames at the same places as some before them, which are remembered.
FEW_NEW_FRAMES, MOST_KNOWN_STEPS = 256, 32


@dataclass(eq=False)
class NewFrames:
    """Frames of a batch of items that their lanes did not show before.

    `frames` says where these are, lane by lane, in a list of all frames of all items; `lane` and `turn` whose each is
    and how many that lane got before it. The number of item i is that of new frame `last[i]`, or, at -1, the one that
    its lane has already.
    """

    frames: Ints
    lane: Ints
    turn: Ints
    last: Ints
    links: torch.Tensor | None = None  # what `Streams.take` looks up for frames that are rows for now


class Streams:
    """The last item of each lane, where it came from, and the numbers of frames that a lane knows."""

    def __init__(self, layout: Layout, item_shape: tuple[int, ...], itemsize: int, device: torch.device) -> None:
        self.layout, self.device = layout, device
        self._kind = layout, item_shape, itemsize
        self.numbers = self._none = torch.zeros((0, PER_LANE), dtype=torch.int64, device=device)
        self.is_begun = np.zeros(0, bool)
        self._host = HostItems(*self._kind)
        self.items: torch.Tensor | None = None  # on the device, once there were items from there
        self._blank = self.numbers.new_zeros(1)
        self._known_steps: dict[tuple[bytes, bytes], NewFrames] = {}

    @property
    def nbytes(self) -> int:
        links = (new_frames.links for new_frames in self._known_steps.values())
        parts = self.items, self.numbers, self._blank, *links
        return storage_nbytes(*(part for part in parts if part is not None))

    @property
    def count(self) -> int:
        return len(self.is_begun)

    def forget(self) -> None:
        """Know no lanes. This takes nothing from the device, which may have nothing left when it is called for."""
        host, is_begun = HostItems(*self._kind), np.zeros(0, bool)
        self._host, self.numbers, self.is_begun, self.items, self._known_steps = host, self._none, is_begun, None, {}

    def divided(self, items: torch.Tensor) -> torch.Tensor:
        """Items as (items, frames, bytes)."""
        n, layout = len(items), self.layout
        data = items.reshape(n, -1).contiguous().view(torch.uint8)
        if data.storage_offset() % WIDEST:
            data = data.clone()  # it could not be seen as words
        if layout.outer > 1 and layout.depth > 1:
            data = data.reshape(n, layout.outer, layout.depth, layout.inner).transpose(1, 2).contiguous()
        return data.reshape(n, layout.depth, layout.frame_nbytes)

    def joined(self, frames: torch.Tensor) -> torch.Tensor:
        """Items of bytes from (items, frames, bytes)."""
        n, layout = len(frames), self.layout
        whole = n, layout.depth * layout.frame_nbytes
        if layout.outer == 1 or layout.depth == 1:
            return frames.reshape(whole)
        return frames.reshape(n, layout.depth, layout.outer, layout.inner).transpose(1, 2).reshape(whole)

    def are_seen_on_host(self, items: torch.Tensor | Array) -> bool:
        """Whether it is seen there what is new in items: if they are there, and never were anywhere else."""
        return self.items is None and is_on_host(items)

    def look(self, items: torch.Tensor | Array, lanes: Ints) -> HostLook | DeviceLook:
        """See what is new in items."""
        self.grow(int(lanes.max()) + 1)
        if self.are_seen_on_host(items):
            # A copy: they are looked at again when they are taken and remembered, and another thread may change them.
            return self._host.look(items.clone() if isinstance(items, torch.Tensor) else items.copy("K"), lanes)
        items = as_tensor(items)
        if self.items is None:
            self.is_begun = self._host.are_begun(self.count)
            self.items = torch.from_numpy(self._host.last(self.count)).to(self.device, non_blocking=True)
        divided = self.divided(items.to(self.device, non_blocking=True))
        if divided.untyped_storage().data_ptr() == items.untyped_storage().data_ptr():
            divided = divided.clone()  # as above
        return DeviceLook(self, divided, lanes)

    def waiting(self, lanes: Ints, frames: int) -> WaitingSteps:
        """A place for steps from the host, with so many new frames."""
        return WaitingSteps(self._host, lanes, self.layout.depth, self.layout.frame_nbytes, frames)

    def new_frames(self, new: Ints, lanes: Ints) -> NewFrames:
        """What a batch has that is new, by how many frames of each item are."""
        if len(new) > FEW_NEW_FRAMES:
            return self._find_new_frames(new, lanes)
        key = new.tobytes(), lanes.tobytes()
        found = self._known_steps.get(key)
        if found is None:
            if len(self._known_steps) >= MOST_KNOWN_STEPS:
                self._known_steps.clear()
            found = self._known_steps[key] = self._find_new_frames(new, lanes)
        return found

    def _find_new_frames(self, new: Ints, lanes: Ints) -> NewFrames:
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
        turn = np.arange(len(item)) - np.repeat(of_lane, count)
        return NewFrames(item * depth + (depth - new[item]) + within, lanes[item], turn, last)

    def take(
        self, batch: Batch, coded: Coded | None, new_frames: NewFrames, lanes: Ints, numbers: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Give new frames their numbers: their links to others, as numbers, and the numbers of the items.

        Without `coded`, frames are rows for now, and lanes do not know them yet.
        """
        links = None if coded is not None else new_frames.links
        if links is None:
            links = on_device(self._links(batch, coded, new_frames, lanes), self.device)
        if coded is None:
            new_frames.links = links
        known = torch.cat([self._blank, self.numbers.view(-1), numbers])
        found = known.index_select(0, links)
        first = PER_LANE * len(batch.lane)
        second = first + len(lanes)
        self.numbers = found[second:].view(-1, PER_LANE)
        self.is_begun[lanes] = True
        return found[:first].view(-1, PER_LANE), found[first:second]

    def renumber(self, batch: Batch, coded: Coded, numbers: torch.Tensor) -> torch.Tensor:
        """Links of frames that were staged to their rows and keys, as numbers; lanes know them from now on."""
        links = np.column_stack([coded.row_of, coded.key])
        of_lanes = np.column_stack([coded.lane_row, coded.lane_key])
        known = torch.cat([self._blank, self.numbers.view(-1), numbers])
        found = known.index_select(0, on_device(np.concatenate([links.reshape(-1), of_lanes.reshape(-1)]), self.device))
        self.numbers = torch.cat([self.numbers[:, :1], found[links.size :].view(-1, 2)], 1)
        return found[: links.size].view(-1, 2)

    def _links(self, batch: Batch, coded: Coded | None, new_frames: NewFrames, lanes: Ints) -> Ints:
        """Links of new frames, of items, and of lanes."""
        each, every = np.arange(len(batch.lane)), np.arange(self.count)
        before = np.where(batch.turn == 0, batch.lane_link(batch.lane, LAST), batch.own_link(each - 1))
        row_of, key = (batch.own_link(each), 0 * each) if coded is None else (coded.row_of, coded.key)
        of_items = np.where(new_frames.last < 0, batch.lane_link(lanes, LAST), batch.own_link(new_frames.last))
        of_lanes = batch.lane_link(every[:, None], np.arange(PER_LANE))
        of_lanes[lanes, LAST] = of_items  # of several items of a lane the last
        if coded is not None:
            of_lanes[:, LANE_ROW], of_lanes[:, LANE_KEY] = coded.lane_row, coded.lane_key
        return np.concatenate([np.column_stack([before, row_of, key]).reshape(-1), of_items, of_lanes.reshape(-1)])

    def grow(self, count: int) -> None:
        """See to it that there are so many lanes."""
        more = count - self.count
        if more > 0:
            numbers = torch.cat([self.numbers, self.numbers.new_zeros((more, PER_LANE))])
            is_begun = np.concatenate([self.is_begun, np.zeros(more, bool)])
            items = self.items
            if items is not None:
                items = torch.cat([items, items.new_zeros((more, *items.shape[1:]))])
            # At once, for the sake of interrupts; what is known of steps goes, since it counts lanes.
            self.numbers, self.is_begun, self.items, self._known_steps = numbers, is_begun, items, {}


class DeviceLook:
    """What was seen of some items on the device. It is asked for with other things, as `asks`."""

    def __init__(self, streams: Streams, items: torch.Tensor, lanes: Ints) -> None:
        self._streams, self._items, self._lanes = streams, items, lanes
        after, before = words(items), words(self._before())
        depth = streams.layout.depth
        if len(items) <= FEW_ITEMS:
            self.asks = (after[:, :, None] != before[:, None]).any(3)
        else:
            differs = [(after[:, : depth - k] != before[:, k:]).flatten(1).any(1) for k in range(depth)]
            self.asks = torch.stack(differs, 1)

    def new(self, answer: list[int]) -> Ints | None:
        """How many frames of each item are new; None if none of any is."""
        depth, n = self._streams.layout.depth, len(self._lanes)
        differs = np.array(answer, bool)
        if n <= FEW_ITEMS:
            each = differs.reshape(n, depth, depth)
            differs = np.stack([each.diagonal(new, 1, 2).any(1) for new in range(depth)], 1)
        new: Ints = np.argmax(np.column_stack([~differs.reshape(n, depth), np.ones(n, bool)]), 1)
        lanes, first = np.unique(self._lanes, return_index=True)
        new[first[~self._streams.is_begun[lanes]]] = depth
        return new if new.any() else None

    def frames(self, which: Ints, device: torch.device) -> torch.Tensor:
        """Frames, counted over all items."""
        return self._items.reshape(-1, self._items.shape[2]).index_select(0, on_device(which, device))

    def remember(self) -> None:
        """Take these items for the last of their lanes."""
        known = self._streams.items
        assert known is not None
        last = np.full(len(known), -1)
        last[self._lanes] = np.arange(len(self._lanes))
        has = np.flatnonzero(last >= 0)
        known[on_device(has, known.device)] = self._items.index_select(0, on_device(last[has], known.device))

    def _before(self) -> torch.Tensor:
        """For each item the one before it in its lane."""
        known, lanes = self._streams.items, self._lanes
        assert known is not None
        order = np.argsort(lanes, kind="stable")
        follows = np.append(False, lanes[order][1:] == lanes[order][:-1])
        at = np.empty(len(lanes), np.int64)
        at[order] = np.where(follows, len(known) + np.append(0, order[:-1]), lanes[order])
        return torch.cat([known, self._items]).index_select(0, on_device(at, known.device))


def is_on_host(items: torch.Tensor | Array) -> bool:
    """Whether the host sees items without waiting for a device."""
    return isinstance(items, np.ndarray) or items.device.type == "cpu"


def words(frames: torch.Tensor) -> torch.Tensor:
    """Frames of bytes in the widest integers that they divide into: fewer to compare."""
    nbytes = frames.shape[-1]
    for width, dtype in ((8, torch.int64), (4, torch.int32), (2, torch.int16)):
        if nbytes % width == 0:
            return frames.view(dtype)
    return frames
