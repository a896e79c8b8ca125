"""A store's tables as kernels see them, found by the addresses that `kernel_words` names."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, helper, viewer, words_at
from compressed_array._stores.frames.groups import GROUP, LISTED, NEW
from compressed_array._stores.frames.kernel_words import (
    DEAD_GROUPS,
    FREE_GROUPS,
    FULL_GROUPS,
    GROUP_COUNT,
    GROUPS,
    LAYOUTS,
    LIST_LENGTHS,
)
from compressed_array._stores.frames.lanes import WIDTH

_groups_at = viewer(numba.from_dtype(GROUP), GROUP.itemsize)


@helper
def groups_of(tables: Any) -> Any:
    """The table of groups."""
    return _groups_at(tables[GROUPS], tables[GROUP_COUNT])


@helper
def layout_of(group: Any, tables: Any) -> Any:
    """A group's layout: depth, outer and inner."""
    return words_at(tables[LAYOUTS] + 24 * np.int64(group.layout), 3)


@helper
def lists_of(tables: Any) -> Any:
    """The lists of groups, free, dead and full, and what is counted of them."""
    free, dead, full = tables[FREE_GROUPS], tables[DEAD_GROUPS], tables[FULL_GROUPS]
    lengths = words_at(tables[LIST_LENGTHS], NEW + 1)
    return words_at(free, tables[GROUP_COUNT]), words_at(dead, LISTED), words_at(full, LISTED), lengths


@helper
def lane_at(lanes: Word, lane: Word) -> Any:
    """The words of a lane, of those that begin at an address."""
    return words_at(lanes + 8 * WIDTH * lane, WIDTH)
