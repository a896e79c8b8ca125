"""The names of `sb3_extra_buffers.recording.utils`."""

from __future__ import annotations

from typing import Any

from compressed_array_sb3.recording.base import BaseRecordBuffer

__all__ = ["force_alloc_mem"]


def force_alloc_mem(mem: BaseRecordBuffer, val: Any = 0) -> None:
    """Write to all rows of a recording before there are steps, so that a lack of memory shows at once.

    This is for plain recordings: compressed frames take the memory that they turn out to need.
    """
    for rows in (mem.frames, mem.features, mem.rewards, mem.actions):
        rows.fill(val)
