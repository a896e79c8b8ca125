"""`Ring`: which steps a buffer holds that writes over its oldest ones, by numbers that are never used again."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.errors import NothingToSampleError

Numbers = npt.NDArray[np.int64]


class Ring:
    """Counts the steps of a buffer of `capacity` rows, in each of which `lanes` environments are written at once.

    What lane `l` did in step `s` has the number `s * lanes + l`. Its position in the buffer, with the rows one after
    the other, is that number modulo `capacity * lanes`; once it is written over, `is_held` of the number is False, so a
    number that was kept for later cannot be taken for what came to its place.
    """

    def __init__(self, capacity: int, lanes: int = 1) -> None:
        self.capacity, self.lanes = operator.index(capacity), operator.index(lanes)
        if self.capacity < 1 or self.lanes < 1:
            raise ValueError(f"a ring has at least one row and one lane, not {capacity} and {lanes}")
        self.oldest = self.steps = 0  # the first step that is held, and the first that is not yet written

    def __len__(self) -> int:
        """The number of rows that are held."""
        return self.steps - self.oldest

    @property
    def count(self) -> int:
        """How many numbers are held."""
        return (self.steps - self.oldest) * self.lanes

    @property
    def size(self) -> int:
        """How many positions there are."""
        return self.capacity * self.lanes

    @property
    def row(self) -> int:
        """The row that the next step is written to."""
        return self.steps % self.capacity

    @property
    def is_full(self) -> bool:
        return self.steps - self.oldest >= self.capacity

    def next_rows(self, steps: int) -> list[slice]:
        """The rows that so many next steps are written to, at most as many as there are: in one piece, or in two."""
        behind = max(self.row + steps - self.capacity, 0)
        rows = [slice(self.row, self.row + steps - behind), slice(0, behind)]
        return [part for part in rows if part.stop > part.start]

    def make_room(self, steps: int = 1) -> None:
        """Hold no longer what the next steps are written over: to be called before they are."""
        self.oldest = max(self.oldest, self.steps + steps - self.capacity)

    def advance(self, steps: int = 1) -> None:
        """Count steps that were written, each over the oldest one if the ring is full."""
        if steps < 0:
            raise ValueError(f"a ring does not go back, and so not on by {steps} steps")
        self.make_room(steps)
        self.steps += steps

    def clear(self) -> None:
        """Hold nothing, and begin again with the first row. Numbers go on, so that none is used again."""
        self.oldest = self.steps = -(-self.steps // self.capacity) * self.capacity

    def draw(self, words: Any) -> Any:
        """Positions that are held, picked by random whole numbers: an array or a tensor, none of them negative.

        The words had better be much larger than `count`, since this takes their remainder. In a ring that is full the
        same words pick the same positions, however often it goes round.
        """
        count, first = self.count, self.oldest * self.lanes % self.size
        if not count:
            raise NothingToSampleError
        drawn = words % count
        return drawn if count == self.size or not first else (drawn + first) % self.size

    def positions(self, numbers: Any) -> Any:
        """Where in the buffer the steps of these numbers are, or were."""
        return numbers % self.size

    def is_held(self, numbers: Any) -> Any:
        """Whether what has these numbers is still there."""
        return (numbers >= self.oldest * self.lanes) & (numbers < self.steps * self.lanes)

    def number_at(self, positions: Any) -> Any:
        """The numbers of the steps that are held at these positions."""
        first = self.oldest * self.lanes
        return (positions - first) % self.size + first

    def following(self, numbers: Any, offsets: Any) -> Any:
        """The numbers of the steps that come so many steps later in the same lane, held or not: (..., offsets)."""
        return numbers[..., None] + offsets * self.lanes

    def state_dict(self) -> dict[str, int]:
        return {"capacity": self.capacity, "lanes": self.lanes, "oldest": self.oldest, "steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Count as a ring of the same size did."""
        if (state["capacity"], state["lanes"]) != (self.capacity, self.lanes):
            raise ValueError(
                f"this is the state of a ring of {state['capacity']} rows and {state['lanes']} lanes; here it is "
                f"{self.capacity} and {self.lanes}"
            )
        oldest, steps = operator.index(state["oldest"]), operator.index(state["steps"])
        if not 0 <= oldest <= steps <= oldest + self.capacity:
            raise ValueError(f"a ring of {self.capacity} rows does not hold the steps from {oldest} to {steps}")
        self.oldest, self.steps = oldest, steps
