"""Learns a codebook from sample frames: tries several kinds, and keeps the one that takes the fewest bits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.codebooks import (
    AS_IT_IS,
    LONGEST,
    ROTATED,
    SIGN_FOLDED,
    WHOLE,
    ZEROS,
    Book,
    Elements,
    fold,
    taken_out,
    zeros_in_a_row,
)

PIECES, PIECE = 32, 1024  # pieces of words that a book is learnt from, and their length
MOST_TOPS = 240  # most values of the top bits that get a code
ZEROS_CODE_BITS = 2  # bits of the code of words of zeros, roughly


def learn(frames: Bytes, word: int) -> Bytes:
    """Returns the book that takes the fewest bits for frames, one a row, of words of `word` bytes."""
    words = _some(frames.reshape(-1).view(f"<u{word}"))
    others, width = words[words != 0], 8 * word
    below, above = _zero_ends(others, width)
    kinds = [(below, width - below - above, AS_IT_IS if above else ROTATED)]
    if not above:
        kinds.append((0, width - _zero_ends(fold(others), width)[1], SIGN_FOLDED))
    books = [
        _learnt(words, Book(word, below, between, top, folding, *np.zeros((3, 256), np.uint8)), in_a_row)
        for below, between, folding in kinds
        for top in {min(between, 8), 0 if between < width else 8}
        for in_a_row in (None, _bits_of_rows(words))
    ]
    return min(books, key=lambda found: found[0])[1].data()


def _some(words: Elements) -> Elements:
    """Returns some of many words, in pieces that are not all of the same columns of a frame."""
    if len(words) <= PIECES * PIECE:
        return words
    starts = np.arange(PIECES) * (len(words) - PIECE) // (PIECES - 1)
    return np.asarray(words[starts[:, None] + np.arange(PIECE)].reshape(-1))


def _zero_ends(words: Elements, width: int) -> tuple[int, int]:
    """Returns the best number of zero bits to drop below and above; a word with other bits there is written whole."""
    ends = []
    for shift in (np.left_shift, np.right_shift):
        others = [np.count_nonzero(shift(words, words.dtype.type(width - k))) for k in range(width)]
        ends.append(int(np.argmax([k * len(words) - (width + k) * n for k, n in enumerate(others)])))
    return (ends[0], min(ends[1], width - ends[0])) if len(words) else (width - 1, 1)


def _bits_of_rows(words: Elements) -> int:
    """Returns the best number of bits for the lengths of runs of zero words."""
    costs = [len(zeros_in_a_row(words, 1 << bits)[0]) * (bits + ZEROS_CODE_BITS) for bits in range(LONGEST + 1)]
    return int(np.argmin(costs))


def _learnt(words: Elements, book: Book, in_a_row: int | None) -> tuple[int, Book]:
    """Returns how many bits words take by a book of such a kind, and the book with its codes."""
    rows = 0
    if in_a_row is not None:
        rows = len(zeros_in_a_row(words, 1 << in_a_row)[0])
        words = words[words != 0]
    between, fits = taken_out(words, book)
    tops = (between[fits] >> between.dtype.type(book.rest)).astype(np.int64)
    counts: npt.NDArray[np.int64] = np.bincount(tops, minlength=1)
    frequent = np.argsort(-counts, kind="stable")[:MOST_TOPS]
    frequent = frequent[counts[frequent] > 0] if book.top else frequent[:1]
    # How often each code is needed, what is said of the bits that follow it, and the top bits that it stands for.
    codes = [(int(counts[top]), book.rest, int(top)) for top in frequent]
    others = len(words) - sum(count for count, _, _ in codes)
    # Good-Turing: the number of values seen once estimates how many unseen ones will come.
    others += sum(count == 1 for count, _, _ in codes) if book.top else 0
    if in_a_row is not None:
        codes.append((rows, ZEROS + in_a_row, 0))
    if book.top or others > 0:
        codes.append((others, WHOLE, 0))
    lengths, total, first = _code_lengths([max(count, 1) for count, _, _ in codes]), 0, 0
    tables = np.zeros((3, 256), np.uint8)
    for length, (count, bits, top) in sorted(zip(lengths, codes, strict=True), key=lambda code: code[0]):
        # Codes of one length count upwards, by their bits from the first on, which is the lowest.
        code = int(f"{first >> LONGEST - length:0{length}b}"[::-1], 2) if length else 0
        tables[:, code :: 1 << length] = np.array([[length], [bits], [top]])
        first += 1 << LONGEST - length
        follow = book.width if bits == WHOLE else bits - ZEROS if bits >= ZEROS else bits
        total += count * (length + follow)
    return total, book._replace(lengths=tables[0], bits=tables[1], tops=tables[2])


def _code_lengths(weights: list[int]) -> list[int]:
    """Returns the lengths of the codes that take the fewest bits, none over `LONGEST`, by merging packages."""
    if len(weights) == 1:
        return [0]
    single = sorted(((weight, (i,)) for i, weight in enumerate(weights)), key=lambda one: one[0])
    packages: list[tuple[int, tuple[int, ...]]] = []
    for _ in range(LONGEST):
        merged = sorted(single + packages, key=lambda one: one[0])
        packages = [(a + b, c + d) for (a, c), (b, d) in zip(merged[::2], merged[1::2], strict=False)]
    often = Counter(i for _, members in packages[: len(weights) - 1] for i in members)
    return [often[i] for i in range(len(weights))]
