"""Groups: the unit in which frames are stored, found, counted and freed, and what a record number means.

A lane's new frames form groups of up to `SLOTS`. Record number `group * SLOTS + slot + 1` is the item that ends with
that frame: the last `depth` frames of the lane up to it, of which the first may lie in the group before, never farther
back. So an item needs no entry of its own, and a group is needed by the items that end in it and by those that end in
the first slots of the next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Words
from compressed_array._stores.base import ADDRESS_MASK as ADDRESS_MASK
from compressed_array._stores.base import TAG_BITS as TAG_BITS
from compressed_array._stores.frames.kernel_records import StructArray
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs.delta import LONGEST_GROUP

SLOTS = LONGEST_GROUP
MOST_GROUPS = 2**32 // SLOTS - 1
# What a group's bytes are: records with a header each, frames as they are, records that went through codec number
# `tag - FIRST_PACKED` of the store, or rows packed by bits. 0 is a group that is not in use.
RECORDS, PLAIN_ROWS, FIRST_PACKED, BITPACKED = 1, 2, 3, 64
# What a record is: the changes since the frame before, the changes from a reference, a zstd frame or words by a
# codebook, the frame itself.
SINCE_LAST, FROM_REFERENCE, ZSTD, RAW_FRAME = range(4)
KIND_BITS = 2
KIND_MASK = (1 << KIND_BITS) - 1
WORD_SIZES = (1, 2, 4, 8)  # bytes of an element that is taken for a number

# `where` is the tag and the heap's address in one word, which a reader fetches in one piece while a writer changes it.
# `before` is the number of the lane's last group plus one, or 0. `uses` counts the items and lanes that need the group.
GROUP = np.dtype(
    [("where", "i8"), ("size", "u4"), ("before", "u4"), ("uses", "u4"), ("count", "u1"), ("layout", "u1")],
    align=True,
)


# What `Groups.counts` counts: groups that are free, that nothing needs any more, and that are full; items that were
# ever written, of them those with another before them in their lane, and the frames that were new in those.
FREE, DEAD, FULL, ITEMS, FOLLOWING, NEW = range(6)
LISTED = 256  # dead groups, and full ones, at the most, before they have to be processed
# What `write_items` returns for a row of cells that it has written; the second also asks to reclaim dead groups.
WRITTEN, WRITTEN_WITH_DEAD = -1, -2
# Groups that are dead, or full, are processed so many at a time: Python takes as long for one as for many.
GROUPS_AT_ONCE = 16


class Groups:
    """The table of groups, and the lists of those that are free, dead and full.

    Only a thread that holds the store's `epochs.writing` changes them: engines directly, everybody else by methods.
    Readers may hold an older table, which stays right for every group they know of.
    """

    def __init__(self) -> None:
        self.table: StructArray = np.zeros(0, GROUP)
        self.counts: Words = np.zeros(NEW + 1, np.int64)
        self.free: Words = np.zeros(0, np.int64)
        self.dead: Words = np.zeros(LISTED, np.int64)
        self.full: Words = np.zeros(LISTED, np.int64)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.free.nbytes + self.dead.nbytes + self.full.nbytes

    def grow(self) -> None:
        """Makes some more groups."""
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

    def take_free(self) -> int:
        """Returns a group that was free and is not any more; there has to be one."""
        self.counts[FREE] -= 1
        return int(self.free[self.counts[FREE]])

    def next_free(self, count: int) -> Words:
        """Returns groups that are free, and stay so until `fill`. There are more groups if there were too few."""
        while self.counts[FREE] < count:
            self.grow()
        free = int(self.counts[FREE])
        return self.free[free - count : free][::-1].copy()

    def fill(self, groups: Words, entries: StructArray) -> None:
        """Writes the table entries of groups that `next_free` returned, which are no longer free."""
        self.counts[FREE] -= len(groups)
        self.table[groups] = entries

    def undo_fill(self, groups: Words, free: int) -> None:
        """Makes groups free again after a `fill` that may have failed, before which `free` groups were free."""
        self.counts[FREE] = free
        self.table[groups] = np.zeros((), GROUP)

    def restore(self, entries: StructArray) -> None:
        """Adds groups from outside, numbered from 0, to a table that has none yet."""
        count = len(entries)
        while self.counts[FREE] < count:
            self.grow()
        made = len(self.table)
        self.table[:count] = entries
        self.free = np.append(np.arange(made - 1, count - 1, -1), np.zeros(count, np.int64))
        self.counts[FREE] = made - count

    def move(self, groups: Words, where: Words, size: Words) -> None:
        """Changes where groups lie, and their sizes."""
        # Readers look at the place, in which all is said; the size is the writer's.
        self.table["where"][groups] = where
        self.table["size"][groups] = size

    def add_uses(self, groups: Words) -> None:
        """Counts one more use of each group, as often as it is named."""
        np.add.at(self.table["uses"], groups, np.uint32(1))

    def drop_use(self, group: int) -> bool:
        """Counts one use of a group less. Returns whether it was the last: the caller has to list it as dead."""
        uses = self.table["uses"]
        uses[group] -= 1
        return not uses[group]

    def list_dead(self, groups: Words) -> None:
        """Lists groups as dead, for the next `take_dead`."""
        self._list(groups, self.dead, DEAD)

    def list_full(self, groups: Words) -> None:
        """Lists groups as full, for the next `take_full`."""
        self._list(groups, self.full, FULL)

    def _list(self, groups: Words, listed: Words, which: int) -> None:
        listed[self.counts[which] : self.counts[which] + len(groups)] = groups
        self.counts[which] += len(groups)

    def make_free(self, groups: Words) -> None:
        """Puts the numbers of dead groups back among the free ones."""
        self.table[groups] = np.zeros((), GROUP)
        listed = self.full[: self.counts[FULL]]
        full = listed[self.table["where"][listed] != 0]  # a number that is used again is not that of a full group yet
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

    def in_segment(self, segment: int, offset_bits: int) -> npt.NDArray[np.intp]:
        """Returns the groups whose bytes lie in a segment of the heap."""
        where = self.table["where"]
        return np.flatnonzero(((where & ADDRESS_MASK) >> offset_bits == segment) & (where != 0))


def split_numbers(numbers: RecordNumbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the groups and slots that written record numbers stand for."""
    last = numbers.astype(np.int64) - 1
    return last // SLOTS, last % SLOTS
