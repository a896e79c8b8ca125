"""`Ring`: which steps a buffer that writes over its oldest ones holds, by numbers that are never used again."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.errors import NothingToSampleError

StepNumbers = npt.NDArray[np.int64]


class Ring:
    """Counts the steps of a buffer that writes over its oldest ones.

    What lane `l` did in step `s` has the number `s * lanes + l`. Its position in the buffer, with the rows one after
    the other, is that number modulo `capacity * lanes`; once it is written over, `is_held` of the number is False, so a
    number that was kept for later cannot be taken for what came to its place.

    Args:
        capacity: How many rows the buffer has, one for each step.
        lanes: How many environments are written in each row at once.

    >>> ring = Ring(capacity=3, lanes=2)
    >>> ring.advance(4)
    >>> len(ring), ring.row, ring.is_held(1), ring.is_held(2)
    (3, 1, False, True)
    """

    def __init__(self, capacity: int, lanes: int = 1) -> None:
        self.capacity, self.lanes = operator.index(capacity), operator.index(lanes)
        if self.capacity < 1 or self.lanes < 1:
            raise ValueError(f"a ring has at least one row and one lane, not {capacity} and {lanes}")
        self.oldest = self.steps = 0  # the first step that is held, and the first that is not yet written

    def __len__(self) -> int:
        """Returns how many rows are held."""
        return self.steps - self.oldest

    @property
    def count(self) -> int:
        """Returns how many numbers are held: rows times lanes."""
        return (self.steps - self.oldest) * self.lanes

    @property
    def size(self) -> int:
        """Returns how many positions there are: capacity times lanes."""
        return self.capacity * self.lanes

    @property
    def row(self) -> int:
        """Returns the row that the next step is written to."""
        return self.steps % self.capacity

    @property
    def is_full(self) -> bool:
        """Whether the next step is written over the oldest one."""
        return self.steps - self.oldest >= self.capacity

    def next_rows(self, steps: int) -> list[slice]:
        """Returns the rows that the next steps are written to: one slice, or two.

        Args:
            steps: How many there will be, at most `capacity`.
        """
        behind = max(self.row + steps - self.capacity, 0)
        rows = [slice(self.row, self.row + steps - behind), slice(0, behind)]
        return [part for part in rows if part.stop > part.start]

    def make_room(self, steps: int = 1) -> None:
        """Lets go of what the next steps are written over; to be called before they are written.

        Args:
            steps: How many there will be.
        """
        self.oldest = max(self.oldest, self.steps + steps - self.capacity)

    def advance(self, steps: int = 1) -> None:
        """Counts steps that were written, each over the oldest one if the ring is full.

        Args:
            steps: How many were written.
        """
        if steps < 0:
            raise ValueError(f"a ring does not go back, and so not on by {steps} steps")
        self.make_room(steps)
        self.steps += steps

    def clear(self) -> None:
        """Holds nothing any more, and begins again with the first row. Numbers go on, so that none is used again."""
        self.oldest = self.steps = -(-self.steps // self.capacity) * self.capacity

    def draw(self, words: Any) -> Any:
        """Returns positions that are held, each as likely as any other.

        In a ring that is full the same words pick the same positions, however often it goes round.

        Args:
            words: Random whole numbers, an array or a tensor, none of them negative. They should be much larger than
                `count`, since their remainders pick the positions.
        """
        count, first = self.count, self.oldest * self.lanes % self.size
        if not count:
            raise NothingToSampleError
        drawn = words % count
        return drawn if count == self.size or not first else (drawn + first) % self.size

    def positions(self, numbers: Any) -> Any:
        """Returns the positions in the buffer where steps are, or were.

        Args:
            numbers: The numbers of the steps, an array or a tensor.
        """
        return numbers % self.size

    def is_held(self, numbers: Any) -> Any:
        """Whether steps are still held, for each of them.

        Args:
            numbers: The numbers of the steps, an array or a tensor.
        """
        return (numbers >= self.oldest * self.lanes) & (numbers < self.steps * self.lanes)

    def number_at(self, positions: Any) -> Any:
        """Returns the numbers of the steps that are held at some positions.

        Args:
            positions: The positions in the buffer, an array or a tensor.
        """
        first = self.oldest * self.lanes
        return (positions - first) % self.size + first

    def following(self, numbers: Any, offsets: Any) -> Any:
        """Returns the numbers of steps that come later in the same lanes, held or not: (*numbers.shape, offsets).

        Args:
            numbers: The numbers of the steps that they follow, an array or a tensor.
            offsets: How many steps later each of them comes; 0 for the step itself.
        """
        return numbers[..., None] + offsets * self.lanes

    def state_dict(self) -> dict[str, int]:
        """Returns what `load_state_dict` of a ring of the same size takes."""
        return {"capacity": self.capacity, "lanes": self.lanes, "oldest": self.oldest, "steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Takes over the state of a ring of the same size.

        Args:
            state: What `state_dict` returned. Another one is refused and changes nothing.
        """
        if (state["capacity"], state["lanes"]) != (self.capacity, self.lanes):
            raise ValueError(
                f"this is the state of a ring of {state['capacity']} rows and {state['lanes']} lanes; here it is "
                f"{self.capacity} and {self.lanes}"
            )
        oldest, steps = operator.index(state["oldest"]), operator.index(state["steps"])
        if not 0 <= oldest <= steps <= oldest + self.capacity:
            raise ValueError(f"a ring of {self.capacity} rows does not hold the steps from {oldest} to {steps}")
        self.oldest, self.steps = oldest, steps
