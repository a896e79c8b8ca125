"""`WritePolicy`: how a store's next groups are written, decided by looking at the last ones.

A look decodes some frames that were just stored. From them comes the reference that a group's first frame is coded
against, what zstd is given, and for "auto" the choice between changes, zstd, changes packed by groups, and frames as
they are.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.memory import map_memory, return_free_memory
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames import residuals
from compressed_array._stores.frames.dictionaries import FEWEST_SAMPLES, MOST_SAMPLES, Packing
from compressed_array._stores.frames.engine import Engine
from compressed_array._stores.frames.groups import FOLLOWING, LISTED, NEW, SLOTS
from compressed_array._stores.frames.lanes import DELTA, GROUP_OF, INTRA, ROOM, ROWS
from compressed_array._stores.frames.tables import SMALL_FRAME, Frames
from compressed_array._stores.frames.trials import FEWEST_FRAMES, GROUP_BYTES, ZSTD_LEVELS, Trial, sizes_of
from compressed_array.codecs.delta import Delta, DeltaZstd, encode_changes
from compressed_array.codecs.none import Raw
from compressed_array.codecs.zstd import Zstd
from compressed_array.registry import has_zstd

FIRST_LOOK, LAST_INTERVAL = 32, 16384  # in frames
MANY_FRAMES = 128  # in groups that are full: enough to do something about them
ONE_IN, FEWEST_FULL = 64, 4  # of groups of small frames, one in so many, from so few up to as many
SOON, MUCH = 1024, 2  # one looks early if so many frames take so many times as many bytes as usual
SAMPLES, RECENT = 33, 64  # frames out of that many groups
RUNS, RUN, TRIAL_BYTES = 4, 16, 4 * 2**20  # runs of frames to try ways on, their length, and what they come to at most
CLEARLY, NEARLY = 0.9, 0.95
BETTER = 0.05  # in scores: to change between packing and not
INCOMPRESSIBLE = 0.95
# With two arrays on the store, items bring half of that on average: with a short stack, no more than others do.
LOST_STACK, SHORTEST_SURE_STACK = 0.4, 4
# As long as this share of all frames is needed, groups die in the order they were written in, or nearly so.
STILL_ORDERED, ORDERED_AGAIN = 0.7, 0.9


class WritePolicy:
    """Watches the groups of one store."""

    def __init__(self, frames: Frames, epochs: Epochs, codec: Any) -> None:
        self._frames, self._epochs = frames, epochs
        self.choice = codec
        self._is_auto = isinstance(codec, str)
        self._delta = Delta() if self._is_auto else codec
        self._always_packs = isinstance(codec, DeltaZstd)
        # In time for the first reader: one who does not know of a codec must not meet a group that it packed.
        self._packing = Packing(frames, epochs) if self._always_packs or (self._is_auto and has_zstd()) else None
        self._levels = [Zstd(level) for level in ZSTD_LEVELS] if has_zstd() and not self._always_packs else []
        if self._levels:
            frames.decoder = self._levels[0]
        self.start_over()

    def start_over(self) -> None:
        """Take up watching frames of another size."""
        self._seen, self._next, self._unlearnt = 0, FIRST_LOOK, 0
        self._recent: deque[int] = deque(maxlen=MOST_SAMPLES)
        self._usual = 0.0  # bytes a frame took before the last look
        self._stored = self._lately = (
            0,
            0,
        )  # frames and their bytes, since the last look, and of some of the last groups
        self._in_order, self._length = True, self._delta.level or FEWEST_FRAMES
        self._new_frames, self._new_bytes, self.lost_stack = 0, 0, False
        self._followed = self._frames.groups.counts[[FOLLOWING, NEW]]
        self._frames.worth_zstd = self._frames.layout.frame_nbytes // 64
        self._frames.intra, self._packs = self._levels[0] if self._levels else None, self._always_packs
        self.has_changed = False  # how frames are written, while there are few
        self._write_as(DELTA)

    @property
    def packing(self) -> Packing | None:
        """What full groups go through now, if they do."""
        return self._packing if self._packs else None

    def resume(self) -> None:
        """Go on with what a restored store came with."""
        self.start_over()
        if self._packing is not None:
            self._packing.resume()

    @property
    def codec(self) -> Any:
        """What the next group's frames are written with."""
        if not self._is_auto:
            return self.choice
        changes = DeltaZstd() if self._packs else self._delta
        return {DELTA: changes, INTRA: self._frames.intra, ROWS: Raw()}[self._frames.mode]

    def observe(self, groups: npt.NDArray[np.int64], engine: Engine) -> None:
        """Take note of groups that are full, and look at some of the last if it is time."""
        table = self._frames.groups.table
        frames = int(table["count"][groups].sum())
        self._recent.extend(groups.tolist())
        self._unlearnt += len(groups)
        self._seen += frames
        self._new_frames += frames
        self._new_bytes += int(table["size"][groups].sum())
        is_time = self._seen >= self._next
        if is_time:
            self._next += min(self._next, LAST_INTERVAL)
        if self._have_grown() or is_time:
            self._usual, self._stored = self._stored[1] / max(self._stored[0], 1), (0, 0)
            self._look(engine)
        if self.packing is not None and self._frames.mode != ROWS and self._unlearnt >= FEWEST_SAMPLES:
            self._unlearnt = 0
            self.packing.learn(self._living())

    @property
    def is_in_order(self) -> bool:
        """Whether frames die in the order they were written in, as far as was seen."""
        return self._in_order

    @property
    def has_looked(self) -> bool:
        """Whether anything was decided by looking at frames."""
        return self._next > FIRST_LOOK

    @property
    def patience(self) -> int:
        """How many items may be written before it is seen if a look is due: a look at all of them comes too late."""
        return max(self._seen, FIRST_LOOK)

    def stored(self, groups: npt.NDArray[np.int64]) -> None:
        """Take note of what groups have come to, packed or not."""
        table = self._frames.groups.table
        frames, nbytes = int(table["count"][groups].sum()), int(table["size"][groups].sum())
        self._stored = self._stored[0] + frames, self._stored[1] + nbytes
        self._lately = self._lately[0] + frames, self._lately[1] + nbytes

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
            few = -(-min(max(self._seen, FIRST_LOOK), MANY_FRAMES) // frames.capacity)
            # Little is done about frames left as they are.
            frames.many_full = min(4 * few, LISTED // 2) if frames.mode == ROWS else few
        most = frames.capacity * (frames.layout.frame_nbytes + ROOM)
        frames.most_unpacked = max(frames.most_unpacked, most)

    def _look(self, engine: Engine) -> None:
        self._see_size()
        self._see_order()
        self._see_stack()
        groups = self._living()
        if len(groups) < 2 or self._frames.layout.frame_nbytes < SMALL_FRAME:
            return
        last = groups[-RECENT:]
        spread = last[np.linspace(0, len(last) - 1, min(len(last), SAMPLES)).astype(np.intp)]
        if self._mode != ROWS:
            self._find_reference(self.decode(engine, spread * SLOTS + 1))
        if self._levels or self._is_auto:
            self._choose(engine, last)
        return_free_memory()  # of the frames that were looked at, which would be held and not reported

    def _see_size(self) -> None:
        """Let groups have so many frames that they come to the size they should have."""
        frames, nbytes = self._new_frames, self._new_bytes
        self._new_frames = self._new_bytes = 0
        if self._delta.level is None:
            self._length = min(max(GROUP_BYTES * frames // max(nbytes, 1), FEWEST_FRAMES), SLOTS)

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
        items, new = self._frames.groups.counts[[FOLLOWING, NEW]] - self._followed
        self._followed += items, new
        depth = self._frames.layout.depth
        self.lost_stack = depth >= SHORTEST_SURE_STACK and new > LOST_STACK * depth * items

    def _living(self) -> npt.NDArray[np.int64]:
        table = self._frames.groups.table
        # Once each, though a ring gives numbers out again, and the last ones last.
        recent = np.array(list(dict.fromkeys(reversed(self._recent)))[::-1], np.int64)
        alive = (table["references"][recent] > 0) & (table["layout"][recent] == self._frames.layout_number)
        return np.asarray(recent[alive & (table["count"][recent] > 0)])

    def decode(self, engine: Engine, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
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
        changes, now = _costs(sample, typical), _costs(sample, current)
        # What zstd makes less of is not written as changes.
        by_zstd = residual = np.full(len(sample), typical.size)
        if self._levels and not self._packs:
            level = self._levels[0]
            by_zstd = sizes_of(sample, self._frames.foretold, self._frames.references, level)
            residual = sizes_of(sample - typical, residuals.PLAIN, [], level)
        cost = np.minimum(now, by_zstd).mean()
        firsts, all_of_them = cost - np.minimum(changes, by_zstd).mean(), cost - residual.mean()
        # It is kept for good, so it has to save its own size before it is likely to be replaced.
        saved = max(firsts / self._frames.capacity, all_of_them) * min(self._seen, LAST_INTERVAL)
        if max(firsts, all_of_them) > (1 - CLEARLY) * cost and saved > typical.size:
            self._frames.add_reference(typical)

    def _choose(self, engine: Engine, groups: npt.NDArray[np.int64]) -> None:
        """Change to what the last frames take the least space with, or nearly the least if that is faster."""
        frames, trial = self._frames, Trial(self._frames, self._runs(engine, groups), self._levels)
        if self._levels or trial.foretold:
            frames.worth_zstd = trial.worth_zstd
        before = frames.mode, frames.intra, frames.foretold, self._packs
        intra, foretold = trial.level, trial.foretold
        if self._is_auto:
            least, zstd = trial.by_least(self._length), trial.by_zstd
            mode = DELTA if least.nbytes < NEARLY * zstd.nbytes or not self._levels else INTRA
            mode = ROWS if least.nbytes > INCOMPRESSIBLE * trial.raw else mode
            if self._packing is not None and mode != ROWS:
                packed = trial.by_groups(frames.codecs[self._packing.codec])
                gain = trial.score(least if mode == DELTA else zstd) - trial.score(packed)
                self._packs = gain > (-BETTER if self._packs else BETTER)
            else:
                self._packs = False
            if self._packs:
                mode, intra, foretold = DELTA, None, residuals.PLAIN  # zstd gets the groups
            elif mode == ROWS and trial.book is not None:
                foretold = frames.foretold  # a book is kept for good, and would be of no use
            self._write_as(mode)
        if trial.book is not None and foretold == trial.foretold:
            frames.references.append(trial.book)  # before any frame is written by it
        frames.intra, frames.foretold = intra, foretold
        has_changed = (frames.mode, frames.intra, frames.foretold, self._packs) != before
        self.has_changed |= has_changed and self._seen <= MANY_FRAMES

    def _runs(self, engine: Engine, groups: npt.NDArray[np.int64]) -> list[npt.NDArray[np.uint8]]:
        """Some frames that followed each other, of some of these groups."""
        length = min(max(TRIAL_BYTES // (RUNS * self._frames.layout.frame_nbytes), 2), RUN)
        few = groups[np.linspace(0, len(groups) - 1, min(len(groups), RUNS)).astype(np.intp)]
        counts = np.minimum(self._frames.groups.table["count"][few].astype(np.int64), length)
        return [self.decode(engine, g * SLOTS + 1 + np.arange(n)) for g, n in zip(few, counts, strict=True)]


def _costs(sample: npt.NDArray[np.uint8], base: Bytes) -> npt.NDArray[np.int64]:
    return np.array([min(len(encode_changes(frame, base)), frame.size) for frame in sample])
