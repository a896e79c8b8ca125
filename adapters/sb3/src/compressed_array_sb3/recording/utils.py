"""The names of `sb3_extra_buffers.recording.utils`."""

from __future__ import annotations

from typing import Any

from compressed_array_sb3.recording.base import BaseRecordBuffer

__all__ = ["force_alloc_mem"]


def force_alloc_mem(mem: BaseRecordBuffer, val: Any = 0) -> None:
    """Writes to all rows of a recording before there are steps, so that a lack of memory shows at once.

    This is for plain recordings: compressed frames take the memory that they turn out to need.

    Args:
        mem: The recording.
        val: What is written.

    >>> from compressed_array_sb3.recording import RecordBuffer
    >>> game = RecordBuffer(res=(84, 84), ch_num=1, size=100)
    >>> force_alloc_mem(game, 7)
    >>> int(game.frames[99].min()), len(game)
    (7, 0)
    """
    for rows in (mem.frames, mem.features, mem.rewards, mem.actions):
        rows.fill(val)
