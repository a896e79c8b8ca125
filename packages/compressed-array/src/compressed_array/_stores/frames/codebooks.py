"""Codes a frame's words by a codebook: a prefix code for each word's upper bits, then its lower bits.

Numbers that were computed in fewer bits than they are kept in have zeros below, counts have zeros above: neither are
written. What lies between is rotated left by one bit where it reaches up to a sign, so that an exponent is on top; or
a word is first folded, so that small numbers of either sign are small. Its `top` bits have a code; the bits below them
follow as they are. Some words of zeros in a row may have a code, which their number less one follows; and so may all
words that the book does not foresee, which then follow whole.

A book is five numbers, in a byte each: the bytes of a word, the zeros below, the bits between, how many of these are on
top, and the way of folding. Then, for every byte that may come next, low bits first: how many bits of it are a code,
how many bits follow that, and what the top bits are. `kernels.codebooks` does the same to memory, and
`codebook_learning` makes books.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.loading import native
from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.groups import WORD_SIZES
from compressed_array.errors import CorruptPayloadError

Elements = npt.NDArray[Any]  # unsigned
CODED_SIZES = WORD_SIZES[1:]  # of words that a book may be for
LONGEST = 8  # bits of a code, and of the number of words of zeros in a row
AS_IT_IS, ROTATED, SIGN_FOLDED = range(3)
# In the table of how many bits follow a code: ZEROS plus that number for the code of words of zeros, WHOLE for the code
# that all bits of a word follow.
ZEROS, WHOLE = 128, 255
# Where in a book's bytes its five numbers and its three tables are, and how many bytes it has.
WORD_AT, BELOW_AT, BETWEEN_AT, TOP_AT, FOLDING_AT = range(5)
LENGTHS_AT, BITS_AT, TOPS_AT, BOOK_NBYTES = 8, 8 + 256, 8 + 512, 8 + 768
BEHIND = 16  # bytes past the end that a kernel may read or overwrite


class Book(NamedTuple):
    """What the bytes of a codebook say."""

    word: int
    below: int
    between: int
    top: int
    folding: int
    lengths: Bytes
    bits: Bytes
    tops: Bytes

    @classmethod
    def of(cls, data: Bytes) -> Book:
        """Parses a codebook."""
        word, below, between, top, folding = data[[WORD_AT, BELOW_AT, BETWEEN_AT, TOP_AT, FOLDING_AT]].tolist()
        tables = data[LENGTHS_AT:BITS_AT], data[BITS_AT:TOPS_AT], data[TOPS_AT:BOOK_NBYTES]
        return cls(word, below, between, top, folding, *tables)

    def data(self) -> Bytes:
        """Returns the bytes that `of` parses."""
        numbers = np.zeros(LENGTHS_AT, np.uint8)
        numbers[[WORD_AT, BELOW_AT, BETWEEN_AT]] = self.word, self.below, self.between
        numbers[[TOP_AT, FOLDING_AT]] = self.top, self.folding
        return np.concatenate([numbers, self.lengths, self.bits, self.tops])

    @property
    def rest(self) -> int:
        """The number of bits of a word that follow the code of its top bits."""
        return self.between - self.top

    @property
    def width(self) -> int:
        """The number of bits of a word."""
        return 8 * self.word

    @property
    def follow(self) -> npt.NDArray[np.int64]:
        """The number of bits that follow the code in each byte that may come next."""
        bits = self.bits.astype(np.int64)
        return np.where(bits == WHOLE, self.width, np.where(self.is_zeros, bits - ZEROS, bits))

    @property
    def is_zeros(self) -> npt.NDArray[np.bool_]:
        """For each byte that may come next, whether the code in it is that of words of zeros."""
        return np.asarray((self.bits >= ZEROS) & (self.bits != WHOLE))


def checked(data: Bytes) -> Bytes | None:
    """Returns bytes from outside, in one piece, if they are a codebook; None if they are not."""
    if data.size != BOOK_NBYTES or data[WORD_AT] not in CODED_SIZES:
        return None
    book = Book.of(data)
    is_sound = (
        book.below + book.between <= book.width
        and book.top <= min(book.between, 8)
        and max(book.below, book.rest) < book.width
        and (book.folding != ROTATED or book.between > 0)
        and book.folding <= SIGN_FOLDED
        and bool((book.lengths <= LONGEST).all())
        and bool(np.isin(book.bits, [book.rest, WHOLE, *range(ZEROS, ZEROS + LONGEST + 1)]).all())
    )
    return np.ascontiguousarray(data) if is_sound else None


def encode(frame: Bytes, data: Bytes) -> bytes | None:
    """Returns the words of a frame by a book; None if they take more than the frame, or have no code."""
    kernels = native("_stores.frames.kernels.codebook_functions")
    if kernels is None:
        return encode_numpy(frame, data)
    out, scratch = np.empty(frame.size + BEHIND, np.uint8), np.empty(256, np.uint8)
    addresses = [array.ctypes.data for array in (frame, data, scratch, out)]
    size = kernels.encode_words_at.ctypes(addresses[0], frame.size, *addresses[1:], frame.size)
    return None if size < 0 else out[:size].tobytes()


def encode_numpy(frame: Bytes, data: Bytes) -> bytes | None:
    """Does what `encode` does, by numpy alone."""
    book = Book.of(data)
    found = _codes(frame, book)
    if found is None:
        return None
    codes, follows = found
    bits = np.unpackbits(codes[:, None], axis=1, bitorder="little")
    more = np.unpackbits(follows.view(np.uint8).reshape(-1, book.word), axis=1, bitorder="little")
    kept = np.arange(LONGEST) < book.lengths[codes][:, None]
    kept_more = np.arange(book.width) < book.follow[codes][:, None]
    each = np.concatenate([bits, more], axis=1)[np.concatenate([kept, kept_more], axis=1)]
    packed = np.packbits(each, bitorder="little")
    return None if packed.size > frame.size else packed.tobytes()


def size_of(frame: Bytes, data: Bytes) -> int:
    """Returns how many bytes `encode` gives, or the size of the frame where it gives none."""
    book = Book.of(data)
    found = _codes(frame, book)
    bits = 8 * frame.size if found is None else int((book.lengths + book.follow)[found[0]].sum())
    return min(-(-bits // 8), frame.size)


def _codes(frame: Bytes, book: Book) -> tuple[Bytes, Elements] | None:
    """Returns the codes of a frame's words, each alone in a byte, and what follows them."""
    words = frame.view(f"<u{book.word}")
    between, fits = taken_out(words, book)
    is_whole, is_zeros = book.bits == WHOLE, book.is_zeros
    if not is_whole.any() and not fits.all():
        return None
    known = np.flatnonzero(~is_whole & ~is_zeros)[::-1]
    code_of = np.full(1 << book.top, np.argmax(is_whole))
    code_of[book.tops[known]] = known  # the lowest comes last
    codes = code_of[(between >> between.dtype.type(book.rest)).astype(np.int64)]
    codes[~fits] = np.argmax(is_whole)
    follows = np.where(is_whole[codes], words, between)
    if is_zeros.any():
        most = 1 << int(book.bits[is_zeros][0]) - ZEROS
        starts, lengths = zeros_in_a_row(words, most)
        codes[starts], follows[starts] = np.argmax(is_zeros), lengths - 1
        kept = words != 0
        kept[starts] = True
        codes, follows = codes[kept], follows[kept]
    return codes.astype(np.uint8), follows


