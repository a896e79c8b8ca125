"""Recordings of games: frames, rewards, actions and named features, step by step and episode by episode.

`CompressedRecordBuffer` keeps every bit of the frames in a fraction of their size, `RecordBuffer` keeps them as they
are, `FramelessRecordBuffer` leaves them out, and `DummyRecordBuffer` keeps nothing. A recording grows for as long as
there are steps, or it is a ring of the last `size` steps. `save` and `load` keep one in a file, and an `Episode` can be
written as a video or for `np.load`. `compressed_array.recording.gymnasium` records while an agent plays.

>>> import numpy as np
>>> from compressed_array.recording import CompressedRecordBuffer
>>> recording = CompressedRecordBuffer()
>>> for step in range(5):
...     recording.add(np.full((210, 160, 3), step, np.uint8), 1.0, 2, {"lives": 3}, done=step == 3)
>>> [(len(episode), episode.has_end, float(episode.rewards.sum())) for episode in recording.episodes()]
[(4, True, 4.0), (1, False, 1.0)]
>>> int(recording.episode(0).frames[2].max())
2
"""

from compressed_array.errors import RecordingError as RecordingError
from compressed_array.recording._base import BaseRecordBuffer as BaseRecordBuffer
from compressed_array.recording._buffers import CompressedRecordBuffer as CompressedRecordBuffer
from compressed_array.recording._buffers import DummyRecordBuffer as DummyRecordBuffer
from compressed_array.recording._buffers import FramelessRecordBuffer as FramelessRecordBuffer
from compressed_array.recording._buffers import RecordBuffer as RecordBuffer
from compressed_array.recording._buffers import load as load
from compressed_array.recording._episode import Episode as Episode

__all__ = [
    "BaseRecordBuffer",
    "CompressedRecordBuffer",
    "DummyRecordBuffer",
    "Episode",
    "FramelessRecordBuffer",
    "RecordBuffer",
    "RecordingError",
    "load",
]
