"""The errors that the buffers raise on purpose, beside those of `compressed_array`."""

from __future__ import annotations

from compressed_array.errors import NothingToSampleError

__all__ = [
    "BufferFullError",
    "BufferOptionError",
    "BufferStateError",
    "BusyBufferError",
    "NothingToSampleError",
    "StepError",
    "WriterClosedError",
    "WriterLostWarning",
]


class BufferOptionError(ValueError):
    """Options that do not go together, or that no buffer has."""


class StepError(ValueError):
    """A step that is not of the buffer's fields, shapes or dtypes. Nothing was stored."""


class BufferFullError(RuntimeError):
    """A step for a buffer that is full and does not write over what it has. Nothing was stored."""


class BufferStateError(ValueError):
    """A state that was not taken from a buffer of this kind. Nothing was loaded."""


class BusyBufferError(RuntimeError):
    """A signal's handler used a buffer in the middle of its own thread's use of it. Nothing was changed by that."""


class WriterClosedError(RuntimeError):
    """Steps for a shared buffer that takes no more of them, or from a writer that was closed."""


class WriterLostWarning(UserWarning):
    """A process that wrote to a shared buffer has ended without closing its writer."""
