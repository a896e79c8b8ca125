"""`Windows`: the sequences of steps that can be taken out of a ring, and drawing some of them.

A window never crosses the ring's seam, from the newest step to the oldest, and never a lane. Each step costs a few
words to keep account of, and drawing costs nothing that grows with the ring.
"""

from __future__ import annotations

import operator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Words
from compressed_array.errors import NothingToSampleError
from compressed_array.sampling._ring import Ring, StepNumbers

Boundary = Literal["stop", "pad", "cross"]
Mask = npt.NDArray[np.bool_]
# Flags of a step: it begins an episode; it does not follow the step in the row before.
BEGINS, CUT = 1, 2


class WindowBatch(NamedTuple):
    """Windows of steps, in arrays of shape (windows, length)."""

    numbers: StepNumbers  # of the steps, as the ring has them; where `is_valid` is False, that of the last valid one
    is_valid: Mask  # whether there is a step
    is_first: Mask  # whether an episode begins with the step
    positions: Words  # where in the buffer the steps are


class Known(NamedTuple):
    """What the steps before `steps` come to. Replaced as a whole, so that an interrupt leaves all of it or nothing."""

    oldest: int
    steps: int
    first: int  # of the queue of windows, and how many are in it
    windows: int
    run: Words  # how many steps a window may reach back, in each lane
    has_ended: Mask


