"""The errors that the buffers raise on purpose, beside those of `compressed_array`."""

from __future__ import annotations


class ObservationError(ValueError):
    """An observation that is not of the buffer's space. Nothing was stored."""


class BufferOptionError(ValueError):
    """Options that do not go together, or that no buffer has."""


class BufferNotFullError(RuntimeError):
    """A rollout was asked for before all of it was collected."""


class MemoryForecastWarning(UserWarning):
    """At the rate seen so far, a buffer will not fit into memory once it is full."""
