"""`LastRow`: what was written last to a store of single items, for arrays that have items in common.

A next observation is the observation of the next step: a buffer writes most items twice, one write after the other. An
item that is equal, byte by byte, to the one at its place in the last row needs no record of its own.
"""

from __future__ import annotations

import numpy as np

from compressed_array._stores.protocol import UNWRITTEN, LaneNumbers, RecordNumbers, Records

# A row of more bytes is not remembered.
MOST_ROW_BYTES = 16 * 2**20
# When so many items have been looked for and fewer than one in so many was found, no more are looked for.
ENOUGH_LOOKED_FOR, FEWEST = 1024, 8


class LastRow:
    """The items of a row, one for each lane, and the numbers of their records."""

    def __init__(self) -> None:
        self.clear()
        self._looked_for = self._found = 0

    @property
    def nbytes(self) -> int:
        return self._row[1].nbytes

    @property
    def gave_up(self) -> bool:
        """Whether items are hardly ever found."""
        return self._looked_for >= ENOUGH_LOOKED_FOR and self._found * FEWEST < self._looked_for

    def clear(self) -> None:
        """Forgets the row."""
        # In one tuple, so that an interrupt finds numbers that belong to the items.
        self._row: tuple[LaneNumbers, Records, RecordNumbers] = (
            np.zeros(0, np.int64),
            np.zeros((0, 0), np.uint8),
            np.zeros(0, np.uint32),
        )

    def find(self, items: Records, lanes: LaneNumbers) -> RecordNumbers:
        """Returns the number of each item that is in the last row at the same place, and UNWRITTEN for all others."""
        found = np.zeros(len(items), np.uint32)
        known, last, numbers = self._row
        if items.shape == last.shape and np.array_equal(lanes, known):
            alike = numbers != UNWRITTEN
            self._looked_for += int(np.count_nonzero(alike))
            alike &= (items[:, ::509] == last[:, ::509]).all(axis=1)  # almost every other item differs in these bytes
            for i in np.flatnonzero(alike).tolist():
                if np.array_equal(items[i], last[i]):
                    found[i] = numbers[i]
            self._found += int(np.count_nonzero(found))
        return found

    def keep(self, items: Records, lanes: LaneNumbers, numbers: RecordNumbers) -> None:
        """Remembers a row instead of the last one. Nobody else may change the items."""
        self._row = lanes.copy(), items, numbers.copy()

    def forget(self, numbers: RecordNumbers) -> None:
        """Forgets records of these numbers, which will be those of other records."""
        lanes, items, known = self._row
        gone = np.isin(known, numbers)
        if gone.any():
            self._row = lanes, items, np.where(gone, np.uint32(UNWRITTEN), known)


def is_row(lanes: LaneNumbers, nbytes: int) -> bool:
    """Whether items of these lanes, of so many bytes together, are a row to remember: each lane has one of them."""
    return nbytes <= MOST_ROW_BYTES and bool((lanes[1:] > lanes[:-1]).all())
