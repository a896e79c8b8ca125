"""`BaseRecordBuffer`: steps into columns. A step that is refused changes nothing, and none is changed to fit.

Frames are written first. That is the only write which can fail once all fields were checked, and a compressed array is
then as it was; after an interrupt the row that was being written, the oldest of a full ring, is not held any more.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.casting import cast_exactly, check_dtype
from compressed_array.errors import LossyWriteError, RecordingError
from compressed_array.recording._columns import OWN, Column, PlainColumn, grown
from compressed_array.recording._episode import Episode
from compressed_array.recording._file import save_parts
from compressed_array.recording._timeline import Span, Timeline
from compressed_array.usage import size as for_people


class BaseRecordBuffer:
    """What all recordings have in common: `add` a step, and ask for `episodes`.

    One thread records at a time. The buffers are `RecordBuffer`, `CompressedRecordBuffer`, `FramelessRecordBuffer` and
    `DummyRecordBuffer`.

    Args:
        size: How many steps a ring holds, in which the newest is written over the oldest; None for a recording that
            grows.
        dtypes: The dtypes of fields by name: "frames", "rewards" (float64 if it is left out), "actions", and features.
            What is left out has the dtype of the first value.
    """

    kind = "plain"
    has_frames = True

    def __init__(self, size: int | None = None, *, dtypes: Mapping[str, npt.DTypeLike] | None = None) -> None:
        self._timeline = Timeline(size)
        self._columns: dict[str, Column] = {}
        self._dtypes = {name: check_dtype(dtype) for name, dtype in (dtypes or {}).items()}
        if not self.has_frames:
            self._dtypes.pop("frames", None)

    def add(
        self, frame: Any, reward: Any, action: Any, features: Mapping[str, Any] | None = None, *, done: bool = False
    ) -> None:
        """Records a step.

        Args:
            frame: What the agent saw before it acted, an array of any dtype and shape.
            reward: What the step gave.
            action: What the agent did, a number or an array.
            features: Whatever else there is to remember of the step, by name. Each step has the same names.
            done: Whether the episode ends with this step.
        """
        given: dict[str, Any] = {"frames": frame} if self.has_frames else {}
        given |= {"rewards": reward, "actions": action, **checked_names(features or {})}
        self._check_names(given)
        values = {name: self._as_row(name, value) for name, value in given.items()}
        timeline, columns = self._timeline, dict(self._columns)
        row = timeline.row
        for name, value in values.items():
            if name not in columns:
                columns[name] = self._new_column(name, value.shape, value.dtype, grown(0, 1, timeline.size))
            columns[name].reserve(grown(len(columns[name].array), row + 1, timeline.size))
        oldest = timeline.oldest
        timeline.make_room()
        try:
            for name, value in values.items():
                columns[name].array[row] = value
        except Exception:
            timeline.oldest = oldest
            raise
        self._columns = columns
        timeline.advance()
        if done:
            timeline.end_episode()

    def declare(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        """Makes the rows of a field before the first step shows what it looks like; of a ring, all of its rows.

        Args:
            name: "frames", "rewards", "actions", or the name of a feature.
            shape: The shape of one value.
            dtype: Its dtype, of any kind but object.
        """
        if self.steps:
            raise RecordingError(f"{name} cannot be declared any more, since steps were recorded")
        if name not in OWN:
            checked_names({name: None})
        elif name == "frames" and not self.has_frames:
            raise RecordingError(f"a {type(self).__name__} keeps no frames")
        self._columns[name] = self._new_column(name, shape, check_dtype(dtype), self.size or grown(0, 1, None))

    @property
    def names(self) -> list[str]:
        """The names of all that is kept of a step: "frames", "rewards", "actions", and those of the features."""
        return list(self._columns)

    def memory(self, name: str) -> Any:
        """Returns the rows of a field as they lie in memory, not copied: in a ring, step `n` is in row `n % size`.

        Args:
            name: One of `names`.
        """
        if name not in self._columns:
            raise RecordingError(f"there are no {name} in this recording{'' if self.steps else ' yet'}")
        return self._columns[name].array

    def end_episode(self) -> None:
        """Begins another episode with the next step, as `add(..., done=True)` does; after an end this does nothing."""
        self._timeline.end_episode()

    def __len__(self) -> int:
        """Returns the number of steps that are held, which in a ring is its size at most."""
        return len(self._timeline)

    @property
    def size(self) -> int | None:
        """The number of steps that a ring holds, or None for a recording that grows."""
        return self._timeline.size

    @property
    def steps(self) -> int:
        """The number of steps that were ever recorded."""
        return self._timeline.steps

    @property
    def n_episodes(self) -> int:
        """The number of episodes of which any step is held."""
        return len(self._timeline.spans())

    def episodes(self) -> Iterator[Episode]:
        """Yields the episodes of which any step is held, oldest first, each copied out when it is reached."""
        for span in self._timeline.spans():
            yield self._episode(span)

    def episode(self, index: int) -> Episode:
        """Returns one of the episodes of which any step is held.

        Args:
            index: Which of them: 0 is the oldest, and -1 the last.
        """
        spans = self._timeline.spans()
        try:
            return self._episode(spans[operator.index(index)])
        except IndexError:
            raise IndexError(f"there is no episode {index}; {len(spans)} are held") from None

    @property
    def frames(self) -> Any:
        """The frames of the steps that are held, oldest first: a copy, and a compressed one if they are compressed."""
        return self._all("frames")

    @property
    def rewards(self) -> Any:
        """The rewards of the steps that are held, oldest first: a copy."""
        return self._all("rewards")

    @property
    def actions(self) -> Any:
        """The actions of the steps that are held, oldest first: a copy."""
        return self._all("actions")

    @property
    def features(self) -> Any:
        """The named features of the steps that are held, oldest first: copies."""
        return {name: self._all(name) for name in self._columns if name not in OWN}

    @property
    def nbytes(self) -> int:
        """The number of bytes that the steps which are held stand for."""
        items = (prod(column.item_shape) * int(column.array.dtype.itemsize) for column in self._columns.values())
        return len(self) * sum(items)

    @property
    def nbytes_stored(self) -> int:
        """The number of bytes that the recording takes, with rows for steps to come."""
        return sum(column.nbytes_stored for column in self._columns.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording to a file, frames as compressed as they are; `recording.load` reads it.

        Args:
            path: The name of the file. One that is there is replaced once all is written.
        """
        if not self.steps:
            raise RecordingError("there is nothing to save yet: record a step before")
        save_parts(path, self.kind, self._timeline, self._columns)

    def __repr__(self) -> str:
        held = f"{len(self):,} steps in {self.n_episodes:,} episodes"
        return f"<{type(self).__name__}: {held}, {for_people(self.nbytes)} in {for_people(self.nbytes_stored)}>"

    def _new_column(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], rows: int) -> Column:
        return PlainColumn(np.zeros((rows, *shape), dtype))

    def _check_names(self, given: Mapping[str, Any]) -> None:
        expected = self._columns.keys() | self._dtypes.keys()
        if missing := expected - given.keys():
            raise RecordingError(f"every step has the same features, and this one lacks {_listed(missing)}")
        if self.steps and (more := given.keys() - expected):
            raise RecordingError(f"every step has the same features, and those before had no {_listed(more)}")

    def _as_row(self, name: str, value: Any) -> npt.NDArray[Any]:
        """Returns a value in the dtype and shape that its column has, or will have."""
        column = self._columns.get(name)
        if column is not None:
            dtype = column.array.dtype
        elif name in self._dtypes:
            dtype = self._dtypes[name]
        else:  # a first reward is often the whole number 0, and no reason to refuse all halves
            dtype = np.dtype(np.float64) if name == "rewards" else check_dtype(np.asarray(value).dtype)
        try:
            row = cast_exactly(value, dtype)
        except LossyWriteError as error:
            raise LossyWriteError(f"{name}: {error}, as in dtypes={{{name!r}: ...}}") from error
        if column is not None and row.shape != column.item_shape:
            raise RecordingError(f"{name} have shape {column.item_shape} in this recording, not {row.shape}")
        return row

    def _all(self, name: str) -> Any:
        self.memory(name)
        return self._columns[name].read(self._timeline.rows(self._timeline.oldest, self.steps))

    def _episode(self, span: Span) -> Episode:
        rows = self._timeline.rows(span.first, span.stop)
        read = {name: column.read(rows) for name, column in self._columns.items()}
        frames, rewards, actions = (read.pop(name, None) for name in OWN)
        return Episode(span.number, frames, rewards, actions, read, span.has_start, span.has_end)


def checked_names(features: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Returns features whose names can be those of files, and are not ours."""
    for name in features:
        if not isinstance(name, str) or not name or not name.isprintable() or set(name) & set("/\\"):
            raise RecordingError(f"a feature's name is a text without slashes, not {name!r}")
        if name in OWN:
            raise RecordingError(f"{name!r} is no name for a feature, since every step has {name} already")
    return features


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))
