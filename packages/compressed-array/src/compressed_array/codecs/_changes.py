"""The runs of bytes in which one frame differs from another, as a record holds them.

A run is a token, the literal bytes, and before those what did not fit in the token. The upper four bits of the token
say how many bytes stay as they are before the run, the lower four how many bytes it has, less one; 15 means that the
rest of the number follows, as a varint. Two runs with at most `GAP` equal bytes between them are written as one: a byte
more at most than a second token, and one run less to apply.

This is the formula; the kernels do the same to memory, byte for byte.
"""

from __future__ import annotations

import numpy as np

from compressed_array._runtime.types import Bytes
from compressed_array.errors import CorruptPayloadError

GAP = 2
FULL_NIBBLE = 15


def encode(frame: Bytes, base: Bytes) -> bytes:
    """Returns the changes that turn `base` into `frame`."""
    different = np.flatnonzero(frame != base)
    if not len(different):
        return b""
    breaks = np.flatnonzero(np.diff(different) > GAP + 1)
    starts = different[np.append(0, breaks + 1)].tolist()
    ends = (different[np.append(breaks, len(different) - 1)] + 1).tolist()
    parts = bytearray()
    at = 0
    for start, end in zip(starts, ends, strict=True):
        skip, more = start - at, end - start - 1
        parts.append(min(skip, FULL_NIBBLE) << 4 | min(more, FULL_NIBBLE))
        if skip >= FULL_NIBBLE:
            parts += varint(skip - FULL_NIBBLE)
        if more >= FULL_NIBBLE:
            parts += varint(more - FULL_NIBBLE)
        parts += frame[start:end].tobytes()
        at = end
    return bytes(parts)


def apply(changes: Bytes, frame: Bytes) -> None:
    """Applies changes to a frame, in place."""
    data = changes.tobytes()
    i = at = 0
    while i < len(data):
        token, i = data[i], i + 1
        skip, more = token >> 4, token & FULL_NIBBLE
        if skip == FULL_NIBBLE:
            value, i = read_varint(data, i)
            skip += value
        if more == FULL_NIBBLE:
            value, i = read_varint(data, i)
            more += value
        at, length = at + skip, more + 1
        if at + length > frame.size or i + length > len(data):
            raise CorruptPayloadError(f"a run of {length} bytes at {at} does not fit a frame of {frame.size} bytes")
        frame[at : at + length] = changes[i : i + length]
        at, i = at + length, i + length


def varint(value: int) -> bytes:
    """Returns a number in as many bytes as it needs, seven bits in each, the low ones first."""
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at `data[at:]`, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise CorruptPayloadError("a number in the payload does not end")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
