"""Groups: the unit in which frames are stored, found, counted and forgotten. What a record number means is said here.

A lane's new frames form groups of up to `SLOTS`. Record number `group * SLOTS + slot + 1` is the item that ends with
that frame: the last `depth` frames of the lane up to it, of which the first may lie in the group before, never farther
back. So an item needs no entry of its own, and a group is needed by the items that end in it and by those that end in
the first slots of the next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Words
from compressed_array._stores.frames.kernel_records import Table
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs.delta import LONGEST_GROUP

SLOTS = LONGEST_GROUP
MOST_GROUPS = 2**32 // SLOTS - 1
TAG_BITS = 56
ADDRESS_MASK = (1 << TAG_BITS) - 1
# What a group's bytes are: records with a header each, frames as they are, records that went through codec number
# `tag - FIRST_PACKED` of the store, or frames narrowed. 0 is a group that is not in use.
RECORDS, PLAIN, FIRST_PACKED, NARROW = 1, 2, 3, 64
# What a record is: the changes since the frame before, the changes from a reference, a zstd frame or words by a
# codebook, the frame itself.
SINCE_LAST, FROM_REFERENCE, ZSTD, RAW_FRAME = range(4)
KIND_BITS = 2

# `where` is the tag and the heap's address in one word, which a reader fetches in one piece while a writer changes it.
# `before` is the number of the lane's last group plus one, or 0.
GROUP = np.dtype(
    [("where", "i8"), ("size", "u4"), ("before", "u4"), ("references", "u4"), ("count", "u1"), ("layout", "u1")],
    align=True,
)


# What `Groups.counts` counts: groups to be had, groups nobody needs any more, groups that are full; items that were
# ever written, of them those with another before them in their lane, and the frames that were new in those.
FREE, DEAD, FULL, ITEMS, FOLLOWING, NEW = range(6)
LISTED = 256
# What writing items and putting them into cells in one call says, if all of it was done.
PUT, PUT_AND_DIED = -1, -2  # the latter if there are many dead groups now
MANY = 16  # Groups that are dead, or full, are seen to some at a time: Python takes as long for one as for many.


class Groups:
    """The table of groups, and lists of some, in which an engine takes, leaves and reports groups by itself.

    Readers may hold an older table, which stays right for every group they know of.
    """

    def __init__(self) -> None:
        self.table: Table = np.zeros(0, GROUP)
        self.counts: Words = np.zeros(NEW + 1, np.int64)
        self.free: Words = np.zeros(0, np.int64)
        self.dead: Words = np.zeros(LISTED, np.int64)
        self.full: Words = np.zeros(LISTED, np.int64)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.free.nbytes + self.dead.nbytes + self.full.nbytes

    def grow(self) -> None:
        """Make some more groups."""
        made, free = len(self.table), int(self.counts[FREE])
        more = min(made // 8 + 64, MOST_GROUPS - made)
        if not more:
            raise MemoryError(f"a store holds at most {MOST_GROUPS} groups of frames; use several stores")
        table = np.zeros(made + more, GROUP)
        table[:made] = self.table
        self.free = np.concatenate(
            [np.arange(made + more - 1, made - 1, -1), self.free[:free], np.zeros(made, np.int64)]
        )
        self.table, self.counts[FREE] = table, free + more

    def forget(self, groups: Words) -> None:
        """Make groups free for others."""
        self.table[groups] = np.zeros((), GROUP)
        listed = self.full[: self.counts[FULL]]
        full = listed[self.table["where"][listed] != 0]  # whoever gets a number next has not filled its group
        self.full[: len(full)], self.counts[FULL] = full, len(full)
        free = int(self.counts[FREE])
        self.free[free : free + len(groups)] = groups
        self.counts[FREE] = free + len(groups)

    def take_dead(self) -> Words:
        """Returns the groups that were found dead since the last call."""
        return self._take(self.dead, DEAD)

    def take_full(self) -> Words:
        """Returns the groups that were filled since the last call."""
        return self._take(self.full, FULL)

    def _take(self, listed: Words, which: int) -> Words:
        taken = listed[: self.counts[which]].copy()
        self.counts[which] = 0
        return taken

    def in_use(self) -> npt.NDArray[np.intp]:
        """Returns the groups that hold frames."""
        return np.flatnonzero(self.table["where"])

    def in_segment(self, segment: int, offset_bits: int) -> npt.NDArray[np.intp]:
        """Returns the groups whose bytes lie in a segment of the heap."""
        where = self.table["where"]
        return np.flatnonzero(((where & ADDRESS_MASK) >> offset_bits == segment) & (where != 0))


def split_numbers(numbers: RecordNumbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the groups and slots that written record numbers stand for."""
    last = numbers.astype(np.int64) - 1
    return last // SLOTS, last % SLOTS
