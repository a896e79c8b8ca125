"""`PictureRecording`: the arguments and attributes that recordings have in sb3-extra-buffers.

Their faults there are mended: a ring that is full does not ask for features, `len` counts the steps that are held,
actions may have any dtype and shape, and each of these recordings is a `BaseRecordBuffer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.errors import RecordingError
from compressed_array_sb3.recording.base import BaseRecordBuffer, DummyArray


class PictureRecording(BaseRecordBuffer):
    """Pictures of a known size, channels last when they come and first when they are kept, and features without names.

    `frames`, `rewards`, `actions` and `features` are the rows in the order of memory: of a ring all rows, the newest
    step in row `_ptr`. `episodes()` has them in the order of time.
    """

    def __init__(
        self,
        res: tuple[int, int] = (240, 320),
        ch_num: int = 3,
        size: int | None = 40000,
        dtypes: Sequence[npt.DTypeLike] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(size, **options)
        frame_dtype, reward_dtype, *features = (_dtype(dtype) for dtype in dtypes or (np.uint8, np.float32))
        self.ch_num, self.feature_num, self.use_features = ch_num, len(features), bool(features)
        self._picture_shape = (ch_num, *res)
        if self.has_frames:
            self.declare("frames", self._picture_shape, frame_dtype)
        self.declare("rewards", (), reward_dtype)
        self._are_alike = len(set(features)) == 1
        if self._are_alike:
            self.declare("features", (len(features),), features[0])
        elif features:
            self.declare("features", (), [(str(i), dtype) for i, dtype in enumerate(features)])

    def add(self, frame: Any, reward: Any, action: Any, features: Any = None, *, done: bool = False) -> None:
        """Records a step.

        Args:
            frame: A picture of shape (height, width, channels), or with its channels first, as SB3's models see them.
            reward: The reward of the step.
            action: What was done, a number or an array.
            features: As many values as the recording has features; none if it has none.
            done: Whether the episode ends with this step.
        """
        named = None
        if features is not None and (self.use_features or np.size(features)):
            is_record = self.use_features and not self._are_alike
            named = {"features": tuple(features) if is_record else np.asarray(features)}
        super().add(self._channels_first(frame) if self.has_frames else None, reward, action, named, done=done)

    def add_filled(self, frame: Any, reward: Any, action: Any, features: Any = None) -> None:
        """Records a step, as `add` does.

        Args:
            frame: A picture of shape (height, width, channels), or with its channels first, as SB3's models see them.
            reward: The reward of the step.
            action: What was done, a number or an array.
            features: As many values as the recording has features; none if it has none.
        """
        self.add(frame, reward, action, features)

    @property
    def frames(self) -> Any:
        """All rows of frames, in the order of memory; a `DummyArray` if they are not kept."""
        return self._rows("frames")

    @property
    def rewards(self) -> Any:
        """All rows of rewards, in the order of memory."""
        return self._rows("rewards")

    @property
    def actions(self) -> Any:
        """All rows of actions, in the order of memory; a `DummyArray` before the first, which tells their shape."""
        return self._rows("actions")

    @property
    def features(self) -> Any:
        """All rows of features, in the order of memory; a `DummyArray` if there are none."""
        return self._rows("features")

    @property
    def max_size(self) -> int | None:
        """The number of steps that the ring holds."""
        return self.size

    @property
    def _ptr(self) -> int:
        """The row of the newest step, or -1 if there is none."""
        return self.steps - 1 if self.size is None or not self.steps else (self.steps - 1) % self.size

    def _rows(self, name: str) -> Any:
        try:
            return self.memory(name)
        except RecordingError:
            return DummyArray()

    def _channels_first(self, frame: Any) -> Any:
        picture, (channels, *res) = np.asarray(frame), self._picture_shape
        if picture.shape == (*res, channels):
            return picture.transpose(2, 0, 1)
        if picture.shape == self._picture_shape:
            return picture
        raise RecordingError(
            f"frames have shape {(*res, channels)} in this recording, not {picture.shape}: make it with the res and "
            "ch_num of the pictures, or use a buffer of compressed_array.recording, which takes any"
        )


def _dtype(given: Any) -> np.dtype[Any]:
    return np.dtype(given.removeprefix("np.") if isinstance(given, str) else given)
