"""The kernels of `bitpack`: rows of a few numbers, written in as many bits as they need, and read again."""

from __future__ import annotations

import numpy as np

from compressed_array._runtime.numba_tools import Word, helper, load8, load16, load64, store8, store32, store64
from compressed_array._stores.frames.bitpack import HEAD

ONE, BYTE, WORD_BITS = np.uint64(1), np.uint64(8), np.uint64(64)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@helper
def low_bits(bits: Word) -> Word:
    """Returns a mask of so many low bits."""
    return (ONE << bits) - ONE if bits < WORD_BITS else ALL


@helper
def unpack_row(group: Word, row: Word, nbytes: Word, target: Word) -> None:
    """Writes row number `row` of a group to `target`; behind the group may be read."""
    word = np.int64(load8(group))
    columns, width = nbytes // word, BYTE * np.uint64(word)
    head, whole = group + HEAD, low_bits(width)
    bit = np.uint64(BYTE * np.uint64(head + columns * (word + 1) + row * np.int64(load16(group + 1))))
    for column in range(columns):
        least, bits = load64(head) & whole, load8(head + word)
        head += word + 1
        at, shift = np.int64(bit >> np.uint64(3)), bit & np.uint64(7)
        value = load64(at) >> shift
        if bits + shift > WORD_BITS:
            value |= load8(at + 8) << (WORD_BITS - shift)
        rotated = (value & low_bits(bits)) + least & whole
        store_word(target + column * word, rotated >> ONE | rotated << (width - ONE), word)
        bit += bits


@helper
def store_word(at: Word, value: Word, word: Word) -> None:
    """Writes the low bytes of a number, and nothing behind them."""
    if word == 4:
        store32(at, value)
    elif word == 8:
        store64(at, value)
    else:
        store8(at, value)
        if word == 2:
            store8(at + 1, value >> BYTE)


@helper
def rotated_word(at: Word, width: Word, whole: Word) -> Word:
    """Returns the word at an address, rotated left by one bit."""
    value = load64(at) & whole
    return (value << ONE | value >> (width - ONE)) & whole


@helper
def bitpack_rows(rows: Word, count: Word, nbytes: Word, word: Word, out: Word) -> Word:
    """Writes rows to `out` as a group. Returns its size. Behind both there is room for a word and more."""
    columns, width = nbytes // word, BYTE * np.uint64(word)
    whole, head = low_bits(width), out + HEAD
    total = np.uint64(0)
    for column in range(columns):
        least, most = ALL, np.uint64(0)
        for row in range(count):
            value = rotated_word(rows + row * nbytes + column * word, width, whole)
            least, most = min(least, value), max(most, value)
        bits, span = np.uint64(0), most - least
        while span != 0:
            bits, span = bits + ONE, span >> ONE
        store64(head, least)
        store8(head + word, bits)
        head += word + 1
        total += bits
    size = np.int64(total + np.uint64(7) >> np.uint64(3))
    store8(out, np.uint64(word))
    store8(out + 1, np.uint64(size))
    store8(out + 2, np.uint64(size) >> BYTE)
    for row in range(count):
        at = head + row * size
        gathered, filled = np.uint64(0), np.uint64(0)
        for column in range(columns):
            entry = out + HEAD + column * (word + 1)
            bits = load8(entry + word)
            value = rotated_word(rows + row * nbytes + column * word, width, whole) - (load64(entry) & whole)
            gathered |= value << filled
            if filled + bits >= WORD_BITS:
                store64(at, gathered)
                at += 8
                taken = WORD_BITS - filled
                gathered = value >> taken if taken < WORD_BITS else np.uint64(0)
                filled = filled + bits - WORD_BITS
            else:
                filled += bits
        store64(at, gathered)
    return head + count * size - out
