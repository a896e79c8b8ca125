"""Codebooks for other kernels, by address: most stores have none, and then nothing of them is compiled.

Only frames of words of some bytes are written by a codebook, as `codebooks` says.
"""

from __future__ import annotations

from compressed_array._runtime.numba_tools import Word, c_function
from compressed_array._stores.frames.kernels.codebooks import decode_words, encode_words


@c_function("int64(int64, int64, int64, int64, int64, int64)")
def encode_words_at(frame: Word, size: Word, book: Word, scratch: Word, out: Word, limit: Word) -> Word:
    """Does what `encode_words` does, for kernels that call it by its address."""
    return encode_words(frame, size, book, scratch, out, limit)


@c_function("int64(int64, int64, int64, int64)")
def decode_words_at(body: Word, size: Word, book: Word, frame: Word) -> Word:
    """Does what `decode_words` does, for kernels that call it by its address. Returns the size."""
    decode_words(body, size, book, frame)
    return size
