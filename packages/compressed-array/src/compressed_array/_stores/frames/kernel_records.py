"""Record layouts shared by Python and the kernels. Both sides know the fields by name and by nothing else.

A kernel is given the address of a record, and finds all else by the addresses in it: to take an array object apart
takes longer than writing a short item does. Every field is a word of 64 bits. The maker of a record keeps it, and all
that it has the address of, for as long as a kernel may look.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Words

StructArray = npt.NDArray[np.void]  # of records with named fields


def _words(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names], align=True)


# How an item divides into frames, as `layouts.Layout` says.
LAYOUT = _words("depth", "outer", "inner")

# How to find the frames of an item in memory, as `layouts.Geometry` says.
GEOMETRY = _words(
    *("item_nbytes", "depth", "frame_nbytes"),  # bytes of an item, frames in it, bytes of a frame
    *("places", "run"),  # what is compared
    *("rows", "row_stride", "columns", "column_stride", "piece"),  # what is taken
    "masks",  # address
)

LANE = _words(
    "last",  # the number of the last item
    "group",  # the number of the open group plus one, or 0
    *("count", "capacity", "mode"),  # frames in that group, for how many it was opened, how they are written
    *("segment", "buffer", "used", "size"),  # the segment that is written to, its address, its bytes: written, and all
    *("item", "frame"),  # the addresses of the last item and of its last frame
    "in_batch",  # the address of the lane's last item in the batch that is written, or 0
)

# The tables that writing changes: addresses, but for the number of groups.
WRITER_TABLES = _words(
    *("groups", "group_count", "layouts", "references", "lanes"),
    *("free", "dead", "full", "counts"),  # lists of groups, and what `groups` counts
    *("used", "live"),  # the bytes of each segment that are written, and that live
)

# What one thread reads by: addresses, but for the number of groups, and for the bytes that a group may unpack to.
READER_TABLES = _words(
    *("groups", "group_count", "layouts", "references"),
    *("segments", "scratch", "walker"),  # where each segment begins; memory to decode in; a record of the thread's own
    *("decompress", "frame_size", "context", "unpacked"),  # two functions of zstd's and a context for them
    "dictionaries",  # for each codec of groups, the address of its dictionary or 0
    "decode_words",  # the function that decodes words by a codebook, or 0
)

# What a thread keeps while it decodes groups: for one item and for another, which may be missing, where they go, and
# with which frames of the group they begin and end.
WALKER = _words(
    *("item", "first", "end"),
    *("other", "other_first", "other_end"),
    # Where the last pass ended: the group, or -1 if nothing can go on from there; the frame of it that lies in the
    # scratch memory, where its next record begins, and where the item is that ends with that frame.
    *("last_group", "last_frame", "next_record", "last_item"),
)

# How a frame is encoded.
ENCODING = _words(
    *("reference", "worth_zstd", "prediction"),  # of records, as `settings` has it
    *("compress", "context", "level"),  # zstd's function, a context for it and its level; zeros for none
    "encode_words",  # the function that encodes words by a codebook, or 0
)

# What `write_items` is given.
WRITE_ARGUMENTS = _words(
    *("stride", "geometry", "lane_of", "count"),  # bytes from item to item; their geometry, lanes and number
    *("numbers", "cells"),  # where their numbers go at first, and where the cells of row 0 are
    *("tables", "scratch"),
    *("mode", "capacity", "layout", "many_full"),  # of new groups, as `settings` has it
    "encoding",  # address
)

# What `rewrite_groups` is given.
REWRITE_ARGUMENTS = _words(
    "may_request",  # whether a reference that is missing may be asked for
    *("encoding", "encoding_by_changes"),  # the addresses of two: of what zstd or a codebook wrote, and of other frames
    *("decompress", "context"),  # zstd's function and a context for it, or zeros
    "scratch",  # six times what encoding a frame needs
)


def filled(dtype: np.dtype[np.void], **fields: int) -> Words:
    """Returns one record, as words in the order of its fields. Every field has to be given."""
    names = dtype.names or ()
    if len(fields) != len(names):
        raise TypeError(f"a record of {names} is made of just these, not of {tuple(fields)}")
    return np.array(_in_order(names)(fields), np.int64)


@cache
def _in_order(names: tuple[str, ...]) -> Callable[[dict[str, int]], tuple[int, ...]]:
    return itemgetter(*names)
