"""The recordings that people make: plain, compressed, without frames, and none at all; and `load`, which reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.creation import zeros
from compressed_array.codecs._measure import is_auto
from compressed_array.recording._base import BaseRecordBuffer, checked_names
from compressed_array.recording._columns import Column, CompressedColumn
from compressed_array.recording._file import load_parts
from compressed_array.registry import get_codec


class RecordBuffer(BaseRecordBuffer):
    """A recording whose frames are kept as they are.

    The first step says what steps look like: the shapes, the dtypes and the names of features. A later value that does
    not fit is refused, and nothing of that step is recorded.

    >>> import numpy as np
    >>> from compressed_array.recording import RecordBuffer
    >>> last = RecordBuffer(size=100)
    >>> for step in range(250):
    ...     last.add(np.zeros((84, 84), np.uint8), reward=step, action=np.array([0.5, -0.5]))
    >>> len(last), float(last.rewards[0]), last.actions.shape
    (100, 150.0, (100, 2))

    Args:
        size: How many steps a ring holds, in which the newest is written over the oldest; None for a recording that
            grows.
        dtypes: The dtypes of fields by name: "frames", "rewards" (float64 if it is left out), "actions", and features.
            What is left out has the dtype of the first value.
    """


class CompressedRecordBuffer(BaseRecordBuffer):
    """A recording whose frames are compressed, bit for bit as they came, and decoded where they are asked for.

    >>> import numpy as np
    >>> from compressed_array.recording import CompressedRecordBuffer
    >>> game = CompressedRecordBuffer()
    >>> picture = np.zeros((210, 160, 3), np.uint8)
    >>> for step in range(300):
    ...     picture[step % 200] = step % 256
    ...     game.add(picture, 0.0, 1)
    >>> game.nbytes_stored < game.nbytes / 5
    True
    >>> bool((game.episode(0).frames[299] == picture).all())
    True

    Args:
        size: How many steps a ring holds, in which the newest is written over the oldest; None for a recording that
            grows.
        dtypes: The dtypes of fields by name: "frames", "rewards" (float64 if it is left out), "actions", and features.
            What is left out has the dtype of the first value.
        codec: How frames are compressed, as in `compressed_array.zeros`; "auto" looks at them.
    """

    kind = "compressed"

    def __init__(
        self, size: int | None = None, *, dtypes: Mapping[str, npt.DTypeLike] | None = None, codec: Any = "auto"
    ) -> None:
        super().__init__(size, dtypes=dtypes)
        self._codec = codec if is_auto(codec) else get_codec(codec)  # whose name may be wrong, which is said here

    def _new_column(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], rows: int) -> Column:
        if name != "frames":
            return super()._new_column(name, shape, dtype, rows)
        return CompressedColumn(zeros((rows, *shape), dtype, item_ndim=len(shape), codec=self._codec))


class FramelessRecordBuffer(BaseRecordBuffer):
    """A recording of rewards, actions and features, to which frames may be given that it does not keep.

    >>> from compressed_array.recording import FramelessRecordBuffer
    >>> game = FramelessRecordBuffer()
    >>> game.add(None, 1.0, 3, done=True)
    >>> game.episode(0).frames is None, game.actions.tolist()
    (True, [3])

    Args:
        size: How many steps a ring holds, in which the newest is written over the oldest; None for a recording that
            grows.
        dtypes: The dtypes of fields by name: "rewards" (float64 if it is left out), "actions", and features. What is
            left out has the dtype of the first value.
    """

    kind = "frameless"
    has_frames = False


class DummyRecordBuffer(BaseRecordBuffer):
    """Stands for a recording where none is wanted: it takes every step, and keeps nothing but their number.

    >>> from compressed_array.recording import DummyRecordBuffer
    >>> nothing = DummyRecordBuffer()
    >>> nothing.add(None, 1.0, 3, {"lives": 2})
    >>> len(nothing), nothing.steps, list(nothing.episodes())
    (0, 1, [])

    Args:
        size: Ignored.
        dtypes: Ignored.
    """

    kind = "none"
    has_frames = False
    _added = 0

    def add(
        self,
        frame: Any = None,
        reward: Any = None,
        action: Any = None,
        features: Mapping[str, Any] | None = None,
        *,
        done: bool = False,
    ) -> None:
        """Counts a step, of which nothing is kept.

        Args:
            frame: Ignored.
            reward: Ignored.
            action: Ignored.
            features: Ignored.
            done: Ignored.
        """
        self._added += 1

    @property
    def steps(self) -> int:
        """The number of steps that were ever given."""
        return self._added

    def save(self, path: str | os.PathLike[str]) -> None:
        """Does nothing, since there is nothing to save.

        Args:
            path: Anything.
        """


_KINDS: dict[str, type[BaseRecordBuffer]] = {
    cls.kind: cls for cls in (RecordBuffer, CompressedRecordBuffer, FramelessRecordBuffer)
}


def load(path: str | os.PathLike[str]) -> RecordBuffer | CompressedRecordBuffer | FramelessRecordBuffer:
    """Returns the recording that was saved to a file, which goes on where that one was.

    A file that was cut short or changed raises `CorruptFileError`; nothing in a file is evaluated.

    Args:
        path: The name of a file that `save` of a recording wrote.

    >>> import os, tempfile
    >>> from compressed_array.recording import RecordBuffer, load
    >>> game = RecordBuffer()
    >>> game.add(np.zeros((84, 84), np.uint8), 1.0, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     game.save(os.path.join(folder, "game.rec"))
    ...     again = load(os.path.join(folder, "game.rec"))
    >>> len(again), again.rewards.tolist()
    (1, [1.0])
    """
    parts = load_parts(path, {kind: cls.has_frames for kind, cls in _KINDS.items()}, checked_names)
    buffer: Any = _KINDS[parts.kind](parts.timeline.size)
    buffer._timeline, buffer._columns = parts.timeline, parts.columns
    return buffer  # type: ignore[no-any-return]  # its kind is one of these
