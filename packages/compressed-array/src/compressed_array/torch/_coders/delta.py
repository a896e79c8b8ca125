"""`DeltaCoder` ("delta"): frames as what differs from a frame that is stored already.

Changes that build on changes would have to be made one after the other. Here a frame takes two steps at the most,
whatever came before: from a row to a key, and from the key to the frame.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.torch._coders.base import (
    AT_ONCE,
    BLANK,
    LANE_KEY,
    LANE_ROW,
    Batch,
    Coded,
    marked,
)
from compressed_array.torch._coders.runs import RowCoder
from compressed_array.torch._frame_table import KEY, ROW_OF, FrameTable
from compressed_array.torch._sync import Ints, fetch, on_device, storage_nbytes

WORD = 8
# The base of a frame, as changes from which it is stored: its lane's key frame, the first frame of its stretch, the
# lane's row, a blank frame; or none, as it is a row by itself.
FROM_KEY, FROM_HEAD, FROM_ROW, FROM_NOTHING, AS_ROW = range(5)
BASES = 4
KEY_EVERY = 16  # frames, at the least: as many of a lane as make a stretch
STAGED_BYTES = 1024 * 1024
NEVER = 1 << 40
Bools = npt.NDArray[np.bool_]


class DeltaCoder(RowCoder):
    """Stores key frames as changes from the lane's full row, and other frames as changes from the key frame.

    A lane gets a new key, or a new row, when frames differ so much from the old one that this takes less memory.
    """

    _has_key: Bools
    _has_row: Bools
    _key_is_blank: Bools

    def __init__(self, frame_nbytes: int, device: torch.device, heap_bytes: int | None) -> None:
        super().__init__(frame_nbytes, WORD, device, heap_bytes)
        self._nothing = torch.zeros((1, self.width), dtype=self.element, device=device)
        self._none = self._nothing[:0]
        self.forget_lanes()

    def forget_lanes(self) -> None:
        # Nothing is taken from the device, which may have nothing left when this is called for; and all is set at once,
        # for the sake of interrupts: what the key of each lane shows, and its row; which of the two it has; whether the
        # key builds on nothing; of keys since the last row the fewest changes, and how many came on top.
        marks, counts = np.zeros(0, bool), np.zeros(0, np.int64)
        self._keys, self._lane_rows, self._least, self._excess = self._none, self._none, counts, counts
        self._has_key, self._has_row, self._key_is_blank = marks, marks, marks

    @property
    def nbytes(self) -> int:
        return storage_nbytes(self._keys, self._lane_rows, self._nothing)

    def stage_size(self, lanes: int) -> int:
        # On the stage frames are rows. With a limited heap there is none, as its memory might be missed elsewhere.
        return 0 if self.rows.heap_bytes is not None else min(STAGED_BYTES // (self.width * WORD), KEY_EVERY * lanes)

    def stage_room(self, lanes: int) -> int:
        return self.rows.room_to_stage(self.stage_size(lanes))

    def stage(self, frames: torch.Tensor, lanes: int) -> int | None:
        most = self.stage_size(lanes)
        return self.rows.stage([self.elements(frames)], most) if len(frames) <= most else None

    def staged(self) -> torch.Tensor:
        return self.bytes_of(self.rows.staged()[0])

    def clear_stage(self, keep: int = 0) -> None:
        self.rows.clear_stage(keep)

    def drop_stage(self) -> None:
        self.rows.drop_stage()

    def encode(self, batch: Batch) -> Coded:
        self._grow(batch.lanes)
        elements = self.elements(batch.frames)
        lane, each = batch.lane, np.arange(len(batch.lane))
        head = stretch_heads(lane, batch.nth)
        count, differ = self._compare(elements, lane, head)
        choice = self._choose(count, lane, head)
        length = count[each, np.minimum(choice, FROM_NOTHING)]
        length[choice == AS_ROW] = 0
        patches = self._collect_patches(elements, lane, head, choice, length, differ)
        row, start = self._append(elements, np.flatnonzero(choice == AS_ROW), patches, length)

        own, of_lane = batch.own_link(each), batch.lane_link(lane, LANE_ROW)
        row_of = np.select([choice == AS_ROW, choice == FROM_ROW, choice == FROM_NOTHING], [own, of_lane, BLANK], -1)
        from_lane, from_head = choice == FROM_KEY, choice == FROM_HEAD
        row_of[from_lane] = np.where(self._key_is_blank[lane], BLANK, of_lane)[from_lane]
        row_of[from_head] = row_of[head[from_head]]
        key = np.full(len(lane), BLANK)
        key[from_lane] = batch.lane_link(lane[from_lane], LANE_KEY)
        key[from_head] = own[head[from_head]]
        lane_row, lane_key = self._update_lanes(batch, elements, count, choice, head)
        return Coded(row_of, key, start, length, row, lane_row, lane_key)

    def decode(self, table: FrameTable, frames: torch.Tensor) -> torch.Tensor:
        words = table.words.index_select(0, frames)
        return self.bytes_of(self.patched_rows(table, words[:, ROW_OF], [words[:, KEY], frames]))

    def _grow(self, lanes: int) -> None:
        more = lanes - len(self._has_key)
        if more > 0:
            fresh = torch.zeros((more, self.width), dtype=self.element, device=self.device)
            self._keys, self._lane_rows = torch.cat([self._keys, fresh]), torch.cat([self._lane_rows, fresh])
            self._has_key, self._has_row, self._key_is_blank = (
                np.concatenate([marks, np.zeros(more, bool)])
                for marks in (self._has_key, self._has_row, self._key_is_blank)
            )
            self._least = np.concatenate([self._least, np.full(more, NEVER)])
            self._excess = np.concatenate([self._excess, np.zeros(more, np.int64)])

    def _chunks(self, count: int) -> list[slice]:
        step = max(AT_ONCE // (BASES * self.width), 1)
        return [slice(low, min(low + step, count)) for low in range(0, count, step)]

    def _compare(self, elements: torch.Tensor, lane: Ints, head: Ints) -> tuple[Ints, torch.Tensor | None]:
        """Returns in how many elements each frame differs from each base, `NEVER` where there is no such base.

        Returns also which elements these are, base by base, if there are few frames.
        """
        counts, differ = [], None
        for part in self._chunks(len(lane)):
            differ = self._differ(elements, lane, head, part)
            counts.append(differ.sum(2, dtype=torch.int32))
        (fetched,) = fetch(torch.cat(counts, 1) if len(counts) > 1 else counts[0])
        count = np.ascontiguousarray(np.array(fetched).reshape(BASES, -1).T)
        count[~self._has_key[lane], FROM_KEY] = NEVER
        count[head == np.arange(len(head)), FROM_HEAD] = NEVER
        count[~self._has_row[lane], FROM_ROW] = NEVER
        return count, differ if len(counts) == 1 else None

    def _differ(self, elements: torch.Tensor, lane: Ints, head: Ints, part: slice) -> torch.Tensor:
        """Returns where the frames of a part differ from each base."""
        at = on_device(lane[part], self.device)
        first = elements.index_select(0, on_device(head[part], self.device))
        bases = self._keys.index_select(0, at), first, self._lane_rows.index_select(0, at), self._nothing
        return torch.stack([elements[part] != base for base in bases])

    def _choose(self, count: Ints, lane: Ints, head: Ints) -> Ints:
        """Returns the base of each frame.

        All frames of a stretch have the lane's key, or all the stretch's head, but those that are smaller otherwise.
        """
        whole = self.width * WORD // self.patches.row_nbytes  # changes that cost as much as a row
        is_head = head == np.arange(len(head))
        stretch = (np.cumsum(is_head) - 1)[head]
        alone = np.where(count[:, FROM_ROW] <= count[:, FROM_NOTHING], FROM_ROW, FROM_NOTHING)
        fewest = np.minimum(count[:, FROM_ROW : FROM_NOTHING + 1].min(1), whole)
        cost = np.minimum(count[:, : FROM_HEAD + 1], fewest[:, None])
        sums = np.zeros((np.count_nonzero(is_head), 2), np.int64)
        np.add.at(sums, stretch, cost)
        base = np.where(sums[:, 1] < sums[:, 0], FROM_HEAD, FROM_KEY)[stretch]
        choice = np.where(count[np.arange(len(head)), base] <= fewest, base, alone)
        changes = np.minimum(count[np.arange(len(head)), choice], NEVER)
        # A row also pays where keys have come to need many changes.
        paid = (
            is_head
            & (choice == FROM_ROW)
            & (self._excess[lane] + changes - np.minimum(changes, self._least[lane]) > whole)
        )
        return np.where((changes >= whole) | paid, AS_ROW, choice)

    def _collect_patches(
        self,
        elements: torch.Tensor,
        lane: Ints,
        head: Ints,
        choice: Ints,
        length: Ints,
        differ: torch.Tensor | None,
    ) -> list[list[torch.Tensor]]:
        """Returns the patches that make each frame of the base that was chosen for it, in parts of two columns."""
        if not length.any():
            return []
        lanes, each = len(self._has_key), np.arange(len(lane))
        if differ is not None and not (choice == AS_ROW).any():
            mask = differ.view(-1, self.width).index_select(0, on_device(choice * len(lane) + each, self.device))
            return [marked(mask, elements, int(length.sum()), self.positions)]
        # All that a frame may be told from, in one list. One that is a row by itself does not differ from itself.
        known = torch.cat([self._keys, self._lane_rows, self._nothing, elements])
        own = 2 * lanes + 1
        at = np.select(
            [choice == FROM_KEY, choice == FROM_ROW, choice == FROM_NOTHING, choice == FROM_HEAD],
            [lane, lanes + lane, 2 * lanes, own + head],
            own + each,
        )
        patches = []
        for part in self._chunks(len(lane)):
            total = int(length[part].sum())
            if total:
                mask = elements[part] != known.index_select(0, on_device(at[part], self.device))
                patches.append(marked(mask, elements[part], total, self.positions))
        return patches

    def _update_lanes(
        self, batch: Batch, elements: torch.Tensor, count: Ints, choice: Ints, head: Ints
    ) -> tuple[Ints, Ints]:
        """Sets the newest key and row of each lane. Returns the links of lanes to both."""
        lanes = np.arange(batch.lanes)
        links = batch.lane_link(lanes, LANE_ROW), batch.lane_link(lanes, LANE_KEY)
        is_key = np.zeros(len(choice), bool)
        is_key[head[choice == FROM_HEAD]] = True
        is_key |= (choice == AS_ROW) | (
            (choice != FROM_KEY) & ~self._has_key[batch.lane] & (head == np.arange(len(head)))
        )
        if not is_key.any():
            return links
        newest = np.full(batch.lanes, -1)
        newest[batch.lane[is_key]] = np.flatnonzero(is_key)
        lanes = np.flatnonzero(newest >= 0)
        frames = newest[lanes]
        is_row = choice[frames] == AS_ROW
        shown = elements.index_select(0, on_device(frames, self.device))
        self._keys[on_device(lanes, self.device)] = shown
        self._has_key[lanes] = True
        self._key_is_blank[lanes] = choice[frames] == FROM_NOTHING
        self._least[lanes] = least = np.minimum(
            self._least[lanes], np.where(choice[frames] == FROM_ROW, count[frames, FROM_ROW], NEVER)
        )
        self._excess[lanes] += np.where(choice[frames] == FROM_ROW, count[frames, FROM_ROW] - least, 0)
        if is_row.any():
            at = on_device(np.flatnonzero(is_row), self.device)
            self._lane_rows[on_device(lanes[is_row], self.device)] = shown.index_select(0, at)
            self._has_row[lanes[is_row]] = True
            self._least[lanes[is_row]], self._excess[lanes[is_row]] = NEVER, 0
        is_new = newest >= 0
        new_row = is_new & (choice[newest] == AS_ROW)
        return (
            np.where(new_row, batch.own_link(newest), links[0]),
            np.where(is_new, batch.own_link(newest), links[1]),
        )


def stretch_heads(lane: Ints, nth: Ints) -> Ints:
    """Returns for each frame the first of its stretch: up to `KEY_EVERY` frames of a lane that have the same key."""
    order, each = np.argsort(lane, kind="stable"), np.arange(len(lane))
    first = np.maximum.accumulate(np.where(nth[order] % KEY_EVERY == 0, each, 0))
    head = np.empty_like(each)
    head[order] = order[first]
    return head
