"""A store's tables as kernels see them, found by the addresses in the records of `kernel_records`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, helper, record_viewer, viewer, words_at
from compressed_array._stores.frames.groups import GROUP, LISTED, NEW
from compressed_array._stores.frames.kernel_records import (
    ENCODING,
    GEOMETRY,
    LANE,
    LAYOUT,
    READER_TABLES,
    REWRITE_ARGUMENTS,
    WALKER,
    WRITE_ARGUMENTS,
    WRITER_TABLES,
)

# The types of what Python gives a kernel: a number or an address, arrays of those, and arrays of record numbers.
INTEGER = numba.types.int64
WORDS, NUMBERS = INTEGER[::1], numba.types.uint32[::1]
_groups_at = viewer(numba.from_dtype(GROUP), GROUP.itemsize)
_lane_at, _layout_at = record_viewer(LANE), record_viewer(LAYOUT)
geometry_at, encoding_at = record_viewer(GEOMETRY), record_viewer(ENCODING)
write_arguments_at, rewrite_arguments_at = record_viewer(WRITE_ARGUMENTS), record_viewer(REWRITE_ARGUMENTS)
writer_tables_at, reader_tables_at = record_viewer(WRITER_TABLES), record_viewer(READER_TABLES)
walker_at = record_viewer(WALKER)
LANE_NBYTES, LAYOUT_NBYTES = LANE.itemsize, LAYOUT.itemsize


class Lists(NamedTuple):
    """The lists of groups that are free, dead and full, and `counts`, which says how long each is."""

    free: Any
    dead: Any
    full: Any
    counts: Any


@helper
def groups_of(tables: Any) -> Any:
    """Returns the table of groups."""
    return _groups_at(tables.groups, tables.group_count)


@helper
def layout_of(group: Any, tables: Any) -> Any:
    """Returns a group's layout."""
    return _layout_at(tables.layouts + LAYOUT_NBYTES * np.int64(group.layout))


@helper
def lists_of(tables: Any) -> Any:
    """Returns the lists of groups."""
    return Lists(
        words_at(tables.free, tables.group_count),
        words_at(tables.dead, LISTED),
        words_at(tables.full, LISTED),
        words_at(tables.counts, NEW + 1),
    )


@helper
def lane_at(lanes: Word, lane: Word) -> Any:
    """Returns a lane, of those whose table begins at an address."""
    return _lane_at(lanes + LANE_NBYTES * lane)
