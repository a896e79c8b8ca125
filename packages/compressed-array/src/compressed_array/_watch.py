"""`Watch`: how a store's next groups are written, decided by looking at the last ones.

A look decodes some frames that were just stored. From them comes the reference that a group's first frame is coded
against, and for "auto" the choice between changes, zstd and plain frames.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._epochs import Epochs
from compressed_array._frames import SMALL_FRAME, Bytes, Frames
from compressed_array._groups import ITEMS, LISTED, SLOTS
from compressed_array._lanes import DELTA, GROUP_OF, INTRA, ROOM, ROWS
from compressed_array._memory import map_memory
from compressed_array._packing import FEWEST_SAMPLES, MOST_SAMPLES, Packing
from compressed_array._payloads import Payloads
from compressed_array.codecs.delta import Delta, DeltaZstd, encode_changes
from compressed_array.codecs.none import Raw
from compressed_array.codecs.zstd import Zstd
from compressed_array.registry import has_zstd

FIRST_LOOK, LAST_INTERVAL = 128, 16384  # in frames
MANY_FRAMES = 128  # in groups that are full: enough to do something about them
ONE_IN, FEWEST_FULL = 64, 4  # of groups of small frames, one in so many, from so few up to as many
SOON, MUCH = 1024, 2  # one looks early if so many frames take so many times as many bytes as usual
SAMPLES, RECENT, CHOOSE_FROM = 33, 64, 128  # frames out of that many groups; the last frames
CLEARLY, NEARLY = 0.9, 0.99
INCOMPRESSIBLE = 0.95
# In the order of their speed: a level is chosen if it takes clearly less space than those before, and one of the slow
# ones only for frames that are simple, where it is not slow.
ZSTD_LEVELS, SLOW_LEVEL, SIMPLE = (-3, 3, 9), 9, 1 / 32
# What a group of changes should come to, which bounds the walk to a frame in it; through zstd, which begins anew with
# every group, larger ones shrink more.
GROUP_BYTES, PACKED_GROUP_BYTES, FEWEST_FRAMES = 3 * 1024, 6 * 1024, 8
# With two arrays on the store, items bring half of that on average: with a short stack, no more than others do.
LOST_STACK, SHORTEST_SURE_STACK = 0.4, 4
# As long as this share of all frames is needed, groups die in the order they were written in, or nearly so.
STILL_ORDERED, ORDERED_AGAIN = 0.7, 0.9


class Watch:
    """Watches the groups of one store."""

    def __init__(self, frames: Frames, epochs: Epochs, codec: Any) -> None:
        self._frames, self._epochs = frames, epochs
        self.choice = codec
        self._is_auto = isinstance(codec, str)
        self._delta = Delta() if self._is_auto else codec
        self.packing = Packing(frames, epochs) if isinstance(codec, DeltaZstd) else None
        self._levels = [Zstd(level) for level in ZSTD_LEVELS] if has_zstd() and self.packing is None else []
        if self._levels:
            frames.intra, frames.decoder = self._levels[0], self._levels[0]
        self.start_over()

    def start_over(self) -> None:
        """Take up watching frames of another size."""
        self._seen, self._next, self._unlearnt = 0, FIRST_LOOK, 0
        self._recent: deque[int] = deque(maxlen=MOST_SAMPLES)
        self._usual = 0.0  # bytes a frame took before the last look
        self._lately = 0, 0  # frames, and their bytes, of which the next are not seen yet
        self._in_order, self._length = True, self._delta.level or FEWEST_FRAMES
        self._new_frames, self._new_bytes, self.lost_stack = 0, 0, False
        self._items_before = int(self._frames.groups.counts[ITEMS])
        self._frames.worth_zstd = self._frames.layout.frame_nbytes // 64
        self._write_as(DELTA)

    @property
    def codec(self) -> Any:
        """What the next group's frames are written with."""
        if not self._is_auto:
            return self.choice
        return {DELTA: self._delta, INTRA: self._frames.intra, ROWS: Raw()}[self._frames.mode]

    def seen(self, groups: npt.NDArray[np.int64], engine: Any) -> None:
        """Take note of groups that are full, and look at some of the last if it is time."""
        table = self._frames.groups.table
        frames = int(table["count"][groups].sum())
        self._recent.extend(groups.tolist())
        self._unlearnt += len(groups)
        self._seen += frames
        self._new_frames += frames
        nbytes = int(table["size"][groups].sum())
        self._new_bytes += nbytes
        self._lately = self._lately[0] + frames, self._lately[1] + nbytes
        is_time = self._seen >= self._next
        if is_time:
            self._next += min(self._next, LAST_INTERVAL)
        if self._have_grown() or is_time:
            self._usual = self._new_bytes / max(self._new_frames, 1)
            self._look(engine)
        if self.packing is not None and self._frames.mode != ROWS and self._unlearnt >= FEWEST_SAMPLES:
            self._unlearnt = 0
            self.packing.learn(self._living())

    def _have_grown(self) -> bool:
        """Whether the last frames, enough of them to say, take much more than those before."""
        frames, nbytes = self._lately
        if frames < SOON:
            return False
        self._lately = 0, 0
        return nbytes > MUCH * self._usual * frames

    def _write_as(self, mode: int) -> None:
        frames = self._frames
        self._mode = mode
        is_small = frames.layout.frame_nbytes < SMALL_FRAME
        frames.mode = ROWS if is_small else mode
        longest = SLOTS if is_small else self._length
        frames.capacity = max(longest if self._in_order else 1, frames.layout.depth)
        if is_small:
            alive = int(np.count_nonzero(frames.groups.table["references"]))
            frames.many_full = min(max(alive // ONE_IN, FEWEST_FULL), ONE_IN)
        else:
            few = -(-MANY_FRAMES // frames.capacity)
            # Little is done about frames left as they are.
            frames.many_full = min(4 * few, LISTED // 2) if frames.mode == ROWS else few
        most = frames.capacity * (frames.layout.frame_nbytes + ROOM)
        frames.most_unpacked = max(frames.most_unpacked, most)

    def _look(self, engine: Any) -> None:
        self._see_size()
        self._see_order()
        self._see_stack()
        groups = self._living()
        if len(groups) < 2 or self._frames.layout.frame_nbytes < SMALL_FRAME:
            return
        last = groups[-RECENT:]
        spread = last[np.linspace(0, len(last) - 1, min(len(last), SAMPLES)).astype(np.intp)]
        if self._mode == DELTA:
            self._find_reference(self._decode(engine, spread * SLOTS + 1))
        if self._frames.intra is not None or self._is_auto:
            self._choose(engine, last)

    def _see_size(self) -> None:
        """Let groups have so many frames that they come to the size they should have."""
        nbytes, self._new_bytes = self._new_bytes, 0
        if self._delta.level is None:
            wanted = GROUP_BYTES if self.packing is None else PACKED_GROUP_BYTES
            frames = wanted * self._new_frames // max(nbytes, 1)
            self._length = min(max(frames, FEWEST_FRAMES), SLOTS)

    def _see_order(self) -> None:
        """A group is freed as a whole, so frames that die in any order had better have one each: change to that."""
        table = self._frames.groups.table
        frames, needed = int(table["count"][table["references"] > 0].sum()), int(table["references"].sum())
        # In order, too, each lane's oldest group is needed in part, and its newest not full.
        in_part = 2 * self._frames.capacity * int(np.count_nonzero(self._frames.lanes.words[:, GROUP_OF]))
        enough = STILL_ORDERED if self._in_order else ORDERED_AGAIN
        self._in_order = self._frames.layout.depth > 1 or needed >= enough * (frames - in_part)
        self._write_as(self._mode)

    def _see_stack(self) -> None:
        """Items of a stack bring a frame or two; if most of them bring all of theirs, they are none."""
        written = int(self._frames.groups.counts[ITEMS])
        new, items = self._new_frames, written - self._items_before
        self._new_frames, self._items_before = 0, written
        depth = self._frames.layout.depth
        self.lost_stack = depth >= SHORTEST_SURE_STACK and new > LOST_STACK * depth * items

    def _living(self) -> npt.NDArray[np.int64]:
        table = self._frames.groups.table
        # Once each, though a ring gives numbers out again, and the last ones last.
        recent = np.array(list(dict.fromkeys(reversed(self._recent)))[::-1], np.int64)
        alive = (table["references"][recent] > 0) & (table["layout"][recent] == self._frames.layout_number)
        return np.asarray(recent[alive & (table["count"][recent] > 0)])

    def _decode(self, engine: Any, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Single frames, by the numbers of the items they end."""
        nbytes = self._frames.layout.frame_nbytes
        out = map_memory(len(numbers) * nbytes).reshape(len(numbers), nbytes)
        layouts = np.ones_like(self._frames.layout_words)
        layouts[:, 2] = [layout.frame_nbytes for layout in self._frames.layouts]
        engine.read(numbers.astype(np.uint32), out, layouts=layouts)
        return out

    def _find_reference(self, sample: npt.NDArray[np.uint8]) -> None:
        """What most bytes mostly are is a good frame to code others against."""
        middle = len(sample) // 2
        ordered = map_memory(sample.size).reshape(sample.shape)
        ordered[...] = sample
        ordered.partition(middle, axis=0)
        typical = ordered[middle].copy()
        current = self._frames.references[self._frames.reference][: typical.size]
        cost, now = _cost(sample, typical), _cost(sample, current)
        # It is kept for good, so it has to save its own size before it is likely to be replaced.
        saved = (now - cost) / len(sample) * min(self._seen, LAST_INTERVAL) / self._frames.capacity
        if cost < CLEARLY * now and saved > typical.size:
            self._frames.add_reference(typical)

    def _choose(self, engine: Any, groups: npt.NDArray[np.int64]) -> None:
        """Change to what the last frames take the least space with, or nearly the least if that is faster."""
        counts = self._frames.groups.table["count"][groups].astype(np.int64)
        numbers = np.concatenate([g * SLOTS + 1 + np.arange(n) for g, n in zip(groups, counts, strict=True)])
        numbers = numbers[-CHOOSE_FROM:]
        few = numbers[:: len(numbers) // 16 | 1]  # by an odd step, or all of them may be the first of their groups
        is_first = few % SLOTS == 1
        sample, before = self._decode(engine, few), self._decode(engine, few - ~is_first)
        raw = sample.shape[1]
        before[is_first] = self._frames.references[self._frames.reference][:raw]
        changes = np.array([len(encode_changes(frame, base)) for frame, base in zip(sample, before, strict=True)])
        packed = np.full(len(few), raw)
        for codec in self._levels:
            if codec.level >= SLOW_LEVEL and packed.mean() > SIMPLE * raw:
                break
            sizes = codec.encode_parts(Payloads.from_parts(list(sample))).size
            if sizes.sum() < CLEARLY * packed.sum():
                packed, self._frames.intra = sizes, codec
        self._frames.worth_zstd = int(np.median(packed)) // 2
        best, zstd = np.minimum(np.minimum(changes, packed), raw).sum(), np.minimum(packed, raw).sum()
        if self._is_auto:
            mode = DELTA if best < NEARLY * zstd or not self._levels else INTRA
            self._write_as(ROWS if best > INCOMPRESSIBLE * raw * len(few) else mode)


def _cost(sample: npt.NDArray[np.uint8], base: Bytes) -> int:
    return sum(len(encode_changes(frame, base)) for frame in sample)
