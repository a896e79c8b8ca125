"""Recordings without frames, and one that keeps nothing, with the arguments that they have in sb3-extra-buffers."""

from __future__ import annotations

from typing import Any

import compressed_array.recording as core
from compressed_array_sb3.recording._pictures import PictureRecording
from compressed_array_sb3.recording.base import DummyArray

__all__ = ["DummyRecordBuffer", "FramelessRecordBuffer"]


class FramelessRecordBuffer(PictureRecording, core.FramelessRecordBuffer):
    """A recording of rewards, actions and features, with or without features.

    >>> from compressed_array_sb3.recording import FramelessRecordBuffer
    >>> game = FramelessRecordBuffer(size=100)
    >>> game.add(None, 1.0, 2)
    >>> len(game), game.rewards[:1].tolist()
    (1, [1.0])

    Args:
        res: Ignored, since no pictures are kept.
        ch_num: Likewise.
        size: How many steps the ring holds, of which the newest is written over the oldest; None to hold all.
        dtypes: The dtypes of frames (of which there are none), of rewards, and of each feature, as types or names.
    """


class DummyRecordBuffer(core.DummyRecordBuffer):
    """Stands in for a recording where none is wanted: it takes anything, and only counts the steps.

    >>> from compressed_array_sb3.recording import DummyRecordBuffer
    >>> nothing = DummyRecordBuffer()
    >>> nothing.add("a frame", 1.0, 2)
    >>> len(nothing), nothing.steps
    (0, 1)

    Args:
        size: Ignored, as is every other argument of a recording.
        dtypes: Likewise.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._nothing = DummyArray()

    @property
    def frames(self) -> Any:
        """A `DummyArray`, as all of its fields are."""
        return self._nothing

    rewards = actions = features = frames

    @property
    def _ptr(self) -> int:
        return self.steps - 1
