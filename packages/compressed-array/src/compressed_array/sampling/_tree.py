"""`PriorityTree`: a sum is what its children add up to now, and a leaf of priority zero is never drawn.

A node has 16 children, and each level is an array, the leaves' first. A parent is always recomputed in one order:
neighbours are added in pairs, then neighbouring pairs, and so on. So nothing drifts, and a tree is the same bit for bit
whichever way its leaves came to be what they are. Prefix sums over a node's children are added pairwise too: they never
decrease and end at the node's sum, and a child of zero adds nothing.

`_tree_kernels` does the same in machine code. Behind the leaves lie the sums of all levels above, then likewise the
least priorities that are not zero, or zero where there is none, then the greatest.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.epochs import Exclusive
from compressed_array._runtime.loading import native
from compressed_array._runtime.memory import CACHE_LINE
from compressed_array.errors import NothingToSampleError, PriorityError
from compressed_array.sampling._tree_nodes import (
    GREATEST,
    LEAST,
    NODE_VALUES,
    SUM,
    WIDTH,
    Floats,
    Ints,
    descend,
    refresh,
)

MASS_SLACK = 2.0**-20  # of the total: by how much a mass may miss it, which numbers of 32 bits do


class PriorityTree:
    """Priorities of things, and drawing things in proportion to them.

    Several threads may share a tree: each call is done before another begins, and a fork waits for it. An update is
    made as a whole or not at all, even if an interrupt ends it: stale inner nodes are recomputed at the next use.
    Without numba, a signal's handler that uses a tree in the middle of its own thread's use gets a `BusyStoreError`.

    Args:
        capacity: How many things, or leaves, there are. All have priority zero to begin with.

    >>> tree = PriorityTree(10)
    >>> tree.update([2, 7], [1.0, 3.0])
    >>> tree.total, tree.draw([0.1, 0.1, 0.1, 0.1]).tolist()
    (4.0, [2, 7, 7, 7])
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = operator.index(capacity)
        if self._capacity < 1:
            raise ValueError(f"a tree has one leaf at least, and not {capacity}")
        # Half of what would do if sums were exact.
        self._limit = sys.float_info.max / 2 / self._capacity
        starts, count = [0], self._capacity
        while count > 1 or len(starts) == 1:
            count = -(-count // WIDTH)
            starts.append(starts[-1] + count * WIDTH)
        self._starts = np.array(starts, np.int64)
        self._span = starts[-1] + WIDTH - starts[1]
        self._words = self._new_words()
        self._is_whole = True  # if not, stale inner nodes are recomputed at the next use
        self._exclusive = Exclusive()

    @property
    def capacity(self) -> int:
        """Returns how many leaves there are."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Returns how many bytes of memory the tree takes: about a fifth more than its leaves."""
        return self._words.nbytes + CACHE_LINE + self._starts.nbytes

    @property
    def total(self) -> float:
        """Returns the sum of all priorities."""
        return self._at_root(SUM)

    @property
    def min(self) -> float:
        """Returns the least priority that is not zero; infinity if there is none."""
        return self._at_root(LEAST) or float("inf")

    @property
    def max(self) -> float:
        """Returns the greatest priority."""
        return self._at_root(GREATEST)

    def __getitem__(self, indices: npt.ArrayLike) -> Floats:
        """Returns the priorities of these leaves."""
        given, places = _places(indices)
        self._check_places(given, places)
        with self._exclusive.writing:
            return self._words[places].reshape(given.shape)

    def update(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Sets the priorities of leaves.

        Args:
            indices: Which leaves; for one that comes several times, the last priority counts.
            priorities: One for each, or one for all. None is negative, and all are finite.
        """
        given, places = _places(indices)
        values = np.asarray(priorities)
        if values.dtype.kind not in "fiub":
            raise TypeError(f"priorities are numbers, and not {values.dtype}")
        if values.shape == given.shape:
            values = _floats(values)
        elif values.ndim == 0:
            values = np.full(places.size, _floats(values))
        else:
            raise PriorityError(f"{values.shape} priorities for {given.shape} leaves: give each one, or all the same")
        kernels = native("sampling._tree_kernels")
        with self._exclusive.writing:
            if not self._is_whole:
                self._heal()
            words, starts, span = self._words, self._starts, self._span
            if kernels and kernels.update(words, starts, span, self._capacity, self._limit, places, values):
                return
            self._check_places(given, places)
            self._check_priorities(values)
            with self._exclusive.guard:
                self._is_whole = False
                words[places] = values + 0.0  # of -0.0 this makes 0.0
                refresh(words, starts, span, places)
                self._is_whole = True

    def find(self, masses: npt.ArrayLike) -> Ints:
        """Returns the leaf for each mass in whose stretch of the cumulative sum of priorities it lies.

        Stretches are exact up to round-off. Whatever that is, the priority of a leaf that is found is not zero.

        Args:
            masses: Numbers from 0 up to the total. One that misses the range by no more than a millionth of it is taken
                for the nearest in it.
        """
        given, rest = _numbers(masses, "masses")
        found = np.empty(rest.size, np.int64)
        kernels = native("sampling._tree_kernels")
        with self._exclusive.writing:
            if not self._is_whole:
                self._heal()
            words, starts = self._words, self._starts
            if not (kernels and kernels.find(words, starts, rest, found)) and rest.size:
                with self._exclusive.guard:
                    total = _nonzero_total(words, starts)
                    slack = total * MASS_SLACK
                    _check_range(rest, -slack, total + slack, f"a mass is from 0 up to the total of {total}")
                    found = descend(words, starts, np.maximum(rest, 0.0))
        return found.reshape(given.shape)

    def draw(self, uniforms: npt.ArrayLike, *, stratified: bool = True) -> Ints:
        """Returns as many leaves as there are random numbers, each as likely as its share of the total.

        Args:
            uniforms: Random numbers from 0 up to 1.
            stratified: Whether the total is divided into as many equal parts, and a leaf drawn from each, in order.
        """
        given, rest = _numbers(uniforms, "random numbers")
        found = np.empty(rest.size, np.int64)
        kernels = native("sampling._tree_kernels")
        with self._exclusive.writing:
            if not self._is_whole:
                self._heal()
            words, starts = self._words, self._starts
            if not (kernels and kernels.draw(words, starts, rest, bool(stratified), found)) and rest.size:
                with self._exclusive.guard:
                    total = _nonzero_total(words, starts)
                    _check_range(rest, 0.0, 1.0, "a leaf is drawn by a random number from 0 up to 1")
                    shares = (np.arange(rest.size) + rest) / rest.size if stratified else rest
                    found = descend(words, starts, shares * total)
        return found.reshape(given.shape)

    def clear(self) -> None:
        """Makes every priority zero."""
        with self._exclusive.writing:
            self._words, self._is_whole = self._new_words(), True

    def state_dict(self) -> dict[str, Floats]:
        """Returns the priorities, which are all that `load_state_dict` needs."""
        with self._exclusive.writing:
            return {"priorities": self._words[: self._capacity].copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the priorities of a tree with the same capacity; if anything is wrong with them, none.

        Args:
            state: What `state_dict` returned.
        """
        try:
            leaves = state["priorities"]
        except (IndexError, KeyError, TypeError):
            leaves = None
        if not isinstance(leaves, np.ndarray) or leaves.dtype != np.float64:
            raise PriorityError("a tree's state has an array of float64 as `priorities`: pass what state_dict() gave")
        if leaves.shape != (self._capacity,):
            raise PriorityError(f"a state of shape {leaves.shape} for a tree of {self._capacity}: make one of its size")
        leaves = _floats(leaves)
        self._check_priorities(leaves)
        words = self._new_words()
        words[: self._capacity] = leaves + 0.0  # of -0.0 this makes 0.0
        refresh(words, self._starts, self._span, None)
        with self._exclusive.writing:
            self._words, self._is_whole = words, True

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._capacity,), self.state_dict()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.load_state_dict(state)

    def _new_words(self) -> Floats:
        count = int(self._starts[1]) + NODE_VALUES * self._span
        memory = np.zeros(count + CACHE_LINE // 8)
        skipped = -memory.__array_interface__["data"][0] % CACHE_LINE // 8
        return memory[skipped : skipped + count]

    def _at_root(self, kind: int) -> float:
        # Under the lock, since what is not computed yet is marked by a number of its own.
        with self._exclusive.writing:
            if not self._is_whole:
                self._heal()
            return self._words.item(int(self._starts[-1]) + kind * self._span)

    def _heal(self) -> None:
        """Does what an interrupt kept an update from doing."""
        with self._exclusive.guard:
            refresh(self._words, self._starts, self._span, None)
            self._is_whole = True

    def _check_places(self, given: npt.NDArray[Any], places: Ints) -> None:
        wrong = places.view(np.uint64) >= self._capacity  # in which a negative one is large
        if wrong.any():
            raise IndexError(f"leaf {given.reshape(-1)[wrong.argmax()]} of a tree whose last is {self._capacity - 1}")

    def _check_priorities(self, values: Floats) -> None:
        wrong = ~((values >= 0.0) & (values <= self._limit))
        if wrong.any():
            which = int(wrong.argmax())
            raise PriorityError(
                f"priority number {which} is {values[which]}: it has to be a number from 0 up to {self._limit:.4g}, so "
                "that all of them can be summed; clip or scale priorities, and look for NaN in what they come from"
            )


def _places(indices: npt.ArrayLike) -> tuple[npt.NDArray[Any], Ints]:
    """Returns indices as they are given, and a flat copy, which nobody else can change after it was checked."""
    given = np.asarray(indices)
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"leaves are chosen by integers, and not by {given.dtype}; use np.flatnonzero for a mask")
    return given, np.array(given, np.int64, order="C").reshape(-1)


def _numbers(numbers: npt.ArrayLike, what: str) -> tuple[npt.NDArray[Any], Floats]:
    """Returns numbers as they are given, and a flat copy, which nobody else can change after it was checked."""
    given = np.asarray(numbers)
    if given.dtype.kind not in "fiu":
        raise TypeError(f"{what} are numbers, and not {given.dtype}")
    return given, _floats(given)


def _floats(numbers: npt.NDArray[Any]) -> Floats:
    if numbers.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # what becomes infinite is refused later
            numbers = numbers.astype(np.float64)
    return np.array(numbers, np.float64, order="C").reshape(-1)


def _nonzero_total(words: Floats, starts: Ints) -> float:
    """Returns the total, which is not zero."""
    total = words.item(int(starts[-1]))
    if total == 0.0:
        raise NothingToSampleError("there is nothing to sample while every priority is zero: update() some before")
    return total


def _check_range(numbers: Floats, low: float, high: float, rule: str) -> None:
    wrong = ~((numbers >= low) & (numbers <= high))
    if wrong.any():
        which = int(wrong.argmax())
        raise PriorityError(f"{rule}, and number {which} is {numbers[which]}")
