"""`TransitionSampler`: which transitions of a buffer can be drawn, and which of them random numbers pick."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.sampling import PriorityTree, Ring, importance_weights, priorities_of
from compressed_array_sb3 import BufferOptionError
from compressed_array_sb3._priority_arguments import check_exponents, still_held

Ints = npt.NDArray[np.int64]
STRATA = 2**53  # as many as a float tells apart


class TransitionSampler:
    """Counts the steps of a buffer, and draws by priority if there is an `alpha`, else uniformly.

    A step in one environment has a number that is never used again.
    """

    def __init__(self, rows: int, lanes: int, alpha: float | None, epsilon: float) -> None:
        check_exponents(alpha or 0.0, epsilon)
        self.ring = Ring(rows, lanes)
        self.tree = None if alpha is None else PriorityTree(self.ring.size)
        self._alpha, self._epsilon = alpha or 0.0, epsilon
        self._largest = 1.0  # of all priorities so far, to the power of alpha
        self._offset = 0  # how many steps more the ring has counted than the buffer

    def count(self, steps: int, rows: int, row: int) -> None:
        """Counts steps up to `steps` in all, after which the buffer holds `rows` rows and writes to `row` next."""
        ring, tree = self.ring, self.tree
        added = steps + self._offset - ring.steps
        added += (row - ring.row - added) % ring.capacity  # and those that an interrupt kept the buffer from counting
        if added < 0 or min(len(ring) + added, ring.capacity) != rows:  # the buffer was filled from another one
            ring.clear()
            added = row + ring.capacity if rows == ring.capacity else rows
            if tree is not None:
                tree.clear()
        if tree is not None and added:
            last = ring.steps + added
            first = max(ring.steps, last - ring.capacity)
            tree.update(ring.positions(np.arange(first * ring.lanes, last * ring.lanes)), self._largest)
        self._offset = ring.steps + added - steps
        ring.advance(added)  # last: steps that an interrupt keeps from being counted get their priority again

    def clear(self) -> None:
        """Forgets all steps and their priorities; the buffer counts from 0 again."""
        self.ring.clear()
        self._offset = self.ring.steps
        if self.tree is not None:
            self.tree.clear()
            self._largest = 1.0

    def draw(self, words: Ints) -> Ints:
        """Returns positions, in no order. The same words pick the same ones until steps or priorities change."""
        if self.tree is not None:
            # A tree's draws are sorted by position: each part of a batch would come from one part of the buffer.
            return self.tree.draw(words % STRATA / STRATA)[np.argsort(words, kind="stable")]
        drawn: Ints = self.ring.draw(words)
        return drawn

    def weights(self, positions: Ints, beta: float) -> npt.NDArray[np.float32] | None:
        """Returns the weights of losses, or None where draws are uniform."""
        return None if self.tree is None else importance_weights(self.tree, positions, beta)

    def update(self, indices: Any, td_errors: Any) -> None:
        """Sets the priorities of those of some transitions that are still held."""
        if self.tree is None:
            raise BufferOptionError("this buffer has no priorities: give it an alpha, as in alpha=0.6")
        numbers, errors = np.asarray(indices).reshape(-1), np.asarray(td_errors, np.float64).reshape(-1)
        if numbers.shape != errors.shape:
            raise ValueError(f"{len(errors)} errors for {len(numbers)} transitions")
        is_held = still_held(self.ring, numbers)
        priorities = priorities_of(errors[is_held], self._alpha, self._epsilon)
        self.tree.update(self.ring.positions(numbers[is_held]), priorities)
        self._largest = max(self._largest, float(priorities.max(initial=0.0)))
