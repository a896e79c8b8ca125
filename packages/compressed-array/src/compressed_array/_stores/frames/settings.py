"""`WriteSettings`: how the next group of a store is written. The policy makes another whenever it decides anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compressed_array._stores.frames.groups import MANY
from compressed_array._stores.frames.lanes import DELTA
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.frames.residuals import AS_IT_IS

SMALL_FRAME = 256  # bytes; below, a record's header and the walk to it cost more than its changes save


@dataclass(frozen=True, eq=False)
class WriteSettings:
    """How groups and their records are written from now on.

    It is never changed but replaced, so what was prepared by it is good for as long as it is the one in use.
    """

    layout: Layout
    layout_number: int  # by which groups know the layout
    mode: int = DELTA  # the kind of a group's records
    capacity: int = 1  # frames that a group may hold
    many_full: int = MANY  # groups that are full before something is done about them
    reference: int = 0  # the number of the frame that others are coded against
    intra: Any = None  # the codec that writes zstd's records, if there are any
    worth_zstd: int = 0  # of a record of more bytes than this, zstd may make fewer
    foretold: int = AS_IT_IS  # what is taken from a frame before zstd gets it, or the codebook, as `residuals` says
    packs: bool = False  # whether groups that are full go through a codec

    @property
    def is_small(self) -> bool:
        """Whether frames are too small for records, and groups are rows of them."""
        return self.layout.frame_nbytes < SMALL_FRAME
