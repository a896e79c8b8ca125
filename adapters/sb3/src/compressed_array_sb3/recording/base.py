"""The names of `sb3_extra_buffers.recording.base`: what every recording is, and an array that is none."""

from __future__ import annotations

from typing import Any

from compressed_array.recording import BaseRecordBuffer

__all__ = ["BaseRecordBuffer", "DummyArray"]


class DummyArray:
    """In the place of an array that a recording does not have: what is done to it does nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def transpose(self, *axes: Any) -> None:
        """Do nothing."""

    def fill(self, value: Any) -> None:
        """Do nothing."""
