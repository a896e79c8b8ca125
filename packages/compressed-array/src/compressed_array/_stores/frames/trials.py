"""Estimates, from sample frames, the size and the read time of each way to write a stream. No clock is read, so equal
streams are written alike.

Score: halving the size justifies reads up to four times slower, as in `recommend`; where a frame takes less than 1/112
of an item (`NEGLIGIBLE_SHARE`), only reading time counts. That limit is for stacks of four or more frames, each of
which is in several items; it is a quarter of that for items without a stack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames import codebook_learning, codebooks, residuals
from compressed_array._stores.frames.groups import SLOTS, WORD_SIZES
from compressed_array._stores.frames.lanes import SMALL_ENOUGH
from compressed_array._stores.frames.settings import WriteSettings
from compressed_array._stores.frames.tables import MOST_REFERENCES, FrameTables
from compressed_array.codecs._measure import CLEARLY
from compressed_array.codecs.delta import encode_changes
from compressed_array.codecs.zstd import Zstd

ZSTD_LEVELS = (1, 3, 6, 9)  # the fastest first; a level is chosen if it takes clearly less space than those before
# Levels from this one on are slow, except for frames that a faster one has brought down to this share of their bytes.
SLOW_LEVEL, SIMPLE_SHARE = 9, 1 / 20
ANOTHER_BOOK_SHARE = 0.98  # to what share of its bytes a frame has to come by another codebook; else, CLEARLY
NEAREST = 16  # bytes to a neighbour that predicts; from a nearer one, not many bytes at a time could be restored
NEGLIGIBLE_SHARE = 1 / 112  # of an item's bytes: below that a frame's size does not count
NEGLIGIBLE_DEPTH = 4  # frames in an item from which on that share holds; with fewer it is smaller in proportion
# The bytes that a group of changes should come to, and its fewest frames: a read walks through half a group.
GROUP_BYTES, FEWEST_FRAMES = 3 * 1024, 8
DICTIONARY_SHARE = 0.7  # of the bytes of groups that is left with a dictionary: 0.55 to 0.85 for Atari games
# Nanoseconds: for an item and for each byte of it; for a call of zstd's, each byte that it is given and that it makes;
# for each byte of changes. Roughly, as measured: elsewhere all of them take twice as long or half.
ITEM, PER_BYTE, CALL, PER_ZSTD_BYTE, PER_MADE_BYTE, PER_CHANGED_BYTE = 1000.0, 0.05, 1000.0, 2.0, 0.05, 0.35


class Cost(NamedTuple):
    """What a way to write frames costs: the bytes that one takes, and the nanoseconds that an item takes to read."""

    nbytes: float
    read_ns: float


@dataclass
class Trial:
    """Runs of frames that followed each other, and what they come to."""

    frames: FrameTables
    settings: WriteSettings
    runs: list[npt.NDArray[np.uint8]]
    levels: list[Zstd]
    prediction: int = residuals.NO_PREDICTION
    level: Zstd | None = None
    book: Bytes | None = None  # a new one, which `prediction` takes to be the next reference

    def __post_init__(self) -> None:
        base = self.frames.references[self.settings.reference][: self.runs[0].shape[1]]
        bases = [base] if self.settings.reference == 0 else [base, self.frames.references[0][: base.size]]
        self._changes = [
            [_changes(run[0], None, bases), *(_changes(b, a, bases) for a, b in pairwise(run))] for run in self.runs
        ]
        together = [frame for run in self.runs for frame in run]
        few = np.arange(0, len(together), len(together) // 16 | 1)  # by an odd step, or all may be the first of a run
        self.sample = np.stack([together[i] for i in few])
        self.raw = self.sample.shape[1]
        self.changes = np.minimum([len(c) for run in self._changes for c in run], self.raw)[few]
        self.packed = np.full(len(few), self.raw)
        if self.levels:
            self._find_prediction()
            self._find_level()
        if self.frames.itemsize in codebooks.CODED_SIZES and self.raw % self.frames.itemsize == 0:
            self._find_book(np.concatenate(self.runs))

    def _find_prediction(self) -> None:
        """Finds the prediction by which zstd, at the first level, makes the least of frames."""
        ways = [
            residuals.prediction_code(residuals.NEIGHBOUR, distance, self.frames.itemsize)
            for distance in self._distances()
        ]
        if self.settings.reference:
            ways.append(residuals.prediction_code(residuals.REFERENCE, self.settings.reference, self.frames.itemsize))
        if self.frames.itemsize in WORD_SIZES[1:]:  # from zeros: bytes are sorted, and that is all
            ways.append(residuals.prediction_code(residuals.REFERENCE, 0, self.frames.itemsize))
        self.level = self.levels[0]
        least = self._sizes(self.level, residuals.NO_PREDICTION).sum()
        for prediction in ways:
            nbytes = self._sizes(self.level, prediction).sum()
            if nbytes < CLEARLY * least:
                least, self.prediction = nbytes, prediction

    def _find_level(self) -> None:
        for level in self.levels:
            if level.level >= SLOW_LEVEL and self.packed.mean() > SIMPLE_SHARE * self.raw:
                break
            sizes = self._sizes(level, self.prediction)
            if sizes.sum() < CLEARLY * self.packed.sum():
                self.packed, self.level = sizes, level

    def _find_book(self, together: npt.NDArray[np.uint8]) -> None:
        """Chooses a codebook if frames take less by it than by zstd: the one in use, or a new one if that is better."""
        now, least = self.settings.prediction, CLEARLY * self.packed.sum()
        if residuals.predictor(now) == residuals.BOOK:
            sizes = sizes_of(self.sample, now, self.frames.references, None)
            if sizes.sum() < least:
                self.packed, self.prediction, least = sizes, now, ANOTHER_BOOK_SHARE * sizes.sum()
        if len(self.frames.references) < MOST_REFERENCES:
            book = codebook_learning.learn(together, self.frames.itemsize)
            prediction = residuals.prediction_code(residuals.BOOK, len(self.frames.references), 1)
            sizes = sizes_of(self.sample, prediction, [*self.frames.references, book], None)
            if sizes.sum() < least:
                self.packed, self.prediction, self.book = sizes, prediction, book

    def _sizes(self, level: Zstd, prediction: int) -> npt.NDArray[np.int64]:
        return sizes_of(self.sample, prediction, self.frames.references, level)

    def _distances(self) -> list[int]:
        """Returns how many bytes before a pixel its neighbours along each axis are."""
        layout, shape = self.settings.layout, list(self.frames.item_shape)
        if layout.width:
            shape[layout.axis] = layout.width
        steps = {prod(shape[axis + 1 :]) * self.frames.itemsize for axis in range(len(shape))}
        return sorted(step for step in steps if NEAREST <= step <= self.raw // 2)

    @property
    def zstd_threshold(self) -> int:
        """The size in bytes above which changes are also tried with zstd.

        Not to try the others makes frames at most `CLEARLY` larger, or leaves them negligible.
        """
        order = np.argsort(self.changes)
        lost = np.cumsum(np.maximum(self.changes - self.packed, 0)[order])
        least = np.minimum(self.changes, self.packed).sum()
        enough = max(least / CLEARLY, self._negligible_nbytes * len(lost)) - least
        count = int(np.searchsorted(lost, enough, side="right"))
        return int(self.changes[order[count - 1]]) if count else int(self.packed.min()) // 2

    @property
    def by_zstd(self) -> Cost:
        """The cost of each frame by zstd alone."""
        nbytes = float(np.minimum(self.packed, self.raw).mean())
        return Cost(nbytes, self._copy_ns + self._depth * (self._zstd_call_ns + PER_ZSTD_BYTE * nbytes))

    def by_changes_or_zstd(self, capacity: int) -> Cost:
        """Returns the cost of each frame as changes, or by zstd where it pays, in groups of `capacity` frames."""
        through = (self.packed < self.changes) & (self.changes > self.zstd_threshold)
        least = np.minimum(np.where(through, self.packed, self.changes), self.raw)
        # A walk begins at the last frame before those of an item that needs no other.
        share = float(through.mean())
        back = min((capacity - 1) / 2, (1 - share) / max(share, 1 / SLOTS))
        first = self._zstd_call_ns + PER_ZSTD_BYTE * float(self.packed.mean()) if self.levels else 0.0
        each = share * first + PER_CHANGED_BYTE * float(np.where(through, 0, self.changes).mean())
        return Cost(float(least.mean()), self._copy_ns + first + (self._depth + back - 1) * each)

    def by_groups(self, codec: Any, *, expects_dictionary: bool) -> Cost:
        """Returns the cost of changes in groups that a codec packs, for which there may soon be a better one."""
        parts = [b"".join(run) for run in self._changes]
        count = sum(map(len, self.runs))
        plain, nbytes = sum(map(len, parts)) / count, sum(len(codec.encode(p)) for p in parts if p) / count
        if expects_dictionary:
            nbytes *= DICTIONARY_SHARE
        capacity = min(max(GROUP_BYTES / max(plain, 1), FEWEST_FRAMES), SLOTS)
        unpack = (1 + (self._depth - 1) / capacity) * (
            CALL + (PER_ZSTD_BYTE * nbytes + PER_MADE_BYTE * plain) * capacity
        )
        walk = (self._depth + (capacity - 1) / 2) * PER_CHANGED_BYTE * plain
        return Cost(nbytes, self._copy_ns + walk + unpack)

    def score(self, cost: Cost) -> float:
        """Returns the score of a cost, by which ways to write are compared; lower is better."""
        return math.log2(max(cost.nbytes, self._negligible_nbytes)) + math.log2(cost.read_ns) / 2

    @property
    def _negligible_nbytes(self) -> float:
        return NEGLIGIBLE_SHARE * self.frames.item_nbytes * min(self._depth, NEGLIGIBLE_DEPTH) / NEGLIGIBLE_DEPTH

    @property
    def _depth(self) -> int:
        return self.settings.layout.depth

    @property
    def _zstd_call_ns(self) -> float:
        """The nanoseconds that zstd takes to make a frame, besides those for each byte that it is given."""
        return CALL + PER_MADE_BYTE * self.settings.layout.frame_nbytes

    @property
    def _copy_ns(self) -> float:
        return ITEM + PER_BYTE * self.frames.item_nbytes


def sizes_of(
    sample: npt.NDArray[np.uint8], prediction: int, references: list[Bytes], level: Any
) -> npt.NDArray[np.int64]:
    """Returns how many bytes frames take by zstd, with a prediction, or by a codebook."""
    head = len(residuals.code_bytes(prediction))
    if residuals.predictor(prediction) == residuals.BOOK:
        book = references[prediction >> residuals.NUMBER_AT]
        return np.array([codebooks.size_of(frame, book) + head for frame in sample])
    left = [
        frame if prediction == residuals.NO_PREDICTION else residuals.subtract_prediction(frame, prediction, references)
        for frame in sample
    ]
    return np.asarray(level.encode_parts(Payloads.from_parts(left)).size + head)


def _changes(frame: Bytes, last: Bytes | None, bases: list[Bytes]) -> bytes:
    """Returns the fewest changes that turn the last frame, or one of the bases, into a frame."""
    least = frame.tobytes() if last is None else min(encode_changes(frame, last), frame.tobytes(), key=len)
    for base in bases:
        if len(least) * SMALL_ENOUGH <= frame.size:
            break
        least = min(least, encode_changes(frame, base), key=len)
    return least
