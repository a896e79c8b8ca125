"""Rows of a few numbers each, in as many bits as they need: what becomes of a full group of small frames.

Each column of words is turned left by one bit, so that a float's exponent is on top and its sign below; the least of
the column is taken off, and what is left is written with as many bits as the largest has. Rows that follow each other
in time have exponents close together, counters and flags use few bits, and what does not change takes none. Any row is
found without those before it.

A group is the size of a word, in a byte, and of a row, in two; for each column its least word and how many bits, in a
byte, are left of each; and the rows, from whole bytes on, low bits first. `kernels.bitpack` does the same to memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.payloads import Payloads
from compressed_array._runtime.types import Bytes

HEAD = 3
WORD_SIZES = (1, 2, 4, 8)


def word_of(itemsize: int) -> int:
    """Returns how many bytes of an array's items are taken for a number."""
    return itemsize if itemsize in WORD_SIZES else 1


def narrow(plain: Payloads, nbytes: int, word: int) -> Payloads:
    """Payloads that are rows of `nbytes` bytes, with a word's length of memory behind the last, each as a group."""
    kernels = native("_stores.frames.kernels.groups")
    if kernels is None:
        return Payloads.from_parts([narrowed(plain[i].reshape(-1, nbytes), word) for i in range(len(plain))])
    # Whatever is in it, a group has a head and rows; a kernel writes words, and more of them than it needs.
    most = HEAD + nbytes // word * (word + 1) + int(plain.size.max(initial=0)) + 2 * max(WORD_SIZES)
    out, size = np.empty((len(plain), most), np.uint8), np.empty(len(plain), np.int64)
    kernels.narrow_groups(plain.addresses(), plain.size // nbytes, nbytes, word, out, size)
    return Payloads.in_one_buffer(out.reshape(-1), np.arange(len(plain)) * most, size)


def narrowed(rows: Bytes, word: int) -> Bytes:
    """Returns rows of bytes, (count, nbytes), as a group, by numpy alone."""
    count, nbytes = rows.shape
    columns, width = nbytes // word, 8 * word
    words = np.ascontiguousarray(rows).view(f"<u{word}")
    one, rest = words.dtype.type(1), words.dtype.type(width - 1)
    turned = words << one | words >> rest
    least = turned.min(0)
    bits = np.array([int(span).bit_length() for span in turned.max(0) - least], np.uint8)
    each = np.unpackbits((turned - least).view(np.uint8).reshape(count, columns, word), axis=2, bitorder="little")
    packed = np.packbits(each[:, np.arange(width) < bits[:, None]], axis=1, bitorder="little")
    head = np.concatenate([least.view(np.uint8).reshape(columns, word), bits[:, None]], axis=1)
    size = np.array([packed.shape[1]], "<u2").view(np.uint8)
    return np.concatenate([np.array([word], np.uint8), size, head.reshape(-1), packed.reshape(-1)])


def widened(group: Bytes, first: int, count: int, nbytes: int) -> Bytes:
    """Returns `count` rows of a group from `first` on, as they were."""
    word, size, least, bits = _head(group, nbytes)
    columns, width = nbytes // word, 8 * word
    start = HEAD + columns * (word + 1) + first * size
    rows = group[start : start + count * size].reshape(count, size)
    each = np.zeros((count, columns, width), np.uint8)
    each[:, np.arange(width) < bits[:, None]] = np.unpackbits(rows, axis=1, count=int(bits.sum()), bitorder="little")
    turned = np.packbits(each, axis=2, bitorder="little").view(f"<u{word}").reshape(count, columns) + least
    one, rest = turned.dtype.type(1), turned.dtype.type(width - 1)
    wide: Bytes = (turned >> one | turned << rest).view(np.uint8)
    return wide


def fits(group: Bytes, count: int, nbytes: int) -> bool:
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
