"""`Timeline`: which steps a recording holds, in which rows they lie, and where episodes begin and end.

Steps are numbered from 0 on and never renumbered. Without a size, step `n` lies in row `n`; in a ring of `size` rows it
lies in row `n % size`, and the oldest step that is held moves on once all rows are used.
"""

from __future__ import annotations

import operator
from typing import NamedTuple


class Span(NamedTuple):
    """The steps of one episode that are held: from `first` to before `stop`."""

    number: int  # how many episodes there were before it, gone ones too
    first: int
    stop: int
    has_start: bool  # False for one whose first steps were written over
    has_end: bool  # False for the one that is being played


class Timeline:
    """The counts of a recording, without its data."""

    def __init__(self, size: int | None = None) -> None:
        self.size = None if size is None else operator.index(size)
        if self.size is not None and self.size < 1:
            raise ValueError(f"a ring has at least one row, not {size}; leave the size out for a recording that grows")
        self.oldest = self.steps = 0  # the first step that is held, and the first that was not yet played
        self.starts = [0]  # the first step of each episode of which any is held, and of the one being played
        self.number = 0  # of the episode that begins with starts[0]

    def __len__(self) -> int:
        return self.steps - self.oldest

    @property
    def row(self) -> int:
        """The row for the next step."""
        return self.steps if self.size is None else self.steps % self.size

    @property
    def rows_used(self) -> int:
        """How many rows were ever written, which are the first ones."""
        return self.steps if self.size is None else min(self.steps, self.size)

    def rows(self, first: int, stop: int) -> list[slice]:
        """Returns where the steps from `first` to before `stop` lie, in their order: in one piece, or in two."""
        if self.size is None:
            return [slice(first, stop)]
        low, high = first % self.size, first % self.size + stop - first
        if high <= self.size:
            return [slice(low, high)]
        return [slice(low, self.size), slice(0, high - self.size)]

    def make_room(self) -> None:
        """Drops the step that the next one is written over."""
        if self.size is not None:
            self.oldest = max(self.oldest, self.steps + 1 - self.size)

    def advance(self) -> None:
        """Counts a step that was written."""
        self.make_room()
        self.steps += 1
        while len(self.starts) > 1 and self.starts[1] <= self.oldest:
            del self.starts[0]
            self.number += 1

    def end_episode(self) -> None:
        """Begins another episode with the next step, if the last one has any steps."""
        if self.starts[-1] < self.steps:
            self.starts.append(self.steps)

    def spans(self) -> list[Span]:
        """Returns the episodes of which steps are held, oldest first."""
        stops = [*self.starts[1:], self.steps]
        return [
            Span(self.number + i, max(start, self.oldest), stop, start >= self.oldest, i + 1 < len(self.starts))
            for i, (start, stop) in enumerate(zip(self.starts, stops, strict=True))
            if stop > max(start, self.oldest)
        ]