class Windows:
    """The windows of steps that follow each other in a ring. They may begin with any step, so they overlap.

    Args:
        ring: What counts the steps.
        length: How many steps a window has.
        boundary: What happens where an episode ends. With "stop" no window goes beyond it. With "pad" windows may begin
            anywhere, and what is behind the end of the episode, or behind the newest step, is marked as not valid. With
            "cross" windows go on with the next episode, which `is_first` shows.

    >>> import numpy as np
    >>> from compressed_array.sampling import Ring, Windows
    >>> ring = Ring(capacity=1000)
    >>> windows = Windows(ring, length=2)
    >>> for has_ended in (False, False, True, False):
    ...     windows.append(has_ended)
    ...     ring.advance()
    >>> windows.count, windows.draw(np.arange(2)).numbers.tolist()
    (2, [[0, 1], [1, 2]])
    """

    def __init__(self, ring: Ring, length: int, boundary: Boundary = "stop") -> None:
        if boundary not in get_args(Boundary):
            raise ValueError(f"boundary is one of {', '.join(map(repr, get_args(Boundary)))}, not {boundary!r}")
        self.ring, self.length, self.boundary = ring, operator.index(length), boundary
        if not 1 <= self.length <= ring.capacity:
            raise ValueError(f"a window has from 1 step to as many as the ring has rows, {ring.capacity}, not {length}")
        self._breaks = CUT if boundary == "cross" else BEGINS | CUT
        self._flags = np.zeros((ring.capacity, ring.lanes), np.uint8)
        self._offsets = np.arange(self.length)
        # The positions of windows' first steps, in the order of time: a queue, since rows are written over in that
        # order. Padded windows are everywhere and need none.
        self._starts = np.zeros(ring.size if boundary != "pad" else 0, np.uint32 if ring.size < 2**32 else np.int64)
        self._in_row = np.zeros(ring.capacity, np.int32)  # how many of them are of a row
        self.clear()

    def clear(self) -> None:
        """Forgets all steps; to be called after `ring.clear()`."""
        lanes = self.ring.lanes
        now = self.ring.steps
        self._known = self._before = Known(now, now, 0, 0, np.zeros(lanes, np.int64), np.ones(lanes, bool))

    @property
    def count(self) -> int:
        """Returns how many windows there are."""
        return self.ring.count if self.boundary == "pad" else self._current().windows

    @property
    def nbytes(self) -> int:
        """Returns how many bytes of memory this takes."""
        return self._flags.nbytes + self._starts.nbytes + self._in_row.nbytes

    def append(self, has_ended: Any, *, begins: Any = None) -> None:
        """Takes note of the next step, before the ring advances by it.

        Args:
            has_ended: In which lanes an episode ends with the step.
            begins: In which lanes an episode begins with it, where it does not follow the last one that was appended,
                as when another source of steps has its turn: no window crosses that.
        """
        ring = self.ring
        ring.make_room()  # what is known of the step in this row is written over here
        known = self._current()
        count = known.windows
        flags = np.zeros(ring.lanes, np.uint8)
        flags[known.has_ended if begins is None else np.asarray(begins, bool)] = BEGINS
        if begins is not None:
            flags |= CUT
        # No window begins before what the ring still holds, which may have dropped more than a row at once.
        run = np.minimum(np.where(flags & self._breaks, 1, known.run + 1), ring.steps - ring.oldest + 1)
        if self.boundary != "pad":
            lanes = np.flatnonzero(run >= self.length)
            start = (ring.steps - self.length + 1) % ring.capacity
            places = (known.first + count + np.arange(len(lanes))) % len(self._starts)
            self._starts[places] = start * ring.lanes + lanes
            # Assigned and not counted, which an interrupt could have done twice. Each row has its turn before it goes.
            self._in_row[start] = len(lanes)
            count += len(lanes)
        self._flags[ring.row] = flags
        self._before, ended = known, np.array(np.broadcast_to(np.asarray(has_ended, bool), ring.lanes))
        self._known = Known(known.oldest, ring.steps + 1, known.first, count, run, ended)

    def draw(self, words: npt.NDArray[np.int64]) -> WindowBatch:
        """Returns windows picked at random, each as likely as any other.

        Args:
            words: Random whole numbers that are not negative, one for each window.
        """
        known = self._current()
        if not self.count:
            raise NothingToSampleError(
                f"no window of {self.length} steps is there yet: add more steps, or ask for shorter windows"
            )
        if self.boundary == "pad":
            return self.at(self.ring.number_at(self.ring.draw(words)))
        places = (words % known.windows + known.first) % len(self._starts)
        return self.at(self.ring.number_at(self._starts[places].astype(np.int64)))

    def at(self, firsts: StepNumbers) -> WindowBatch:
        """Returns the windows that begin with some steps.

        Args:
            firsts: The numbers of these steps, as the ring has them.
        """
        ring = self.ring
        numbers = ring.following(firsts, self._offsets)
        positions = ring.positions(numbers)
        flags = self._flags.reshape(-1)[positions]
        is_valid, is_first = np.ones(numbers.shape, bool), (flags & BEGINS).view(bool)
        if self.boundary == "pad":
            goes_on = (flags[:, 1:] == 0) & (numbers[:, 1:] < ring.steps * ring.lanes)
            np.logical_and.accumulate(goes_on, axis=1, out=is_valid[:, 1:])
            numbers = ring.following(firsts, np.minimum(self._offsets, is_valid.sum(1, keepdims=True) - 1))
            positions, is_first = ring.positions(numbers), is_first & is_valid
        return WindowBatch(numbers, is_valid, is_first, positions)

    def state_dict(self) -> dict[str, Any]:
        """Returns what is known of the steps, in new arrays."""
        return {"flags": self._flags.copy(), "has_ended": self._current().has_ended.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what was known of a ring of the same size, whose own state has to be loaded before.

        Args:
            state: What `state_dict` returned.
        """
        flags, ended = np.asarray(state["flags"]), np.asarray(state["has_ended"])
        if flags.shape != self._flags.shape or flags.dtype != np.uint8 or ended.shape != (self.ring.lanes,):
            raise ValueError(
                f"this is not the state of windows in {self.ring.capacity} rows of {self.ring.lanes} lanes"
            )
        self._flags[...] = flags
        ring, held = self.ring, len(self.ring)
        rows = np.arange(ring.oldest, ring.steps) % ring.capacity
        since = np.where(flags[rows] & self._breaks, np.arange(held)[:, None], 0)
        run = np.arange(held)[:, None] - np.maximum.accumulate(since, axis=0) + 1
        count = 0
        if self.boundary != "pad":
            when, lanes = np.nonzero(run >= self.length)
            starts = rows[when - self.length + 1]
            count = len(starts)
            self._starts[:count] = starts * ring.lanes + lanes
            self._in_row[...] = np.bincount(starts, minlength=ring.capacity)
        last = run[-1] if held else np.zeros(ring.lanes, np.int64)
        run, ended = last.astype(np.int64), ended.astype(bool)
        self._known = self._before = Known(ring.oldest, ring.steps, 0, count, run, ended)

    def _current(self) -> Known:
        """Returns what is known of the steps that the ring holds."""
        # An interrupt, or a write that failed, may have kept the ring from counting the last one.
        known = self._known if self._known.steps == self.ring.steps else self._before
        oldest = self.ring.oldest
        if known.oldest < oldest and self.boundary != "pad":
            # What is said of later rows is of steps that were there before: of these no window is known yet.
            rows = np.arange(known.oldest, min(oldest, known.steps - self.length + 1)) % self.ring.capacity
            dropped = int(self._in_row[rows].sum())
            first = (known.first + dropped) % len(self._starts)
            known = known._replace(oldest=oldest, first=first, windows=known.windows - dropped)
        return known
