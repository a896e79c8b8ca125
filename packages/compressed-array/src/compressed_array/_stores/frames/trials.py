"""What the last frames of a stream would take in each way of writing them, tried on some of them, and how long a read
would take, reckoned from that. No clock is looked at, so equal streams are written alike.

Half of the bytes are worth a read that takes four times as long, as in `recommend`; but an item that takes less than a
`LITTLE` of itself takes little enough, and then only the read counts. That is for stacks, of which each frame is shown
several times: of items without a stack it is a quarter.
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
from compressed_array._stores.frames.groups import SLOTS
from compressed_array._stores.frames.lanes import ENOUGH
from compressed_array._stores.frames.settings import WriteSettings
from compressed_array._stores.frames.tables import MOST_REFERENCES, Frames
from compressed_array.codecs.delta import encode_changes
from compressed_array.codecs.zstd import Zstd

# In the order of their speed: a level is chosen if it takes clearly less space than those before, and one of the slow
# ones only for frames that are simple, where it is not slow.
ZSTD_LEVELS, SLOW_LEVEL, SIMPLE = (1, 3, 6, 9), 9, 1 / 20
CLEARLY, NEARLY = 0.95, 0.98  # the latter for another codebook
NEAREST = 16  # bytes: what is nearer cannot be put back many bytes at a time
LITTLE, SHOWN = 1 / 112, 4
# What a group of changes should come to, which bounds the walk to a frame in it.
GROUP_BYTES, FEWEST_FRAMES = 3 * 1024, 8
BY_DICTIONARY = 0.7  # what groups take with a dictionary, of what they take without: 0.55 to 0.85 for games of Atari
# Nanoseconds: for an item and for each byte of it; for a call of zstd's, each byte that it is given and that it makes;
# for each byte of changes. Roughly, as measured: elsewhere all of them take twice as long or half.
ITEM, PER_BYTE, CALL, PER_ZSTD_BYTE, PER_MADE_BYTE, PER_CHANGED_BYTE = 1000.0, 0.05, 1000.0, 2.0, 0.05, 0.35


class Way(NamedTuple):
    """A way to write frames: the bytes that one takes, and the nanoseconds that an item takes to read."""

    nbytes: float
    read: float


@dataclass
class Trial:
    """Runs of frames that followed each other, and what they come to."""

    frames: Frames
    settings: WriteSettings
    runs: list[npt.NDArray[np.uint8]]
    levels: list[Zstd]
    foretold: int = residuals.AS_IT_IS
    level: Zstd | None = None
    book: Bytes | None = None  # a new one, which `foretold` takes to be the next reference

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
            self._find_what_is_foretold()
            self._find_level()
        if self.frames.itemsize in codebooks.WORD_SIZES and self.raw % self.frames.itemsize == 0:
            self._find_book(np.concatenate(self.runs))

    def _find_what_is_foretold(self) -> None:
        """Find what zstd, at the first level, had best be given."""
        ways = [residuals.word(residuals.BEFORE, distance, self.frames.itemsize) for distance in self._distances()]
        if self.settings.reference:
            ways.append(residuals.word(residuals.REFERENCE, self.settings.reference, self.frames.itemsize))
        if self.frames.itemsize in residuals.SIZES[1:]:  # against nothing: bytes are sorted, and that is all
            ways.append(residuals.word(residuals.REFERENCE, 0, self.frames.itemsize))
        self.level = self.levels[0]
        least = self._sizes(self.level, residuals.AS_IT_IS).sum()
        for how in ways:
            nbytes = self._sizes(self.level, how).sum()
            if nbytes < CLEARLY * least:
                least, self.foretold = nbytes, how

    def _find_level(self) -> None:
        for level in self.levels:
            if level.level >= SLOW_LEVEL and self.packed.mean() > SIMPLE * self.raw:
                break
            sizes = self._sizes(level, self.foretold)
            if sizes.sum() < CLEARLY * self.packed.sum():
                self.packed, self.level = sizes, level

    def _find_book(self, together: npt.NDArray[np.uint8]) -> None:
        """Use a codebook if it makes less of frames than zstd: the one in use, or another that suits them better."""
        now, least = self.settings.foretold, CLEARLY * self.packed.sum()
        if residuals.foretells(now) == residuals.BOOK:
            sizes = sizes_of(self.sample, now, self.frames.references, None)
            if sizes.sum() < least:
                self.packed, self.foretold, least = sizes, now, NEARLY * sizes.sum()
        if len(self.frames.references) < MOST_REFERENCES:
            book = codebook_learning.learn(together, self.frames.itemsize)
            how = residuals.word(residuals.BOOK, len(self.frames.references), 1)
            sizes = sizes_of(self.sample, how, [*self.frames.references, book], None)
            if sizes.sum() < least:
                self.packed, self.foretold, self.book = sizes, how, book

    def _sizes(self, level: Zstd, how: int) -> npt.NDArray[np.int64]:
        return sizes_of(self.sample, how, self.frames.references, level)

    def _distances(self) -> list[int]:
        """Returns how many bytes before a pixel its neighbours along each axis are."""
        layout, shape = self.settings.layout, list(self.frames.item_shape)
        if layout.width:
            shape[layout.axis] = layout.width
        steps = {prod(shape[axis + 1 :]) * self.frames.itemsize for axis in range(len(shape))}
        return sorted(step for step in steps if NEAREST <= step <= self.raw // 2)

    @property
    def worth_zstd(self) -> int:
        """Up to how many bytes changes need not go to zstd, so that they take little, or nearly as little."""
        order = np.argsort(self.changes)
        lost = np.cumsum(np.maximum(self.changes - self.packed, 0)[order])
        least = np.minimum(self.changes, self.packed).sum()
        enough = max(least / CLEARLY, self._little * len(lost)) - least
        count = int(np.searchsorted(lost, enough, side="right"))
        return int(self.changes[order[count - 1]]) if count else int(self.packed.min()) // 2

    @property
    def by_zstd(self) -> Way:
        """Each frame by zstd alone."""
        nbytes = float(np.minimum(self.packed, self.raw).mean())
        return Way(nbytes, self._copy + self._depth * (self._call + PER_ZSTD_BYTE * nbytes))

    def by_least(self, capacity: int) -> Way:
        """Each frame as changes, or by zstd where that is worth it; with so many frames in a group."""
        through = (self.packed < self.changes) & (self.changes > self.worth_zstd)
        least = np.minimum(np.where(through, self.packed, self.changes), self.raw)
        # A walk begins at the last frame before those of an item that needs no other.
        share = float(through.mean())
        back = min((capacity - 1) / 2, (1 - share) / max(share, 1 / SLOTS))
        first = self._call + PER_ZSTD_BYTE * float(self.packed.mean()) if self.levels else 0.0
        each = share * first + PER_CHANGED_BYTE * float(np.where(through, 0, self.changes).mean())
        return Way(float(least.mean()), self._copy + first + (self._depth + back - 1) * each)

    def by_groups(self, codec: Any, *, expects_dictionary: bool) -> Way:
        """Changes, and whole groups through a codec, of which there may soon be a better one."""
        parts = [b"".join(run) for run in self._changes]
        count = sum(map(len, self.runs))
        plain, nbytes = sum(map(len, parts)) / count, sum(len(codec.encode(p)) for p in parts if p) / count
        if expects_dictionary:
            nbytes *= BY_DICTIONARY
        capacity = min(max(GROUP_BYTES / max(plain, 1), FEWEST_FRAMES), SLOTS)
        unpack = (1 + (self._depth - 1) / capacity) * (
            CALL + (PER_ZSTD_BYTE * nbytes + PER_MADE_BYTE * plain) * capacity
        )
        walk = (self._depth + (capacity - 1) / 2) * PER_CHANGED_BYTE * plain
        return Way(nbytes, self._copy + walk + unpack)

    def score(self, way: Way) -> float:
        """How a way compares; lower is better."""
        return math.log2(max(way.nbytes, self._little)) + math.log2(way.read) / 2

    @property
    def _little(self) -> float:
        return LITTLE * self.frames.record_nbytes * min(self._depth, SHOWN) / SHOWN

    @property
    def _depth(self) -> int:
        return self.settings.layout.depth

    @property
    def _call(self) -> float:
        """The nanoseconds for a frame out of zstd, whatever goes in."""
        return CALL + PER_MADE_BYTE * self.settings.layout.frame_nbytes

    @property
    def _copy(self) -> float:
        return ITEM + PER_BYTE * self.frames.record_nbytes


def sizes_of(sample: npt.NDArray[np.uint8], how: int, references: list[Bytes], level: Any) -> npt.NDArray[np.int64]:
    """Returns how many bytes frames take by zstd, given what is left of them, or by a codebook."""
    head = len(residuals.head(how))
    if residuals.foretells(how) == residuals.BOOK:
        book = references[how >> residuals.NUMBER_AT]
        return np.array([codebooks.size_of(frame, book) + head for frame in sample])
    left = [frame if how == residuals.AS_IT_IS else residuals.taken(frame, how, references) for frame in sample]
    return np.asarray(level.encode_parts(Payloads.from_parts(left)).size + head)


def _changes(frame: Bytes, last: Bytes | None, bases: list[Bytes]) -> bytes:
    """Returns the least changes that make a frame, of the last one or of one of the bases."""
    least = frame.tobytes() if last is None else min(encode_changes(frame, last), frame.tobytes(), key=len)
    for base in bases:
        if len(least) * ENOUGH <= frame.size:
            break
        least = min(least, encode_changes(frame, base), key=len)
    return least
