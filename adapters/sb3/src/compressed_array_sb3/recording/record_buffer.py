"""`RecordBuffer` with the arguments that it has in sb3-extra-buffers, and the same with compressed frames."""

from __future__ import annotations

import compressed_array.recording as core
from compressed_array_sb3.recording._pictures import PictureRecording

__all__ = ["CompressedRecordBuffer", "RecordBuffer"]


class RecordBuffer(PictureRecording, core.RecordBuffer):
    """A recording of pictures, not compressed.

    >>> import numpy as np
    >>> from compressed_array_sb3.recording import RecordBuffer
    >>> last = RecordBuffer(res=(84, 84), ch_num=1, size=100)
    >>> for step in range(150):
    ...     last.add(np.zeros((84, 84, 1), np.uint8), 1.0, step)
    >>> len(last), last.frames.shape, last._ptr
    (100, (100, 1, 84, 84), 49)

    Args:
        res: Height and width of a picture.
        ch_num: How many channels it has.
        size: How many steps the ring holds, of which the newest is written over the oldest; None to hold all.
        dtypes: The dtypes of frames, of rewards, and of each feature, as types or names. By default there are no
            features: [np.uint8, np.float32].
    """


class CompressedRecordBuffer(PictureRecording, core.CompressedRecordBuffer):
    """A recording of pictures, compressed bit for bit.

    >>> import numpy as np
    >>> from compressed_array_sb3.recording import CompressedRecordBuffer
    >>> game = CompressedRecordBuffer(res=(84, 84), ch_num=1, size=1000)
    >>> game.add(np.ones((84, 84, 1), np.uint8), 1.0, 2)
    >>> bool((game.frames[0] == 1).all())
    True

    Args:
        res: Height and width of a picture.
        ch_num: How many channels it has.
        size: How many steps the ring holds, of which the newest is written over the oldest; None to hold all.
        dtypes: The dtypes of frames, of rewards, and of each feature, as types or names. By default there are no
            features: [np.uint8, np.float32].
        codec: How frames are compressed; "auto" chooses by looking at them.
    """