def is_valid(body: Bytes, data: Bytes, nbytes: int) -> bool:
    """Whether bytes from outside are the words of a frame by a book that is sound."""
    book = Book.of(data)
    if nbytes % book.word:
        return False
    try:
        _places(body, book, nbytes // book.word)
    except CorruptPayloadError:
        return False
    return True


def decode(body: Bytes, data: Bytes, frame: Bytes) -> None:
    """Decodes what `encode` returned to `frame`, by numpy alone."""
    book = Book.of(data)
    places, codes, first = _places(body, book, frame.size // book.word)
    every, bits = np.arange(book.width), book.follow[codes]
    each = np.unpackbits(np.append(body, np.zeros(BEHIND, np.uint8)), bitorder="little")
    each = each[(places + book.lengths[codes])[:, None] + every] * (every < bits[:, None])
    follows = np.packbits(each, axis=1, bitorder="little").view(f"<u{book.word}").reshape(-1)
    between = book.tops[codes].astype(follows.dtype) << follows.dtype.type(book.rest) | follows
    found = np.where(book.bits[codes] == WHOLE, follows, put_back(between, book))
    found[book.is_zeros[codes]] = 0
    words = np.zeros(frame.size // book.word, follows.dtype)
    words[first] = found
    frame[...] = words.view(np.uint8)


def _places(body: Bytes, book: Book, count: int) -> tuple[npt.NDArray[np.int64], Bytes, npt.NDArray[np.int64]]:
    """Returns at which bit each code begins, the byte that is there, and the number of its first word.

    The codes are those of `count` words, and the last ends where the body does.
    """
    padded = np.append(body, np.zeros(3, np.uint8)).astype(np.uint16)
    pairs = padded[:-1] | padded[1:] << np.uint16(8)
    there = (pairs[:, None] >> np.arange(8, dtype=np.uint16)).astype(np.uint8).reshape(-1)
    next_bytes, lengths, steps = there.tolist(), book.lengths.tolist(), (book.lengths + book.follow).tolist()
    masks = np.where(book.is_zeros, (1 << np.minimum(book.follow, LONGEST)) - 1, 0).tolist()
    at, word, places, first = 0, 0, [], []
    while word < count and at <= 8 * body.size:
        code = next_bytes[at]
        places.append(at)
        first.append(word)
        word += 1 + (next_bytes[at + lengths[code]] & masks[code])
        at += steps[code]
    if word != count or -(-at // 8) != body.size:
        raise CorruptPayloadError("words by a codebook do not end where their record does")
    found = np.array(places, np.int64)
    return found, there[found], np.array(first, np.int64)


def zeros_in_a_row(words: Elements, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns where words of zeros begin, and how many there are in a row, `most` at a time."""
    is_zero = np.concatenate([[False], words == 0, [False]])
    edges = np.flatnonzero(is_zero[1:] != is_zero[:-1])
    begin, end = edges[::2], edges[1::2]
    pieces = -(-(end - begin) // most)
    nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.repeat(begin, pieces) + nth * most
    return starts, np.minimum(np.repeat(end, pieces) - starts, most)


def taken_out(words: Elements, book: Book) -> tuple[Elements, npt.NDArray[np.bool_]]:
    """Returns the bits between the zeros at both ends of each word, and whether that is all of the word."""
    kind = words.dtype.type
    folded = fold(words) if book.folding == SIGN_FOLDED else words
    between = folded >> kind(book.below)
    fits = between << kind(book.below) == folded
    if book.between < book.width:
        fits &= between >> kind(book.between) == 0
    if book.folding == ROTATED:
        between = between << kind(1) | between >> kind(book.between - 1)
    return between & kind((1 << book.between) - 1), fits


def put_back(between: Elements, book: Book) -> Elements:
    """Returns the words from which `taken_out` took these bits."""
    kind = between.dtype.type
    if book.folding == ROTATED:
        between = between >> kind(1) | (between & kind(1)) << kind(book.between - 1)
    words = between << kind(book.below)
    return np.asarray(words >> kind(1) ^ kind(0) - (words & kind(1)) if book.folding == SIGN_FOLDED else words)


def fold(words: Elements) -> Elements:
    """Returns numbers with their sign in the lowest bit: 0, -1, 1, -2 and so on as 0, 1, 2, 3."""
    kind, width = words.dtype.type, 8 * words.dtype.itemsize
    return np.asarray(words << kind(1) ^ kind(0) - (words >> kind(width - 1)))
