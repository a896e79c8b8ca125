"""The errors that this package raises on purpose. Each says what to do instead, and none leaves a half-done write."""

from __future__ import annotations

__all__ = [
    "BusyStoreError",
    "CodecLevelError",
    "CodecUnavailableError",
    "CorruptFileError",
    "CorruptPayloadError",
    "HeapFullError",
    "LossyWriteError",
    "NothingToSampleError",
    "PriorityError",
    "RecordingError",
    "UnknownCodecError",
    "UnsupportedDtypeError",
    "UnsupportedOperationError",
]


class UnknownCodecError(ValueError):
    """No codec has that name: none that is built in, registered, or offered by an installed package.

    Args:
        codec_id: The name.
        known: The names that there are.
    """

    def __init__(self, codec_id: str, known: list[str]) -> None:
        from difflib import get_close_matches  # not needed before somebody errs

        self.codec_id, self.known = codec_id, known
        word = codec_id.replace("_", "-").lower()
        near = get_close_matches(word, known, 1, 0.5) or get_close_matches(word.rstrip("0123456789-/"), known, 1, 0.5)
        meant = f", did you mean {near[0]!r}?" if near else ";"
        super().__init__(f"unknown codec {codec_id!r}{meant} known: {', '.join(known)}")

    def __reduce__(self) -> tuple[type[UnknownCodecError], tuple[str, list[str]]]:
        return type(self), (self.codec_id, self.known)


class CodecUnavailableError(ImportError):
    """The codec is known, but the library it needs is not installed.

    Args:
        codec_id: The codec's name.
        extra: The extra that brings the library.
        package: The package that has this extra.
    """

    def __init__(self, codec_id: str, extra: str, package: str = "compressed-array") -> None:
        self.codec_id, self.extra, self.package = codec_id, extra, package
        super().__init__(
            f"codec {codec_id!r} needs a library that is not installed, or does not work: "
            f"pip install '{package}[{extra}]'"
        )

    def __reduce__(self) -> tuple[type[CodecUnavailableError], tuple[str, str, str]]:
        return type(self), (self.codec_id, self.extra, self.package)


class CodecLevelError(ValueError):
    """A compression level outside the codec's range, or a level for a codec that has none."""

    nearest: int | None = None  # the level that comes closest, of a codec that has levels


class CorruptPayloadError(ValueError):
    """Bytes that the codec which is asked to decode them cannot have written."""


class CorruptFileError(ValueError):
    """A file that is not a saved compressed array, or one that was cut short or changed since it was saved."""


class LossyWriteError(ValueError):
    """A value that the array's dtype cannot hold. Nothing was written."""


class UnsupportedDtypeError(TypeError):
    """A dtype whose values are not bytes of their own (object), and so cannot be compressed."""


class UnsupportedOperationError(TypeError):
    """Something a compressed array cannot do without lying about its memory; the message names the way that works."""


class BusyStoreError(RuntimeError):
    """A signal's handler used a store in the middle of its own thread's use of it. The handler's call did nothing."""

    def __init__(self) -> None:
        super().__init__(
            "a signal came while its thread was in the middle of using this store, so that its handler cannot: make a "
            "note in the handler, and do it after the step"
        )


class NothingToSampleError(ValueError):
    """There is nothing to sample: nothing was added yet, nothing of what is held will do, or every priority is zero.

    Args:
        message: What there is too little of, and what to do.
    """

    def __init__(self, message: str = "there is nothing to sample yet: add something before") -> None:
        super().__init__(message)


class PriorityError(ValueError):
    """A priority that things cannot be drawn in proportion to, or a number to draw by that is out of range."""


class RecordingError(ValueError):
    """A step that does not go with those recorded before, or an export that cannot be made of what was recorded."""


class HeapFullError(MemoryError):
    """A heap on a device has no room left within its `heap_bytes`. What was there before is still there."""
