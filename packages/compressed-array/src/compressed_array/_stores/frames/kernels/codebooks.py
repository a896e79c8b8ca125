"""The kernels of `codebooks`: frames coded by a codebook in memory, and decoded."""

from __future__ import annotations

import numpy as np

from compressed_array._runtime.numba_tools import Word, helper, load8, load16, load32, load64, store8, store64
from compressed_array._stores.frames.codebooks import (
    BELOW_AT,
    BETWEEN_AT,
    BITS_AT,
    FOLDING_AT,
    LENGTHS_AT,
    ROTATED,
    SIGN_FOLDED,
    TOP_AT,
    TOPS_AT,
    WHOLE,
    WORD_AT,
    ZEROS,
)
from compressed_array._stores.frames.kernels.bitpack import BYTE, ONE, WORD_BITS, low_bits, store_word

NO_BITS, EIGHTH, SEVEN = np.uint64(0), np.uint64(3), np.uint64(7)
NONE = np.int64(-1)


@helper
def head_of(book: Word) -> Word:
    """Returns the bytes of a word, the zero bits below, the bits between, those below the top ones, and the folding."""
    between = load8(book + BETWEEN_AT)
    word, rest = np.int64(load8(book + WORD_AT)), between - load8(book + TOP_AT)
    return word, load8(book + BELOW_AT), between, rest, load8(book + FOLDING_AT)


@helper
def load_word(at: Word, word: Word) -> Word:
    """Returns a word of two, four or eight bytes, and reads nothing behind it."""
    if word == 4:
        return load32(at)
    return load64(at) if word == 8 else load16(at)


@helper
def put_bits(at: Word, gathered: Word, filled: Word, value: Word, bits: Word) -> Word:
    """Appends bits to the accumulator. Returns the new write address, accumulator and bit count."""
    gathered |= value << filled
    if filled + bits < WORD_BITS:
        return at, gathered, filled + bits
    store64(at, gathered)
    taken = WORD_BITS - filled
    return at + 8, value >> taken if taken < WORD_BITS else NO_BITS, filled + bits - WORD_BITS


@helper
def encode_words(frame: Word, size: Word, book: Word, scratch: Word, out: Word, limit: Word) -> Word:
    """Writes the words of a frame by a book to `out`. Returns how many bytes they take.

    Returns -1 where that is more than `limit`, behind which there is room for two words and more, or where the book has
    no code for a word. The scratch memory has room for 256 bytes.
    """
    word, below, between, rest, folding = head_of(book)
    width, inside = BYTE * np.uint64(word), low_bits(between)
    all_bits, end = low_bits(width), out + limit
    whole, zeros, row_bits, most = NONE, NONE, NO_BITS, np.int64(1)
    for byte in range(255, -1, -1):  # the lowest comes last, in which nothing stands behind the code
        bits = load8(book + BITS_AT + byte)
        if bits == WHOLE:
            whole = np.int64(byte)
        elif bits >= ZEROS:
            zeros, row_bits = np.int64(byte), bits - np.uint64(ZEROS)
            most = np.int64(1) << np.int64(row_bits)
    for top in range(256):
        store8(scratch + top, np.uint64(max(whole, np.int64(0))))
    for byte in range(255, -1, -1):
        if load8(book + BITS_AT + byte) == rest:
            store8(scratch + np.int64(load8(book + TOPS_AT + byte)), np.uint64(byte))
    gathered, filled, at, k = NO_BITS, NO_BITS, out, np.int64(0)
    while k < size:
        value = load_word(frame + k, word)
        k += word
        folded, code = value, whole
        if value == 0 and zeros >= 0:
            row = np.int64(1)
            while row < most and k < size and load_word(frame + k, word) == 0:
                row, k = row + 1, k + word
            at, gathered, filled = put_bits(at, gathered, filled, np.uint64(zeros), load8(book + LENGTHS_AT + zeros))
            at, gathered, filled = put_bits(at, gathered, filled, np.uint64(row - 1), row_bits)
            continue
        if folding == SIGN_FOLDED:
            folded = (value << ONE ^ (NO_BITS - (value >> (width - ONE)))) & all_bits
        follows = folded >> below
        if follows << below == folded and follows <= inside:
            if folding == ROTATED:
                follows = (follows << ONE | follows >> (between - ONE)) & inside
            code = np.int64(load8(scratch + np.int64(follows >> rest)))
        if code < 0 or at > end:
            return NONE
        at, gathered, filled = put_bits(at, gathered, filled, np.uint64(code), load8(book + LENGTHS_AT + code))
        if load8(book + BITS_AT + code) == WHOLE:
            at, gathered, filled = put_bits(at, gathered, filled, value, width)
        else:
            at, gathered, filled = put_bits(at, gathered, filled, follows & low_bits(rest), rest)
    found = at - out + np.int64(filled + SEVEN >> EIGHTH)
    if found > limit:
        return NONE
    store64(at, gathered)
    return found


