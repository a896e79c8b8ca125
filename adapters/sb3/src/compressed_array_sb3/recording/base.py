"""The names of `sb3_extra_buffers.recording.base`: the base class of recordings, and an array that does nothing."""

from __future__ import annotations

from typing import Any

from compressed_array.recording import BaseRecordBuffer

__all__ = ["BaseRecordBuffer", "DummyArray"]


class DummyArray:
    """Stands in for an array that a recording does not have; every operation does nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def transpose(self, *axes: Any) -> None:
        """Does nothing.

        Args:
            axes: Ignored.
        """

    def fill(self, value: Any) -> None:
        """Does nothing.

        Args:
            value: Ignored.
        """
