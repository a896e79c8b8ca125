"""`WriteSettings`: how the next group of a store is written. The policy makes another whenever it decides anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compressed_array._stores.frames.groups import GROUPS_AT_ONCE
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.residuals import NO_PREDICTION

# How frames are written to a group: as the smallest of all kinds of record, mostly changes; by zstd, or raw where that
# is smaller; raw without any header, as rows.
AS_CHANGES, AS_ZSTD, AS_ROWS = range(3)
SMALL_FRAME = 256  # bytes; below, a record's header and the walk to it cost more than its changes save


@dataclass(frozen=True, eq=False)
class WriteSettings:
    """How groups and their records are written from now on.

    It is never changed but replaced, so what was prepared by it is good for as long as it is the one in use.
    """

    layout: Layout
    layout_number: int  # by which groups know the layout
    mode: int = AS_CHANGES  # how its frames are written
    capacity: int = 1  # frames that a group may hold
    many_full: int = GROUPS_AT_ONCE  # groups that are full before they are processed
    reference: int = 0  # the number of the frame that others are coded against
    zstd: Any = None  # the codec that writes zstd's records, if there are any
    worth_zstd: int = 0  # records of more bytes than this are also tried with zstd or the codebook
    prediction: int = NO_PREDICTION  # the code of what is subtracted before zstd, or of the codebook; see `residuals`
    packs: bool = False  # whether groups that are full go through a codec

    @property
    def is_small(self) -> bool:
        """Whether frames are too small for records, and groups are rows of them."""
        return self.layout.frame_nbytes < SMALL_FRAME
