"""`WritePolicy`: how a store's next groups are written, decided by looking at the last ones.

A look decodes some frames that were just stored. From them comes the reference that a group's first frame is coded
against, what zstd is given, and for "auto" the choice between changes, zstd, changes packed by groups, and frames as
they are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
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
from compressed_array._stores.frames.lanes import DELTA, INTRA, ROOM, ROWS
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.settings import WriteSettings
from compressed_array._stores.frames.tables import Frames
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
    """Watches the groups of one store, and owns its settings."""

    def __init__(self, frames: Frames, epochs: Epochs, codec: Any, layout: Layout, *, is_given: bool) -> None:
        self._frames, self._epochs = frames, epochs
        self.choice = codec
        self._is_given = is_given  # the layout, by the codec
        self._is_auto = isinstance(codec, str)
        self._delta = Delta() if self._is_auto else codec
        self._always_packs = isinstance(codec, DeltaZstd)
        # In time for the first reader: one who does not know of a codec must not meet a group that it packed.
        self._packing = Packing(frames, epochs) if self._always_packs or (self._is_auto and has_zstd()) else None
        self._levels = [Zstd(level) for level in ZSTD_LEVELS] if has_zstd() and not self._always_packs else []
        frames.decoder = next(iter([*self._levels, *frames.codecs]), None)
        self.use_layout(layout)

    def use_layout(self, layout: Layout) -> None:
        """Divide items so from the next one on, and take up watching their frames."""
        self._seen, self._next, self._unlearnt = 0, FIRST_LOOK, 0
        self._recent: deque[int] = deque(maxlen=MOST_SAMPLES)
        self._usual = 0.0  # bytes a frame took before the last look
        # Frames and their bytes, since the last look, and of some of the last groups.
        self._stored = self._lately = 0, 0
        self._in_order, self._length = True, self._delta.level or FEWEST_FRAMES
        self._new_frames, self._new_bytes = 0, 0
        self.lost_stack = False  # whether items were taken for stacks and are none, as far as was seen
        self._followed = self._frames.groups.counts[[FOLLOWING, NEW]]
        self._mode = DELTA  # whatever the size of frames
        settings = WriteSettings(
            layout,
            self._frames.number_of(layout),
            intra=self._levels[0] if self._levels else None,
            worth_zstd=layout.frame_nbytes // 64,
            packs=self._always_packs,
        )
        self._use(self._fitted(settings))

    @property
    def packing(self) -> Packing | None:
        """What full groups go through now, if they do."""
        return self._packing if self.settings.packs else None

    @property
    def last_codec(self) -> int:
        """The number of the codec that groups go through, if they are packed."""
        return 0 if self._packing is None else self._packing.codec

    def resume(self, layout: Layout) -> None:
        """Go on with what a restored store came with."""
        self.use_layout(layout)
        if self._packing is not None:
            self._packing.resume()

    @property
    def codec(self) -> Any:
        """What the next group's frames are written with."""
        if not self._is_auto:
            return self.choice
        settings = self.settings
        changes = DeltaZstd() if settings.packs else self._delta
        return {DELTA: changes, INTRA: settings.intra, ROWS: Raw()}[settings.mode]

    def use_reference(self, frame: Bytes) -> None:
        """Code frames against this one from now on, if there may be one more."""
        if self._frames.has_room_for_references:
            self._use(replace(self.settings, reference=self._frames.add_reference(frame)))

    def observe(self, groups: npt.NDArray[np.int64], engine: Engine) -> bool:
        """Take note of groups that are full, and look at some of the last if it is time.

        Returns whether the few frames there are had better be written anew, since the next ones are written otherwise.
        """
        table = self._frames.groups.table
        frames = int(table["count"][groups].sum())
        self._recent.extend(groups.tolist())
        self._unlearnt += len(groups)
        self._seen += frames
        self._new_frames += frames
        self._new_bytes += int(table["size"][groups].sum())
        is_time, has_changed = self._seen >= self._next, False
        if is_time:
            self._next += min(self._next, LAST_INTERVAL)
        if self._have_grown() or is_time:
            self._usual, self._stored = self._stored[1] / max(self._stored[0], 1), (0, 0)
            has_changed = self._look(engine)
        if self.packing is not None and self.settings.mode != ROWS and self._unlearnt >= FEWEST_SAMPLES:
            self._unlearnt = 0
            self.packing.learn(self._living())
        return has_changed and self._seen <= MANY_FRAMES

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
        """How many items may be written before the policy has to be asked again, lest a look comes too late."""
        return max(self._seen, FIRST_LOOK)

    def stored(self, groups: npt.NDArray[np.int64]) -> None:
        """Take note of how many bytes groups take, packed or not."""
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

    def _fitted(self, settings: WriteSettings) -> WriteSettings:
        """Returns settings with the mode, and with as many frames in a group and groups at a time as go with it."""
        is_small, depth = settings.is_small, settings.layout.depth
        mode, longest = (ROWS, SLOTS) if is_small else (self._mode, self._length)
        capacity = max(longest if self._in_order else 1, depth)
        if is_small:
            alive = int(np.count_nonzero(self._frames.groups.table["references"]))
            many_full = min(max(alive // ONE_IN, FEWEST_FULL), ONE_IN)
        else:
            few = -(-min(max(self._seen, FIRST_LOOK), MANY_FRAMES) // capacity)
            # Little is done about frames left as they are.
            many_full = min(4 * few, LISTED // 2) if mode == ROWS else few
        return replace(settings, mode=mode, capacity=capacity, many_full=many_full)

    def _use(self, settings: WriteSettings) -> None:
        # First: readers have to know before there is a group that unpacks to more.
        self._frames.expect_unpacked(settings.capacity * (settings.layout.frame_nbytes + ROOM))
        self.settings = settings

    def _look(self, engine: Engine) -> bool:
        """Decide how the next groups are written. Returns whether their records are made in another way from now on."""
        self._see_size()
        self._see_order()
        self._see_stack()
        groups, has_changed = self._living(), False
        if len(groups) < 2 or self.settings.is_small:
            return False
        last = groups[-RECENT:]
        spread = last[np.linspace(0, len(last) - 1, min(len(last), SAMPLES)).astype(np.intp)]
        if self._mode != ROWS:
            self._find_reference(self.decode(engine, spread * SLOTS + 1))
        if self._levels or self._is_auto:
            has_changed = self._choose(engine, last)
        return_free_memory()  # of the frames that were looked at, which would be held and not reported
        return has_changed

    def _see_size(self) -> None:
        """Let groups have as many frames as make up the bytes that a group should have."""
        frames, nbytes = self._new_frames, self._new_bytes
        self._new_frames = self._new_bytes = 0
        if self._delta.level is None:
            self._length = min(max(GROUP_BYTES * frames // max(nbytes, 1), FEWEST_FRAMES), SLOTS)

    def _see_order(self) -> None:
        """Give each frame a group of its own if frames do not die in order, since a group is freed as a whole."""
        table = self._frames.groups.table
        frames, needed = int(table["count"][table["references"] > 0].sum()), int(table["references"].sum())
        # In order, too, each lane's oldest group is needed in part, and its newest not full.
        in_part = 2 * self.settings.capacity * int(np.count_nonzero(self._frames.lanes.table["group"]))
        enough = STILL_ORDERED if self._in_order else ORDERED_AGAIN
        self._in_order = self.settings.layout.depth > 1 or needed >= enough * (frames - in_part)
        self._use(self._fitted(self.settings))

    def _see_stack(self) -> None:
        """Take items for no stacks if most of them have all frames new; those of a stack have one or two."""
        items, new = self._frames.groups.counts[[FOLLOWING, NEW]] - self._followed
        self._followed += items, new
        depth = self.settings.layout.depth
        is_sure = depth >= SHORTEST_SURE_STACK and not self._is_given
        self.lost_stack = is_sure and new > LOST_STACK * depth * items

    def _living(self) -> npt.NDArray[np.int64]:
        table = self._frames.groups.table
        # Once each, though a ring gives numbers out again, and the last ones last.
        recent = np.array(list(dict.fromkeys(reversed(self._recent)))[::-1], np.int64)
        alive = (table["references"][recent] > 0) & (table["layout"][recent] == self.settings.layout_number)
        return np.asarray(recent[alive & (table["count"][recent] > 0)])

    def decode(self, engine: Engine, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Returns single frames, by the numbers of the items they end."""
        nbytes = self.settings.layout.frame_nbytes
        out = map_memory(len(numbers) * nbytes).reshape(len(numbers), nbytes)
        layouts = np.ones_like(self._frames.layout_table)
        layouts["inner"] = [layout.frame_nbytes for layout in self._frames.layouts]
        engine.read(numbers.astype(np.uint32), out, layouts=layouts)
        return out

    def _find_reference(self, sample: npt.NDArray[np.uint8]) -> None:
        """Code frames against one made of each byte's usual value, if that saves more than it takes."""
        middle = len(sample) // 2
        ordered = map_memory(sample.size).reshape(sample.shape)
        ordered[...] = sample
        ordered.partition(middle, axis=0)
        typical = ordered[middle].copy()
        settings = self.settings
        current = self._frames.references[settings.reference][: typical.size]
        changes, now = _costs(sample, typical), _costs(sample, current)
        # What zstd makes less of is not written as changes.
        by_zstd = residual = np.full(len(sample), typical.size)
        if self._levels and not settings.packs:
            level = self._levels[0]
            by_zstd = sizes_of(sample, settings.foretold, self._frames.references, level)
            residual = sizes_of(sample - typical, residuals.AS_IT_IS, [], level)
        cost = np.minimum(now, by_zstd).mean()
        firsts, all_of_them = cost - np.minimum(changes, by_zstd).mean(), cost - residual.mean()
        # It is kept for good, so it has to save its own size before it is likely to be replaced.
        saved = max(firsts / settings.capacity, all_of_them) * min(self._seen, LAST_INTERVAL)
        if max(firsts, all_of_them) > (1 - CLEARLY) * cost and saved > typical.size:
            self.use_reference(typical)

    def _choose(self, engine: Engine, groups: npt.NDArray[np.int64]) -> bool:
        """Change to what the last frames take the least space with, or nearly the least if that is faster.

        Returns whether that changes how records are made.
        """
        frames, now = self._frames, self.settings
        trial = Trial(frames, now, self._runs(engine, groups), self._levels)
        worth_zstd = trial.worth_zstd if self._levels or trial.foretold else now.worth_zstd
        packs, intra, foretold = now.packs, trial.level, trial.foretold
        if self._is_auto:
            least, zstd = trial.by_least(self._length), trial.by_zstd
            mode = DELTA if least.nbytes < NEARLY * zstd.nbytes or not self._levels else INTRA
            mode = ROWS if least.nbytes > INCOMPRESSIBLE * trial.raw else mode
            packs = False
            if self._packing is not None and mode != ROWS:
                # Numbers that a codebook suits have little in common with each other.
                expects = self._packing.expects_dictionary and residuals.foretells(trial.foretold) != residuals.BOOK
                packed = trial.by_groups(frames.codecs[self._packing.codec], expects_dictionary=expects)
                gain = trial.score(least if mode == DELTA else zstd) - trial.score(packed)
                packs = gain > (-BETTER if now.packs else BETTER)
            if packs:
                mode, intra, foretold = DELTA, None, residuals.AS_IT_IS  # zstd gets the groups
            elif mode == ROWS and trial.book is not None:
                foretold = now.foretold  # a book is kept for good, and would be of no use
            self._mode = mode
        if trial.book is not None and foretold == trial.foretold:
            frames.add_reference(trial.book)  # before any frame is written by it
        settings = replace(now, intra=intra, foretold=foretold, worth_zstd=worth_zstd, packs=packs)
        self._use(self._fitted(settings) if self._is_auto else settings)
        made = (now.mode, now.intra, now.foretold, now.packs)
        return (self.settings.mode, intra, foretold, packs) != made

    def _runs(self, engine: Engine, groups: npt.NDArray[np.int64]) -> list[npt.NDArray[np.uint8]]:
        """Returns some frames that followed each other, of some of these groups."""
        length = min(max(TRIAL_BYTES // (RUNS * self.settings.layout.frame_nbytes), 2), RUN)
        few = groups[np.linspace(0, len(groups) - 1, min(len(groups), RUNS)).astype(np.intp)]
        counts = np.minimum(self._frames.groups.table["count"][few].astype(np.int64), length)
        return [self.decode(engine, g * SLOTS + 1 + np.arange(n)) for g, n in zip(few, counts, strict=True)]


def _costs(sample: npt.NDArray[np.uint8], base: Bytes) -> npt.NDArray[np.int64]:
    return np.array([min(len(encode_changes(frame, base)), frame.size) for frame in sample])
