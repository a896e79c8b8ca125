"""The nodes of a `PriorityTree` above its leaves: computing them, and finding leaves by them, in numpy.

`_tree` says how the nodes lie in memory and in which order they are summed; `_tree_kernels` does the same as machine
code.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CHILD_BITS = 4
WIDTH = 1 << CHILD_BITS
# What a node has, each `span` words behind the one before: the sum of its leaves, the least that is not zero, and the
# greatest. A leaf is all three.
SUM, LEAST, GREATEST = range(3)
NODE_VALUES = GREATEST + 1


def refresh(words: Floats, starts: Ints, span: int, places: Ints | None) -> None:
    """Computes the nodes above these leaves, or above all."""
    nodes: Ints | slice = slice(None)
    for level, (below, here) in enumerate(pairwise(starts.tolist())):
        if places is not None:
            nodes = places = np.unique(places >> CHILD_BITS)
        count = (here - below) >> CHILD_BITS
        for kind, reduce in ((SUM, _sums), (LEAST, _least), (GREATEST, _most)):
            beside = kind * span
            children = words[below:here] if level == 0 else words[below + beside : here + beside]
            words[here + beside : here + beside + count][nodes] = reduce(children.reshape(-1, WIDTH)[nodes])


def _sums(children: Floats) -> Floats:
    while children.shape[1] > 1:
        children = children[:, ::2] + children[:, 1::2]
    return children[:, 0]


def _ends(children: Floats) -> Floats:
    """Returns where each child ends, all laid end to end: none before the one in front, the last at the sum."""
    ends = children.copy()
    for size in (1, 2, 4, 8):
        parts = ends.reshape(-1, 2 * size)
        parts[:, size:] += parts[:, size - 1 : size]
    return ends


def _least(children: Floats) -> Floats:
    least = np.where(children > 0.0, children, np.inf).min(1)
    return np.where(least < np.inf, least, 0.0)


def _most(children: Floats) -> Floats:
    return children.max(1)  # type: ignore[no-any-return]  # numpy does not say so


def descend(words: Floats, starts: Ints, masses: Floats) -> Ints:
    """Finds leaves level by level; a mass behind all of a node's children is for the last that is not zero."""
    found = np.zeros(masses.size, np.int64)
    for start in starts[-2::-1]:
        children = words[start + found[:, None] * WIDTH + np.arange(WIDTH)]
        ends = _ends(children)
        passed = (ends <= masses[:, None]).sum(1)
        before = np.where(passed > 0, ends[np.arange(masses.size), passed - 1], 0.0)
        masses = np.where(passed == WIDTH, np.inf, masses - before)
        last = WIDTH - 1 - (children[:, ::-1] > 0.0).argmax(1)
        found = found * WIDTH + np.minimum(passed, last)
    return found
