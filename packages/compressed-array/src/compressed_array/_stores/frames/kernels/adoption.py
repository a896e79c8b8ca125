"""The kernels of `adoption`: groups of another store rewritten for this one, in memory."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from compressed_array._runtime.numba_tools import (
    Word,
    call_sizes,
    copy_bytes,
    helper,
    inline_helper,
    jit,
    load8,
    store8,
)
from compressed_array._stores.frames.groups import FROM_REFERENCE, KIND_BITS, KIND_MASK, ZSTD
from compressed_array._stores.frames.kernels.codebooks import decode_words
from compressed_array._stores.frames.kernels.encode import encode_frame
from compressed_array._stores.frames.kernels.residuals import (
    add_prediction,
    is_by_book,
    predictor,
    put_code,
    split_record,
)
from compressed_array._stores.frames.kernels.tables import INTEGER, WORDS, encoding_at, rewrite_arguments_at
from compressed_array._stores.frames.lanes import ROOM
from compressed_array._stores.frames.residuals import FIRST_BYTE, NO_PREDICTION, NUMBER_AT, REFERENCE
from compressed_array._stores.frames.settings import AS_CHANGES
from compressed_array.codecs._change_kernels import apply_changes, put_varint, take_varint

# What `rewrite_groups` returns, where that is not the number of a reference.
REWRITTEN, NOT_WRITTEN_HERE = -1, -2


@helper
def needed_by(kind: Word, body: Word) -> Word:
    """Returns the reference that a record needs, or 0, the code of its prediction, and where the rest of it begins."""
    if kind == FROM_REFERENCE:
        return np.int64(load8(body)), np.int64(NO_PREDICTION), body + 1
    if kind != ZSTD:
        return np.int64(0), np.int64(NO_PREDICTION), body
    prediction, rest = split_record(body)
    by_reference = predictor(prediction) == REFERENCE or is_by_book(prediction)
    return prediction >> NUMBER_AT if by_reference else np.int64(0), prediction, rest


@jit(numba.types.void(WORDS, WORDS, WORDS))
def mark_references(at: Any, counts: Any, used: Any) -> None:
    """Sets `used[k]` to 1 for each reference k that groups of `counts[i]` records at `at[i]` need."""
    for group in range(at.shape[0]):
        place = at[group]
        for _ in range(counts[group]):
            head, body = take_varint(place)
            used[needed_by(head & KIND_MASK, body)[0]] = 1
            place = body + (head >> KIND_BITS)


@inline_helper
def decode(
    kind: Word,
    prediction: Word,
    begin: Word,
    end: Word,
    base: Word,
    frame_nbytes: Word,
    decompress: Word,
    context: Word,
    left: Word,
    frame: Word,
) -> Word:
    """Decodes a record between two addresses, with room behind, to `frame`. Returns false if that fails."""
    if kind == FROM_REFERENCE:
        copy_bytes(frame, base, frame_nbytes)
        apply_changes(begin, end, frame)
    elif is_by_book(prediction):
        decode_words(begin, frame_nbytes, base, frame)
    else:
        if context == 0 or call_sizes(decompress, context, left, frame_nbytes, begin, end - begin, 0) != frame_nbytes:
            return False
        add_prediction(left, frame_nbytes, prediction, base, frame)
    return True


@jit(INTEGER(WORDS, WORDS, INTEGER, WORDS, WORDS, WORDS, INTEGER, INTEGER, WORDS))
def rewrite_groups(
    at: Any,
    counts: Any,
    frame_nbytes: Word,
    known: Any,
    theirs: Any,
    ours: Any,
    arguments_address: Word,
    out: Word,
    sizes: Any,
) -> Word:
    """Writes groups of `counts[i]` records at the addresses `at[i]` to `out`, one behind the other.

    Reference k of theirs is `known[k]` of ours, or less than 0 if we have none such: a frame that needs it is encoded
    again. Returns `REWRITTEN`; `NOT_WRITTEN_HERE` for a record that this store would not write; or k, if the frame is
    one of zstd's or by a codebook, better with the reference, and asking for it is allowed.
    """
    arguments = rewrite_arguments_at(arguments_address)
    encoding, by_changes = encoding_at(arguments.encoding), encoding_at(arguments.encoding_by_changes)
    scratch = arguments.scratch
    slot = frame_nbytes + (frame_nbytes >> 8) + ROOM
    frame, left, spare, none = scratch, scratch + slot, scratch + 2 * slot, np.int64(0)
    for group in range(at.shape[0]):
        place, start = at[group], out
        for _ in range(counts[group]):
            head, body = take_varint(place)
            kind, size = head & KIND_MASK, head >> KIND_BITS
            end = body + size
            number, prediction, rest = needed_by(kind, body)
            if number >= known.shape[0]:
                return np.int64(NOT_WRITTEN_HERE)
            if known[number] == number:
                copy_bytes(out, place, end - place)
                out += end - place
            elif known[number] >= 0:
                # In front of what stays as it is: another number, which may take another byte.
                after = spare + 1
                store8(spare, np.uint64(known[number]))
                if kind == ZSTD:
                    after = put_code(spare, known[number] << NUMBER_AT | prediction & FIRST_BYTE)
                out = put_varint(out, (after - spare + end - rest) << KIND_BITS | kind)
                copy_bytes(out, spare, after - spare)
                copy_bytes(out + after - spare, rest, end - rest)
                out += after - spare + end - rest
            elif kind == ZSTD and arguments.may_request != 0:
                return number
            else:
                if size > 2 * slot:
                    return np.int64(NOT_WRITTEN_HERE)
                copy_bytes(spare, body, size)  # to where there is room behind
                begin, last = spare + (rest - body), spare + size
                base = theirs[number]
                zstd, context = arguments.decompress, arguments.context
                if not decode(kind, prediction, begin, last, base, frame_nbytes, zstd, context, left, frame):
                    return np.int64(NOT_WRITTEN_HERE)
                chosen = encoding if kind == ZSTD else by_changes
                out += encode_frame(frame, none, frame_nbytes, np.int64(AS_CHANGES), spare, ours, chosen, out)
            place = end
        sizes[group] = out - start
    return np.int64(REWRITTEN)
