"""Packs the rows of a full group of small frames, a few numbers each, into as many bits as they need.

Each column of words is rotated left by one bit, so that a float's exponent is on top and its sign below; the least of
the column is taken off, and what is left is written with as many bits as the largest has. Rows that follow each other
in time have exponents close together, counters and flags use few bits, and what does not change takes none. Any row is
found without those before it.

Layout of a group: the size of a word (1 byte) and of a row (2 bytes); for each column its least word and a number of
bits (1 byte); then the rows, each from a whole byte on, low bits first. `kernels.bitpack` does the same to memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.groups import WORD_SIZES

HEAD = 3


def word_of(itemsize: int) -> int:
    """Returns how many bytes of an array's items are taken for a number."""
    return itemsize if itemsize in WORD_SIZES else 1


def bitpack_groups(plain: Payloads, nbytes: int, word: int) -> Payloads:
    """Packs each payload, the rows of `nbytes` bytes of a group, by bits. Behind each, a word has to be readable."""
    kernels = native("_stores.frames.kernels.groups")
    if kernels is None:
        return Payloads.from_parts([bitpack_rows(plain[i].reshape(-1, nbytes), word) for i in range(len(plain))])
    # Whatever is in it, a group has a head and rows; a kernel writes words, and more of them than it needs.
    most = HEAD + nbytes // word * (word + 1) + int(plain.size.max(initial=0)) + 2 * max(WORD_SIZES)
    out, size = np.empty((len(plain), most), np.uint8), np.empty(len(plain), np.int64)
    kernels.bitpack_groups(plain.addresses(), plain.size // nbytes, nbytes, word, out, size)
    return Payloads.in_one_buffer(out.reshape(-1), np.arange(len(plain)) * most, size)


def bitpack_rows(rows: Bytes, word: int) -> Bytes:
    """Packs the rows of a group, (count, nbytes), by bits, with numpy alone."""
    count, nbytes = rows.shape
    columns, width = nbytes // word, 8 * word
    words = np.ascontiguousarray(rows).view(f"<u{word}")
    one, rest = words.dtype.type(1), words.dtype.type(width - 1)
    rotated = words << one | words >> rest
    least = rotated.min(0)
    bits = np.array([int(span).bit_length() for span in rotated.max(0) - least], np.uint8)
    each = np.unpackbits((rotated - least).view(np.uint8).reshape(count, columns, word), axis=2, bitorder="little")
    packed = np.packbits(each[:, np.arange(width) < bits[:, None]], axis=1, bitorder="little")
    head = np.concatenate([least.view(np.uint8).reshape(columns, word), bits[:, None]], axis=1)
    size = np.array([packed.shape[1]], "<u2").view(np.uint8)
    return np.concatenate([np.array([word], np.uint8), size, head.reshape(-1), packed.reshape(-1)])


def unpack_rows(group: Bytes, first: int, count: int, nbytes: int) -> Bytes:
    """Returns `count` rows of a packed group from `first` on, as they were."""
    word, size, least, bits = _head(group, nbytes)
    columns, width = nbytes // word, 8 * word
    start = HEAD + columns * (word + 1) + first * size
    rows = group[start : start + count * size].reshape(count, size)
    each = np.zeros((count, columns, width), np.uint8)
    each[:, np.arange(width) < bits[:, None]] = np.unpackbits(rows, axis=1, count=int(bits.sum()), bitorder="little")
    rotated = np.packbits(each, axis=2, bitorder="little").view(f"<u{word}").reshape(count, columns) + least
    one, rest = rotated.dtype.type(1), rotated.dtype.type(width - 1)
    wide: Bytes = (rotated >> one | rotated << rest).view(np.uint8)
    return wide


def is_valid_group(group: Bytes, count: int, nbytes: int) -> bool:
    """Whether bytes from outside are a group of `count` rows of `nbytes` each."""
    if group.size < HEAD or group[0] not in WORD_SIZES or nbytes % int(group[0]):
        return False
    columns = nbytes // int(group[0])
    start = HEAD + columns * (int(group[0]) + 1)
    if group.size < start:
        return False
    word, size, _, bits = _head(group, nbytes)
    total = int(bits.sum(dtype=np.int64))
    return bool((bits <= 8 * word).all()) and size == -(-total // 8) and group.size == start + count * size


def _head(group: Bytes, nbytes: int) -> tuple[int, int, npt.NDArray[np.unsignedinteger], Bytes]:
    """Returns the sizes of a word and of a row, and for each column the least word and the number of bits."""
    word, size = int(group[0]), int(group[1]) | int(group[2]) << 8
    columns = nbytes // word
    head = group[HEAD : HEAD + columns * (word + 1)].reshape(columns, word + 1)
    return word, size, np.ascontiguousarray(head[:, :word]).view(f"<u{word}").reshape(columns), head[:, word]
