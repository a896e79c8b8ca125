"""Groups of another store written for this one: `adoption`, to memory."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import Word, call_sizes, copy_bytes, helper, jit, load8, part, store8
from compressed_array._stores.frames.groups import FROM_REFERENCE, KIND_BITS, ZSTD
from compressed_array._stores.frames.kernels.codebooks import decode_words
from compressed_array._stores.frames.kernels.items import encode_frame
from compressed_array._stores.frames.kernels.residuals import is_by_book, put_foretold, put_head, split_record
from compressed_array._stores.frames.kernels.tables import rewrite_at
from compressed_array._stores.frames.lanes import DELTA, ROOM
from compressed_array._stores.frames.residuals import AS_IT_IS, NUMBER_AT, REFERENCE, SIZE_BITS
from compressed_array.codecs._change_kernels import apply_changes, put_varint, take_varint

KIND_MASK, FIRST_BYTE = (1 << KIND_BITS) - 1, (1 << NUMBER_AT) - 1
INTEGER = numba.types.int64
WORDS = INTEGER[::1]
# What writing groups says, where that is not the number of a reference.
DONE, FAILED = -1, -2


@helper
def needed_by(kind: Word, body: Word) -> Word:
    """Which reference a record needs, or 0; how a record of zstd's was made, and where what it made begins."""
    if kind == FROM_REFERENCE:
        return np.int64(load8(body)), np.int64(AS_IT_IS), body + 1
    if kind != ZSTD:
        return np.int64(0), np.int64(AS_IT_IS), body
    word, rest = split_record(body)
    by_reference = (word & FIRST_BYTE) >> SIZE_BITS == REFERENCE or is_by_book(word)
    return word >> NUMBER_AT if by_reference else np.int64(0), word, rest


@jit(numba.types.void(WORDS, WORDS, WORDS))
def mark_references(at: Any, counts: Any, used: Any) -> None:
    """Set what is `used` to 1 for each reference that groups of `counts[i]` records at `at[i]` need."""
    for group in range(at.shape[0]):
        place = at[group]
        for _ in range(counts[group]):
            head, body = take_varint(place)
            used[needed_by(head & KIND_MASK, body)[0]] = 1
            place = body + (head >> KIND_BITS)


@part
def decode(
    kind: Word,
    word: Word,
    begin: Word,
    end: Word,
    base: Word,
    frame_nbytes: Word,
    decompress: Word,
    context: Word,
    left: Word,
    frame: Word,
) -> Word:
    """Turn what a record says, between two addresses and with room behind, into its frame; false if that fails."""
    if kind == FROM_REFERENCE:
        copy_bytes(frame, base, frame_nbytes)
        apply_changes(begin, end, frame)
    elif is_by_book(word):
        decode_words(begin, frame_nbytes, base, frame)
    else:
        if context == 0 or call_sizes(decompress, context, left, frame_nbytes, begin, end - begin, 0) != frame_nbytes:
            return False
        put_foretold(left, frame_nbytes, word, base, frame)
    return True


@jit(INTEGER(WORDS, WORDS, INTEGER, WORDS, WORDS, WORDS, INTEGER, INTEGER, WORDS))
def rewrite_groups(
    at: Any,
    counts: Any,
    frame_nbytes: Word,
    known: Any,
    theirs: Any,
    ours: Any,
    how_address: Word,
    out: Word,
    sizes: Any,
) -> Word:
    """Write groups of `counts[i]` records at the addresses `at[i]` to `out`, one behind the other, and return `DONE`.

    Reference k of theirs is `known[k]` of ours, or less than 0: a frame that needs it is written anew, unless it is one
    of zstd's or by a codebook and asking is allowed; then k is returned.
    """
    how = rewrite_at(how_address)
    scratch = how.scratch
    slot = frame_nbytes + (frame_nbytes >> 8) + ROOM
    frame, left, spare, none = scratch, scratch + slot, scratch + 2 * slot, np.int64(0)
    for group in range(at.shape[0]):
        place, start = at[group], out
        for _ in range(counts[group]):
            head, body = take_varint(place)
            kind, size = head & KIND_MASK, head >> KIND_BITS
            end = body + size
            number, word, rest = needed_by(kind, body)
            if number >= known.shape[0]:
                return np.int64(FAILED)
            if known[number] == number:
                copy_bytes(out, place, end - place)
                out += end - place
            elif known[number] >= 0:
                # In front of what stays as it is: another number, which may take another byte.
                after = spare + 1
                store8(spare, np.uint64(known[number]))
                if kind == ZSTD:
                    after = put_head(spare, known[number] << NUMBER_AT | word & FIRST_BYTE)
                out = put_varint(out, (after - spare + end - rest) << KIND_BITS | kind)
                copy_bytes(out, spare, after - spare)
                copy_bytes(out + after - spare, rest, end - rest)
                out += after - spare + end - rest
            elif kind == ZSTD and how.asks != 0:
                return number
            else:
                if size > 2 * slot:
                    return np.int64(FAILED)
                copy_bytes(spare, body, size)  # to where there is room behind
                begin, last = spare + (rest - body), spare + size
                base = theirs[number]
                zstd, context = how.decompress, how.decompressor
                if not decode(kind, word, begin, last, base, frame_nbytes, zstd, context, left, frame):
                    return np.int64(FAILED)
                compress, taken = (how.compress, how.foretold) if kind == ZSTD else (none, none)
                out += encode_frame(
                    frame,
                    none,
                    frame_nbytes,
                    np.int64(DELTA),
                    spare,
                    ours,
                    how.reference,
                    how.worth_zstd,
                    compress,
                    how.compressor,
                    how.level,
                    taken,
                    how.encode_words,
                    out,
                )
            place = end
        sizes[group] = out - start
    return np.int64(DONE)
