"""`WritePolicy`: how a store's next groups are written, decided from time to time by the last ones.

A decision decodes some frames that were just stored. From them comes the reference that a group's first frame is coded
against, the prediction that is subtracted before zstd, and for "auto" the choice between changes, zstd, changes packed
by groups, and frames as they are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.memory import map_memory, return_free_memory
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames import residuals
from compressed_array._stores.frames.dictionaries import FEWEST_LEARNT_FROM, MOST_LEARNT_FROM, Packing
from compressed_array._stores.frames.engine import Engine
from compressed_array._stores.frames.groups import BITPACKED, FIRST_PACKED, FOLLOWING, LISTED, NEW, SLOTS, TAG_BITS
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.settings import AS_CHANGES, AS_ROWS, AS_ZSTD, WriteSettings
from compressed_array._stores.frames.tables import FrameTables
from compressed_array._stores.frames.trials import FEWEST_FRAMES, GROUP_BYTES, ZSTD_LEVELS, Trial, sizes_of
from compressed_array.codecs.delta import Delta, DeltaZstd, encode_changes
from compressed_array.codecs.none import Raw
from compressed_array.codecs.zstd import Zstd
from compressed_array.registry import has_zstd

FIRST_DECISION, LAST_INTERVAL = 32, 16384  # in frames
MANY_FRAMES = 128  # in groups that are full: enough to process them
# Groups of small frames are processed once 1/64 of the living ones are full: at least 4 of them, and at most 64.
FULL_DIVISOR, FEWEST_FULL, MOST_FULL = 64, 4, 64
GROWTH_FRAMES, GROWTH_FACTOR = 1024, 2  # decides early if 1024 frames took over twice the usual bytes
SAMPLES, RECENT = 33, 64  # frames out of that many groups
RUNS, RUN, TRIAL_BYTES = 4, 16, 4 * 2**20  # runs of frames to try ways on, their length, and how many bytes at most
# To what share of its bytes a frame has to come: by another reference, of what it takes by this one; by changes, of
# what it takes by zstd; by any way, of what it takes raw.
REFERENCE_SHARE, CHANGES_SHARE, RAW_SHARE = 0.9, 0.95, 0.95
PACKING_MARGIN = 0.05  # by how much the score has to improve to start packing, or to stop
# Items are no stacks if more than this share of their frames is new: then all are, or half of them where two arrays
# share the store. In short stacks one new frame for each item comes close to that, so only longer ones are given up.
LOST_STACK_SHARE, SHORTEST_SURE_STACK = 0.4, 4
# As long as this share of all frames is needed, groups die in the order they were written in, or nearly so.
STILL_ORDERED, ORDERED_AGAIN = 0.7, 0.9


class StoredFrames(NamedTuple):
    """A number of frames, and the bytes that they take."""

    frames: int = 0
    nbytes: int = 0


class WritePolicy:
    """Watches the groups of one store, and owns its settings."""

    def __init__(self, frames: FrameTables, epochs: Epochs, codec: Any, layout: Layout, *, is_given: bool) -> None:
        self._frames, self._epochs = frames, epochs
        self.choice = codec
        self._is_given = is_given  # whether the codec fixes the layout
        self._is_auto = codec == "auto"
        self._delta = Delta() if self._is_auto else codec
        self._always_packs = isinstance(codec, DeltaZstd)
        # Before the first read: a reader that does not know a codec must never meet a group packed by it.
        self._packing = Packing(frames, epochs) if self._always_packs or (self._is_auto and has_zstd()) else None
        self._levels = [Zstd(level) for level in ZSTD_LEVELS] if has_zstd() and not self._always_packs else []
        frames.set_decoder(next(iter([*self._levels, *frames.codecs]), None))
        self.use_layout(layout)

    def use_layout(self, layout: Layout) -> None:
        """Divides items by this layout from the next one on, and forgets what was known of frames before."""
        self._seen, self._next, self._unlearnt = 0, FIRST_DECISION, 0
        self._recent: deque[int] = deque(maxlen=MOST_LEARNT_FROM)
        self._usual_nbytes = 0.0  # of a frame, between the last two decisions
        self._since_decision = self._since_growth_check = StoredFrames()
        self._in_order, self._length = True, self._delta.level or FEWEST_FRAMES
        self._new_frames, self._new_bytes = 0, 0
        self.lost_stack = False  # whether items were taken for stacks and are none, as far as was seen
        self._counts_at_review = self._frames.groups.counts[[FOLLOWING, NEW]]
        self._mode = AS_CHANGES  # how frames are written that are not small
        settings = WriteSettings(
            layout,
            self._frames.number_of(layout),
            zstd=self._levels[0] if self._levels else None,
            worth_zstd=layout.frame_nbytes // 64,
            packs=self._always_packs,
        )
        self._adopt_settings(self._with_group_sizes(settings))

    @property
    def packing(self) -> Packing | None:
        """The codecs that full groups are packed by now; None if they are not packed."""
        return self._packing if self.settings.packs else None

    @property
    def last_codec(self) -> int:
        """The number of the codec that groups are packed by, if they are."""
        return 0 if self._packing is None else self._packing.codec

    def resume(self, layout: Layout) -> None:
        """Goes on with what a restored store came with."""
        self.use_layout(layout)
        if self._packing is not None:
            self._packing.resume()
            tags = self._frames.groups.table["where"] >> TAG_BITS
            packed = np.count_nonzero((tags >= FIRST_PACKED) & (tags != BITPACKED))
            if self._is_auto and 2 * packed > np.count_nonzero(tags):  # as "auto" had chosen when it was taken out
                self._adopt_settings(replace(self.settings, packs=True, zstd=None))

    @property
    def codec(self) -> Any:
        """The codec that the next group's frames are written with."""
        if not self._is_auto:
            return self.choice
        settings = self.settings
        changes = DeltaZstd() if settings.packs else self._delta
        return {AS_CHANGES: changes, AS_ZSTD: settings.zstd, AS_ROWS: Raw()}[settings.mode]

    def use_reference(self, frame: Bytes) -> None:
        """Codes frames against this one from now on, if another reference can be added."""
        if self._frames.has_room_for_references:
            self._adopt_settings(replace(self.settings, reference=self._frames.add_reference(frame)))

    def observe(self, groups: npt.NDArray[np.int64], engine: Engine) -> bool:
        """Counts groups that are full, and decides how the next ones are written if it is time.

        Returns whether the few frames there are should be written again, since the next ones are written differently.
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
            since = self._since_decision
            self._usual_nbytes, self._since_decision = since.nbytes / max(since.frames, 1), StoredFrames()
            has_changed = self._review(engine)
        if self.packing is not None and self.settings.mode != AS_ROWS and self._unlearnt >= FEWEST_LEARNT_FROM:
            self._unlearnt = 0
            self.packing.learn(self._living())
        return has_changed and self._seen <= MANY_FRAMES

    @property
    def is_in_order(self) -> bool:
        """Whether frames die in the order they were written in, as far as was seen."""
        return self._in_order

    @property
    def has_decided(self) -> bool:
        """Whether anything was decided by frames that were written."""
        return self._next > FIRST_DECISION

    @property
    def items_until_decision(self) -> int:
        """The number of items that may be written before `observe` has to be called: no decision may come too late."""
        return max(self._seen, FIRST_DECISION)

    def note_stored(self, groups: npt.NDArray[np.int64]) -> None:
        """Counts the bytes that groups take, packed or not."""
        table = self._frames.groups.table
        frames, nbytes = int(table["count"][groups].sum()), int(table["size"][groups].sum())
        decided, checked = self._since_decision, self._since_growth_check
        self._since_decision = StoredFrames(decided.frames + frames, decided.nbytes + nbytes)
        self._since_growth_check = StoredFrames(checked.frames + frames, checked.nbytes + nbytes)

    def _have_grown(self) -> bool:
        """Whether the last frames take much more than those before, where there are enough of them to tell."""
        frames, nbytes = self._since_growth_check
        if frames < GROWTH_FRAMES:
            return False
        self._since_growth_check = StoredFrames()
        return nbytes > GROWTH_FACTOR * self._usual_nbytes * frames

    def _with_group_sizes(self, settings: WriteSettings) -> WriteSettings:
        """Returns settings with the mode, and with the sizes of groups that go with it."""
        is_small, depth = settings.is_small, settings.layout.depth
        mode, longest = (AS_ROWS, SLOTS) if is_small else (self._mode, self._length)
        capacity = max(longest if self._in_order else 1, depth)
        if is_small:
            alive = int(np.count_nonzero(self._frames.groups.table["uses"]))
            many_full = min(max(alive // FULL_DIVISOR, FEWEST_FULL), MOST_FULL)
        else:
            few = -(-min(max(self._seen, FIRST_DECISION), MANY_FRAMES) // capacity)
            # Little is done about frames left as they are.
            many_full = min(4 * few, LISTED // 2) if mode == AS_ROWS else few
        return replace(settings, mode=mode, capacity=capacity, many_full=many_full)

    def _adopt_settings(self, settings: WriteSettings) -> None:
        # First, since readers have to know before there is a group that unpacks to more.
        self._frames.raise_unpack_limit(settings.capacity * (settings.layout.frame_nbytes + ROOM))
        self.settings = settings

    def _review(self, engine: Engine) -> bool:
        """Makes every decision that is due. Returns whether records are made in another way from now on."""
        self._fit_length()
        self._check_order()
        self._check_stack()
        groups, has_changed = self._living(), False
        if len(groups) < 2 or self.settings.is_small:
            return False
        last = groups[-RECENT:]
        spread = last[np.linspace(0, len(last) - 1, min(len(last), SAMPLES)).astype(np.intp)]
        if self._mode != AS_ROWS:
            self._find_reference(self.decode(engine, spread * SLOTS + 1))
        if self._levels or self._is_auto:
            has_changed = self._choose_encoding(engine, last)
        return_free_memory()  # of the frames that were decoded, which would be held and not reported
        return has_changed

    def _fit_length(self) -> None:
        """Gives groups as many frames as make up the bytes that a group should have."""
        frames, nbytes = self._new_frames, self._new_bytes
        self._new_frames = self._new_bytes = 0
        if self._delta.level is None:
            self._length = min(max(GROUP_BYTES * frames // max(nbytes, 1), FEWEST_FRAMES), SLOTS)

    def _check_order(self) -> None:
        """Gives each frame a group of its own if frames do not die in order, since a group is freed as a whole."""
        table = self._frames.groups.table
        frames, needed = int(table["count"][table["uses"] > 0].sum()), int(table["uses"].sum())
        # In order, too, each lane's oldest group is needed in part, and its newest not full.
        in_part = 2 * self.settings.capacity * int(np.count_nonzero(self._frames.lanes.table["group"]))
        enough = STILL_ORDERED if self._in_order else ORDERED_AGAIN
        self._in_order = self.settings.layout.depth > 1 or needed >= enough * (frames - in_part)
        self._adopt_settings(self._with_group_sizes(self.settings))

    def _check_stack(self) -> None:
        """Notes that items are no stacks if most have all frames new; items of a stack have one or two."""
        items, new = self._frames.groups.counts[[FOLLOWING, NEW]] - self._counts_at_review
        self._counts_at_review += items, new
        depth = self.settings.layout.depth
        is_sure = depth >= SHORTEST_SURE_STACK and not self._is_given
        self.lost_stack = is_sure and new > LOST_STACK_SHARE * depth * items

    def _living(self) -> npt.NDArray[np.int64]:
        table = self._frames.groups.table
        # Once each, though a ring gives numbers out again, and the last ones last.
        recent = np.array(list(dict.fromkeys(reversed(self._recent)))[::-1], np.int64)
        alive = (table["uses"][recent] > 0) & (table["layout"][recent] == self.settings.layout_number)
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
        """Codes frames against one made of each byte's usual value, if that saves more than it takes."""
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
            by_zstd = sizes_of(sample, settings.prediction, self._frames.references, level)
            residual = sizes_of(sample - typical, residuals.NO_PREDICTION, [], level)
        cost = np.minimum(now, by_zstd).mean()
        firsts, all_of_them = cost - np.minimum(changes, by_zstd).mean(), cost - residual.mean()
        # It is kept for good, so it has to save its own size before it is likely to be replaced.
        saved = max(firsts / settings.capacity, all_of_them) * min(self._seen, LAST_INTERVAL)
        if max(firsts, all_of_them) > (1 - REFERENCE_SHARE) * cost and saved > typical.size:
            self.use_reference(typical)

    def _choose_encoding(self, engine: Engine, groups: npt.NDArray[np.int64]) -> bool:
        """Changes to the encoding by which the last frames take the least space, or nearly the least if that is faster.

        This is where codec "auto" changes how frames are written; other codecs have only their prediction, and the
        level of zstd, chosen here. Returns whether that changes how records are made.
        """
        frames, now = self._frames, self.settings
        trial = Trial(frames, now, self._runs(engine, groups), self._levels)
        worth_zstd = trial.zstd_threshold if self._levels or trial.prediction else now.worth_zstd
        packs, level, prediction = now.packs, trial.level, trial.prediction
        if self._is_auto:
            least, zstd = trial.by_changes_or_zstd(self._length), trial.by_zstd
            mode = AS_CHANGES if least.nbytes < CHANGES_SHARE * zstd.nbytes or not self._levels else AS_ZSTD
            mode = AS_ROWS if least.nbytes > RAW_SHARE * trial.raw else mode
            packs = False
            if self._packing is not None and mode != AS_ROWS:
                # Numbers that a codebook suits have little in common with each other.
                expects = self._packing.expects_dictionary and residuals.predictor(trial.prediction) != residuals.BOOK
                packed = trial.by_groups(frames.codecs[self._packing.codec], expects_dictionary=expects)
                gain = trial.score(least if mode == AS_CHANGES else zstd) - trial.score(packed)
                packs = gain > (-PACKING_MARGIN if now.packs else PACKING_MARGIN)
            if packs:
                mode, level, prediction = AS_CHANGES, None, residuals.NO_PREDICTION  # zstd gets the groups
            elif mode == AS_ROWS and trial.book is not None:
                prediction = now.prediction  # a book is kept for good, and would be of no use
            self._mode = mode
        if trial.book is not None and prediction == trial.prediction:
            frames.add_reference(trial.book)  # before any frame is written by it
        settings = replace(now, zstd=level, prediction=prediction, worth_zstd=worth_zstd, packs=packs)
        self._adopt_settings(self._with_group_sizes(settings) if self._is_auto else settings)
        made = (now.mode, now.zstd, now.prediction, now.packs)
        return (self.settings.mode, level, prediction, packs) != made

    def _runs(self, engine: Engine, groups: npt.NDArray[np.int64]) -> list[npt.NDArray[np.uint8]]:
        """Returns some frames that followed each other, of some of these groups."""
        length = min(max(TRIAL_BYTES // (RUNS * self.settings.layout.frame_nbytes), 2), RUN)
        few = groups[np.linspace(0, len(groups) - 1, min(len(groups), RUNS)).astype(np.intp)]
        counts = np.minimum(self._frames.groups.table["count"][few].astype(np.int64), length)
        return [self.decode(engine, g * SLOTS + 1 + np.arange(n)) for g, n in zip(few, counts, strict=True)]


def _costs(sample: npt.NDArray[np.uint8], base: Bytes) -> npt.NDArray[np.int64]:
    return np.array([min(len(encode_changes(frame, base)), frame.size) for frame in sample])
