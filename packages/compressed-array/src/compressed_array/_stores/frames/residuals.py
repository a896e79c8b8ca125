"""What is left of a frame when what can be foretold of it is taken away: what zstd is given where that is less.

A byte is foretold by the one some bytes before it, the pixel above, or by the same byte of a reference. What is left,
a difference without carry, is small numbers where neighbours are alike but for noise, in which zstd finds nothing the
same. Bytes of elements of several are then sorted by their place in the element, since their high bytes are alike.

How that was done is a word: the element's size as a power of two, what foretold, and a number, either the distance or
the reference's. Before the zstd frame of a record that was made so stand the word's first byte and the number, as a
varint; a record that was not begins with zstd's own first byte, which no such word has. `kernels.residuals` does the
same to memory.

Where a codebook foretells, of the number among the references, what follows are words by that book, and no zstd frame.
"""

from __future__ import annotations

import numpy as np

from compressed_array._runtime.types import Bytes
from compressed_array.codecs import _changes
from compressed_array.errors import CorruptPayloadError

AS_IT_IS = 0  # the word for a frame that is given to zstd as it is
BEFORE, REFERENCE, BOOK = 1, 2, 3  # what foretells
SIZE_BITS, NUMBER_AT = 2, 8
SIZES = (1, 2, 4, 8)  # of elements
ZSTD_BEGINS = 0x28


def word(what: int, number: int, itemsize: int) -> int:
    """Returns the word for what foretells elements of a size; of sizes not in `SIZES`, bytes are not sorted."""
    size = SIZES.index(itemsize) if itemsize in SIZES else 0
    return number << NUMBER_AT | what << SIZE_BITS | size


def foretells(how: int) -> int:
    """Returns what foretells, by a word: `BEFORE`, `REFERENCE` or `BOOK`."""
    return how >> SIZE_BITS & 0xFF >> SIZE_BITS


def head(how: int) -> bytes:
    """Returns what stands before the zstd frame of a record that was made by a word."""
    return b"" if how == AS_IT_IS else bytes([how & 0xFF]) + _changes.varint(how >> NUMBER_AT)


def split(body: Bytes) -> tuple[int, Bytes]:
    """Returns the word of a zstd record, and its zstd frame."""
    if not body.size:
        raise CorruptPayloadError("a record of zstd's is empty")
    if body[0] == ZSTD_BEGINS:
        return AS_IT_IS, body
    number, size = _changes.read_varint(body[1:6].tobytes(), 0)
    return int(body[0]) | number << NUMBER_AT, body[1 + size :]


def is_sound(how: int, frame_nbytes: int, references: list[int]) -> bool:
    """Whether a word from outside is one for such a frame, and a zstd frame; `references` says how long each is."""
    number = how >> NUMBER_AT
    if how == AS_IT_IS:
        return True
    if frame_nbytes % SIZES[how & (1 << SIZE_BITS) - 1]:
        return False
    if foretells(how) == BEFORE:
        return 0 < number <= frame_nbytes
    return foretells(how) == REFERENCE and number < len(references) and references[number] >= frame_nbytes


def taken(frame: Bytes, how: int, references: list[Bytes]) -> Bytes:
    """Returns what is left of a frame when what is foretold is taken away."""
    left, number = frame.copy(), how >> NUMBER_AT
    if foretells(how) == BEFORE:
        left[number:] -= frame[:-number]
    else:
        left -= references[number][: frame.size]
    return np.ascontiguousarray(left.reshape(-1, SIZES[how & (1 << SIZE_BITS) - 1]).T).reshape(-1)


def put_back(left: Bytes, how: int, references: list[Bytes], frame: Bytes) -> None:
    """Turn what is left of a frame into the frame."""
    frame[...] = left.reshape(SIZES[how & (1 << SIZE_BITS) - 1], -1).T.reshape(-1)
    number = how >> NUMBER_AT
    if foretells(how) == BEFORE:
        for start in range(number, frame.size, number):
            row = frame[start : start + number]
            row += frame[start - number : start - number + row.size]
    else:
        frame += references[number][: frame.size]
