"""A store's tables as kernels see them, found by the addresses in the records of `kernel_records`."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, helper, record_viewer, viewer, words_at
from compressed_array._stores.frames.groups import GROUP, LISTED, NEW
from compressed_array._stores.frames.kernel_records import (
    GEOMETRY,
    LANE,
    LAYOUT,
    READER_TABLES,
    REWRITE,
    STEP,
    WALKER,
    WRITER_TABLES,
)

_groups_at = viewer(numba.from_dtype(GROUP), GROUP.itemsize)
_lane_at, _layout_at = record_viewer(LANE), record_viewer(LAYOUT)
geometry_at, step_at, rewrite_at = record_viewer(GEOMETRY), record_viewer(STEP), record_viewer(REWRITE)
writer_tables_at, reader_tables_at = record_viewer(WRITER_TABLES), record_viewer(READER_TABLES)
walker_at = record_viewer(WALKER)
LANE_NBYTES, LAYOUT_NBYTES = LANE.itemsize, LAYOUT.itemsize


@helper
def groups_of(tables: Any) -> Any:
    """The table of groups."""
    return _groups_at(tables.groups, tables.group_count)


@helper
def layout_of(group: Any, tables: Any) -> Any:
    """A group's layout."""
    return _layout_at(tables.layouts + LAYOUT_NBYTES * np.int64(group.layout))


@helper
def lists_of(tables: Any) -> Any:
    """The lists of groups, free, dead and full, and what is counted of them."""
    free, dead, full = (
        words_at(tables.free, tables.group_count),
        words_at(tables.dead, LISTED),
        words_at(tables.full, LISTED),
    )
    return free, dead, full, words_at(tables.counts, NEW + 1)


@helper
def lane_at(lanes: Word, lane: Word) -> Any:
    """A lane, of those that begin at an address."""
    return _lane_at(lanes + LANE_NBYTES * lane)
