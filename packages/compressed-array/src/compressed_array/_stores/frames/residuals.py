"""Prediction residuals: a frame minus its prediction, which zstd compresses better.

A byte is predicted by the one some bytes before it, the pixel above, or by the same byte of a reference. The residual,
a difference without carry, is small numbers where neighbours are alike but for noise, in which zstd finds no
repetition. Bytes of larger elements are then sorted by their place in the element, since their high bytes are alike.

How a prediction was made is one number, its *code*: the element's size as a power of two, what predicts, and a number,
either the distance or the reference's. The zstd frame of such a record follows the code's first byte and the number, as
a varint; a record without prediction begins with zstd's own first byte, which no such code has. `kernels.residuals`
does the same to memory.

Where the code names a codebook, by its number among the references, a frame coded by that book follows, and no zstd
frame.
"""

from __future__ import annotations

import numpy as np

from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames.groups import WORD_SIZES
from compressed_array.codecs import _changes
from compressed_array.errors import CorruptPayloadError

NO_PREDICTION = 0  # the code for a frame that is given to zstd as it is
NEIGHBOUR, REFERENCE, BOOK = 1, 2, 3  # what predicts
SIZE_BITS, NUMBER_AT = 2, 8
SIZE_MASK, FIRST_BYTE = (1 << SIZE_BITS) - 1, (1 << NUMBER_AT) - 1
ZSTD_BEGINS = 0x28


def prediction_code(predictor: int, number: int, itemsize: int) -> int:
    """Returns one number that says how elements are predicted; bytes of sizes not in `WORD_SIZES` are not sorted."""
    size = WORD_SIZES.index(itemsize) if itemsize in WORD_SIZES else 0
    return number << NUMBER_AT | predictor << SIZE_BITS | size


def predictor(prediction: int) -> int:
    """Returns what predicts, according to its code: `NEIGHBOUR`, `REFERENCE` or `BOOK`."""
    return (prediction & FIRST_BYTE) >> SIZE_BITS


def code_bytes(prediction: int) -> bytes:
    """Returns the code of a prediction as bytes, which stand in front of a zstd frame."""
    return (
        b""
        if prediction == NO_PREDICTION
        else bytes([prediction & FIRST_BYTE]) + _changes.varint(prediction >> NUMBER_AT)
    )


def split(body: Bytes) -> tuple[int, Bytes]:
    """Returns the code of a zstd record's prediction, and its zstd frame."""
    if not body.size:
        raise CorruptPayloadError("a record of zstd's is empty")
    if body[0] == ZSTD_BEGINS:
        return NO_PREDICTION, body
    number, size = _changes.read_varint(body[1:6].tobytes(), 0)
    return int(body[0]) | number << NUMBER_AT, body[1 + size :]


def is_sound(prediction: int, frame_nbytes: int, references: list[int]) -> bool:
    """Whether a code from outside can be that of a frame's prediction, given the lengths of all references."""
    number = prediction >> NUMBER_AT
    if prediction == NO_PREDICTION:
        return True
    if frame_nbytes % WORD_SIZES[prediction & SIZE_MASK]:
        return False
    if predictor(prediction) == NEIGHBOUR:
        return 0 < number <= frame_nbytes
    return predictor(prediction) == REFERENCE and number < len(references) and references[number] >= frame_nbytes


def subtract_prediction(frame: Bytes, prediction: int, references: list[Bytes]) -> Bytes:
    """Returns the residual of a frame, by the code of its prediction."""
    residual, number = frame.copy(), prediction >> NUMBER_AT
    if predictor(prediction) == NEIGHBOUR:
        residual[number:] -= frame[:-number]
    else:
        residual -= references[number][: frame.size]
    return np.ascontiguousarray(residual.reshape(-1, WORD_SIZES[prediction & SIZE_MASK]).T).reshape(-1)


def add_prediction(residual: Bytes, prediction: int, references: list[Bytes], frame: Bytes) -> None:
    """Writes the frame of a residual to `frame`."""
    frame[...] = residual.reshape(WORD_SIZES[prediction & SIZE_MASK], -1).T.reshape(-1)
    number = prediction >> NUMBER_AT
    if predictor(prediction) == NEIGHBOUR:
        for start in range(number, frame.size, number):
            row = frame[start : start + number]
            row += frame[start - number : start - number + row.size]
    else:
        frame += references[number][: frame.size]
