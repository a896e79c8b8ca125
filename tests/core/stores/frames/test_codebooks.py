"""Words by a codebook come back bit for bit, by formula and kernels alike, and from outside only where they fit."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._runtime.loading import native
from compressed_array._stores.frames import checks, codebook_learning, codebooks, residuals
from compressed_array._stores.frames.codebooks import BEHIND, BITS_AT, BOOK_NBYTES, LENGTHS_AT, WHOLE, ZEROS, Book
from compressed_array._stores.frames.groups import ZSTD
from compressed_array.codecs import _changes

KINDS = ("halves", "brains", "counts", "signed", "rows of zeros", "nothing", "noise", "odd ones")


def words(kind: str, count: int, word: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Words as states of agents have them, and as nobody has."""
    width, float_of = 8 * word, f"<f{word}"
    if kind == "halves":
        return rng.normal(size=count).astype("<f2").astype(float_of).view(f"<u{word}")
    if kind == "counts":
        return rng.integers(0, 200, count).astype(f"<u{word}")
    if kind == "signed":
        return rng.integers(-50, 50, count).astype(f"<i{word}").view(f"<u{word}")
    if kind == "rows of zeros":
        return np.where(rng.random(count) < 0.05, np.ones(count, float_of), 0).astype(float_of).view(f"<u{word}")
    if kind == "nothing":
        return np.zeros(count, f"<u{word}")
    noise = np.frombuffer(rng.bytes(count * word), f"<u{word}")
    if kind == "noise":
        return noise
    brains = rng.normal(size=count).astype(float_of).view(f"<u{word}") >> noise.dtype.type(width // 2)
    brains <<= noise.dtype.type(width // 2)
    return np.where(rng.random(count) < 0.02, noise, brains) if kind == "odd ones" else brains


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=2),
    word=st.sampled_from(codebooks.CODED_SIZES),
    count=st.integers(1, 300),
    seed=st.integers(0, 9999),
)
def test_words_come_back(kinds: list[str], word: int, count: int, seed: int) -> None:
    """By a book that was learnt from words like these, or from others."""
    rng = np.random.default_rng(seed)
    book = codebook_learning.learn(words(kinds[0], 500, word, rng).view(np.uint8), word)
    assert codebooks.checked(book) is not None
    assert Book.of(book).data().tobytes() == book.tobytes()
    frame = np.ascontiguousarray(words(kinds[1], count, word, rng)).view(np.uint8)
    body = codebooks.encode_numpy(frame, book)
    assert codebooks.encode(frame, book) == body
    assert codebooks.size_of(frame, book) == (frame.size if body is None else len(body))
    if body is None:
        return
    there, back = np.frombuffer(body, np.uint8), np.empty_like(frame)
    codebooks.decode(there, book, back)
    assert back.tobytes() == frame.tobytes()
    assert codebooks.is_valid(there, book, frame.size)
    assert not codebooks.is_valid(np.append(there, np.uint8(0)), book, frame.size)
    kernels = native("_stores.frames.kernels.codebook_functions")
    if kernels is not None:
        back[:], behind = 0, np.append(there, np.zeros(BEHIND, np.uint8))
        kernels.decode_words_at.ctypes(behind.ctypes.data, frame.size, book.ctypes.data, back.ctypes.data)
        assert back.tobytes() == frame.tobytes()


@pytest.mark.parametrize(
    ("kind", "word", "most"),
    [
        ("brains", 4, 0.34),
        ("halves", 4, 0.43),
        ("halves", 8, 0.3),
        ("counts", 4, 0.25),
        ("counts", 8, 0.125),
        ("signed", 4, 0.23),
        ("rows of zeros", 4, 0.015),
        ("nothing", 2, 0.0),
    ],
)
def test_how_few_bits_words_take(kind: str, word: int, most: float) -> None:
    rng = np.random.default_rng(0)
    book = codebook_learning.learn(words(kind, 4096, word, rng).view(np.uint8), word)
    frame = words(kind, 4096, word, rng).view(np.uint8)
    assert codebooks.size_of(frame, book) <= most * frame.size


def test_a_book_sees_all_columns_of_wide_frames() -> None:
    rng, columns = np.random.default_rng(0), 1 << 14
    plain = np.concatenate([rng.normal(size=(32, columns)), np.zeros((32, columns))], axis=1).astype("<f4")
    book = codebook_learning.learn(plain.view(np.uint8), 4)
    assert Book.of(book).is_zeros.any()
    assert codebooks.size_of(plain[0].view(np.uint8), book) < 0.45 * plain[0].nbytes


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=256))
def test_codes_are_as_short_as_prefix_codes_may_be(weights: list[int]) -> None:
    lengths = codebook_learning._code_lengths(weights)
    assert max(lengths) <= codebooks.LONGEST
    assert sum(2.0**-length for length in lengths) == 1
    cost = sum(weight * length for weight, length in zip(weights, lengths, strict=True))
    heap, least = list(weights), 0  # Huffman's, of any length
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        least += both
        heapq.heappush(heap, both)
    assert least <= cost <= 8 * sum(weights)
    if max(weights) < 20 * min(weights) and len(weights) <= 8:  # then Huffman's are not longer
        assert cost == least


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 1),
        (0, 3),
        (1, 40),
        (1, 32),
        (2, 17),
        (3, 9),
        (3, 17),
        (4, 3),
        (LENGTHS_AT + 7, 9),
        (BITS_AT, 7),
        (BITS_AT + 255, 200),
    ],
)
def test_books_from_outside_are_checked(place: int, value: int) -> None:
    book = codebook_learning.learn(words("brains", 500, 4, np.random.default_rng(0)).view(np.uint8), 4)
    assert Book.of(book)[:5] == (4, 16, 16, 8, codebooks.ROTATED)
    assert codebooks.checked(book[:-1]) is None
    assert book.size == BOOK_NBYTES
    book[place] = value
    assert codebooks.checked(book) is None


@pytest.mark.parametrize("engine", ["kernels", "numpy"])
def test_records_by_a_book_from_outside_are_checked(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "numpy":
        monkeypatch.setattr(checks, "native", lambda name: None)
    elif not ca.has_numba():
        pytest.skip("there are no kernels here")
    frame = words("rows of zeros", 64, 4, np.random.default_rng(3)).view(np.uint8)
    book = codebook_learning.learn(frame, 4)
    assert any(ZEROS <= bits < WHOLE for bits in Book.of(book).bits)
    coded = codebooks.encode(frame, book)
    assert coded is not None
    lengths, books = np.array([frame.size, 300, BOOK_NBYTES]), [None, None, book]

    def fits(number: int, body: bytes, nbytes: int = frame.size) -> bool:
        body = residuals.code_bytes(residuals.prediction_code(residuals.BOOK, number, 1)) + body
        data = np.frombuffer(_changes.varint(len(body) << 2 | ZSTD) + body, np.uint8)
        return checks.is_valid_group(data, False, 1, nbytes, lengths, books)

    assert fits(2, coded)
    assert not any(fits(number, coded) for number in (0, 1, 3, 1000))
    assert not fits(2, coded[:-1])
    assert not fits(2, coded + b"\0")
    assert not fits(2, coded, frame.size - 4)
    assert not fits(2, coded, 4 * frame.size)  # a word or two more may be what the last byte says
    assert not fits(2, coded, frame.size + 1)
