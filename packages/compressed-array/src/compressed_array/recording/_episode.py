"""`Episode`: what was recorded of one game, apart from the recording that it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.errors import RecordingError
from compressed_array.recording._columns import BLOCK
from compressed_array.recording._npz import save_npz
from compressed_array.recording._video import save_video


@dataclass(frozen=True, eq=False)
class Episode:
    """The steps of one episode, as they were when it was asked for.

    Attributes:
        number: How many episodes were recorded before this one, including those that are gone from a ring.
        frames: What the agent saw before each step. Of a `CompressedRecordBuffer` this is a `CompressedArray`, which
            decodes what is asked of it (`frames[3]`, `frames.read()`); None if frames were not recorded.
        rewards: What each step gave.
        actions: What the agent did in each step.
        features: The named features of each step.
        has_start: False if the first steps of the episode have been written over.
        has_end: False if the episode was still being played.
    """

    number: int
    frames: Any
    rewards: npt.NDArray[Any]
    actions: npt.NDArray[Any]
    features: dict[str, npt.NDArray[Any]]
    has_start: bool
    has_end: bool

    def __len__(self) -> int:
        return len(self.rewards)

    def iter_frames(self) -> Iterator[npt.NDArray[Any]]:
        """Yields the frames one after the other, of which some megabytes are decoded at a time."""
        if self.frames is None:
            raise RecordingError("this recording has no frames; record with a RecordBuffer or a CompressedRecordBuffer")
        some = max(1, BLOCK * len(self) // max(self.frames.nbytes, 1))
        for low in range(0, len(self), some):
            yield from self.frames[np.arange(low, min(low + some, len(self)))]

    def save_npz(self, path: str | os.PathLike[str]) -> None:
        """Writes what was recorded to a file for `np.load`: `frames`, `rewards`, `actions` and features by name.

        Args:
            path: The name of the file, to which nothing is added. One that is there is replaced once all is written.
        """
        fields = {"rewards": self.rewards, "actions": self.actions, **self.features}
        save_npz(path, fields, self.frames, self.iter_frames)

    def save_video(
        self,
        path: str | os.PathLike[str],
        fps: float = 30,
        *,
        picture: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None,
    ) -> None:
        """Writes the frames to a video, whose format the name says: .gif, .mp4 or what else imageio writes.

        This needs imageio: `pip install 'compressed-array[video]'`.

        Args:
            path: The file, which is replaced if there is one.
            fps: Frames in a second. A GIF counts in hundredths of a second.
            picture: Makes a picture of a frame: uint8 or bool of shape (height, width), (height, width, 3) or
                (3, height, width). It is needed for frames that are no such thing, as `lambda frame: frame[-1]` is for
                stacks of gray pictures.
        """
        save_video(path, self.iter_frames(), fps, picture)
