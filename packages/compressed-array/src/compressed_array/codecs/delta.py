"""`delta` and `delta-zstd`: frames stored as what changed in them since the frame before.

An array with one of these codecs has a `FrameStore`, which sees items in the order they are written in. A buffer
by itself has none before it: `delta` encodes where it differs from zeros, a block at a time, and `delta-zstd` is zstd.
"""

from __future__ import annotations

import operator
from typing import ClassVar, SupportsIndex

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array.abc import Buffer, Codec, as_bytes_view, deliver, writable_bytes_view
from compressed_array.codecs import _changes
from compressed_array.codecs._common import check_claim, checked_level
from compressed_array.codecs.zstd import Zstd
from compressed_array.errors import CorruptPayloadError

__all__ = ["Delta", "DeltaZstd"]

# Each block has a length in front, so that a payload says how much memory it is worth before that is taken.
BLOCK_NBYTES = 16 * 1024
LONGEST_GROUP = 64  # frames
_ZEROS = np.zeros(BLOCK_NBYTES, np.uint8)


class Delta(Codec):
    """Frames as what changed in them since the frame before, in groups that begin with a frame by itself.

    Args:
        level: How many frames a group has. A read decodes at most as many that it does not return, and longer groups
            take less space. Left out, it follows from how much changes, so that groups have about the same size.
        stack_axis: The axis along which an item is a stack of frames. Left out, it is found from the data.
        frame_width: How long a frame is along that axis; 0 says that items are no stacks.

    >>> import numpy as np, compressed_array as ca
    >>> video = ca.zeros((64, 84, 84), np.uint8, codec=Delta(level=16))
    >>> video[:] = np.arange(64, dtype=np.uint8)[:, None, None]
    >>> int(video[9].max())
    9
    """

    codec_id: ClassVar[str] = "frame-delta"  # `delta` is another codec for numcodecs

    def __init__(
        self, level: SupportsIndex | None = None, stack_axis: int | None = None, frame_width: int | None = None
    ) -> None:
        self.level = None if level is None else checked_level(self.codec_id, level, range(1, LONGEST_GROUP + 1))
        self.stack_axis = None if stack_axis is None else operator.index(stack_axis)
        width = 1 if frame_width is None and stack_axis is not None else frame_width
        self.frame_width = None if width is None else operator.index(width)

    def max_encoded_size(self, nbytes: int) -> int:
        return nbytes + nbytes // 2 + 16 * (nbytes // BLOCK_NBYTES + 2)

    def encode(self, buf: Buffer) -> Buffer:
        data = as_bytes_view(buf, self.max_buffer_size)
        parts = bytearray(_changes.varint(data.size))
        for start in range(0, data.size, BLOCK_NBYTES):
            block = data[start : start + BLOCK_NBYTES]
            changes = encode_changes(block, _ZEROS[: block.size])
            parts += _changes.varint(len(changes)) + changes
        return bytes(parts)

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        data = as_bytes_view(buf, self.max_buffer_size)
        text = data.tobytes()
        claimed, at = _changes.read_varint(text, 0)
        check_claim(claimed, BLOCK_NBYTES * data.size, None if out is None else writable_bytes_view(out).size)
        decoded = np.zeros(claimed, np.uint8)
        for start in range(0, claimed, BLOCK_NBYTES):
            length, at = _changes.read_varint(text, at)
            if at + length > data.size:
                raise CorruptPayloadError("delta payload is cut short")
            apply_changes(data[at : at + length], decoded[start : start + BLOCK_NBYTES])
            at += length
        if at != data.size:
            raise CorruptPayloadError("delta payload has something behind its end")
        return deliver(decoded if out is not None else decoded.tobytes(), out)


class DeltaZstd(Delta):
    """`Delta` whose full groups go through zstd, with a dictionary learnt from the groups before.

    Args:
        level: How many frames a group has, as for `Delta`.
        stack_axis: The axis along which an item is a stack of frames. Left out, it is found from the data.
        frame_width: How long a frame is along that axis; 0 says that items are no stacks.

    >>> import numpy as np, compressed_array as ca
    >>> if ca.has_zstd():
    ...     video = ca.zeros((64, 84, 84), np.uint8, codec=DeltaZstd(frame_width=0))
    """

    codec_id: ClassVar[str] = "delta-zstd"
    releases_gil: ClassVar[bool] = True

    def __init__(
        self, level: SupportsIndex | None = None, stack_axis: int | None = None, frame_width: int | None = None
    ) -> None:
        super().__init__(level, stack_axis, frame_width)
        self._zstd = Zstd(3)

    def max_encoded_size(self, nbytes: int) -> int:
        return self._zstd.max_encoded_size(nbytes)

    def encode(self, buf: Buffer) -> Buffer:
        return self._zstd.encode(as_bytes_view(buf, self.max_buffer_size))

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        return self._zstd.decode(as_bytes_view(buf, self.max_buffer_size), out)


def encode_changes(frame: npt.NDArray[np.uint8], base: npt.NDArray[np.uint8]) -> bytes:
    """Does what `_changes.encode` does, by a kernel where numba is."""
    kernels = native("codecs._delta_kernels")
    if kernels is None:
        return _changes.encode(frame, base)
    room = 2 * frame.size + 64
    out = np.empty(room + 64, np.uint8)
    size = kernels.encode_at(frame.ctypes.data, base.ctypes.data, frame.size, out.ctypes.data, room)
    return out[:size].tobytes()


def apply_changes(changes: npt.NDArray[np.uint8], frame: npt.NDArray[np.uint8]) -> None:
    """Does what `_changes.apply` does, by a kernel where numba is."""
    kernels = native("codecs._delta_kernels")
    if kernels is None:
        _changes.apply(changes, frame)
    elif not kernels.apply_checked(changes.ctypes.data, changes.size, frame.ctypes.data, frame.size):
        raise CorruptPayloadError("delta payload does not fit its frame")