@helper
def decode_words(body: Word, size: Word, book: Word, frame: Word) -> None:
    """Decodes what `encode_words` wrote to a frame of `size` bytes; bytes behind its record may be read, too."""
    word, below, between, rest, folding = head_of(book)
    width, bit, k = BYTE * np.uint64(word), BYTE * np.uint64(body), np.int64(0)
    while k < size:
        code = book + np.int64(load16(np.int64(bit >> EIGHTH)) >> (bit & SEVEN) & np.uint64(255))
        bit += load8(code + LENGTHS_AT)
        bits, is_zeros, is_whole = load8(code + BITS_AT), False, False
        if bits >= ZEROS:
            is_whole = bits == WHOLE
            is_zeros = not is_whole
            bits = width if is_whole else bits - np.uint64(ZEROS)
        at, shift = np.int64(bit >> EIGHTH), bit & SEVEN
        value = load64(at) >> shift
        if bits + shift > WORD_BITS:
            value |= load8(at + 8) << (WORD_BITS - shift)
        value &= low_bits(bits)
        bit += bits
        if is_zeros:
            for _ in range(np.int64(value)):
                store_word(frame + k, NO_BITS, word)
                k += word
            value = NO_BITS
        elif not is_whole:
            value |= load8(code + TOPS_AT) << rest
            if folding == ROTATED:
                value = value >> ONE | (value & ONE) << (between - ONE)
            value <<= below
            if folding == SIGN_FOLDED:
                value = value >> ONE ^ (NO_BITS - (value & ONE))
        store_word(frame + k, value, word)
        k += word


@helper
def byte_at(body: Word, nbytes: Word, bit: Word) -> Word:
    """Returns the eight bits from number `bit` on of `nbytes` bytes, behind which are zeros."""
    at = bit >> 3
    there = np.int64(load8(body + at)) if at < nbytes else np.int64(0)
    if at + 1 < nbytes:
        there |= np.int64(load8(body + at + 1)) << 8
    return there >> (bit & 7) & 255


@helper
def are_valid_words(body: Word, end: Word, size: Word, book: Word) -> Word:
    """Whether what lies between two addresses is a frame of `size` bytes, coded by a book that is sound."""
    word, nbytes, bit, words = np.int64(load8(book + WORD_AT)), end - body, np.int64(0), np.int64(0)
    if size % word != 0:
        return False
    while words < size // word:
        if bit > 8 * nbytes:
            return False
        code = book + byte_at(body, nbytes, bit)
        bit += np.int64(load8(code + LENGTHS_AT))
        bits = np.int64(load8(code + BITS_AT))
        if bits == WHOLE:
            bits = 8 * word
        elif bits >= ZEROS:
            bits -= ZEROS
            words += byte_at(body, nbytes, bit) & ((1 << bits) - 1)
        bit, words = bit + bits, words + 1
    return words == size // word and (bit + 7) >> 3 == nbytes
