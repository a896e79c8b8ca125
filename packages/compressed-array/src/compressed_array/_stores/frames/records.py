"""What a group's bytes say: records, one for each frame, each the smallest of several kinds.

A record is a head, its kind and the length of its body in one number, and the body. `kernels.encode` writes the same
records in memory, and `kernels.read` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compressed_array._runtime.types import Bytes
from compressed_array._stores.frames import codebooks, residuals
from compressed_array._stores.frames.groups import (
    FROM_REFERENCE,
    KIND_BITS,
    KIND_MASK,
    RAW_FRAME,
    SINCE_LAST,
    ZSTD,
)
from compressed_array._stores.frames.lanes import SMALL_ENOUGH
from compressed_array._stores.frames.settings import AS_CHANGES, AS_ZSTD, WriteSettings
from compressed_array.codecs import _changes
from compressed_array.errors import CodecUnavailableError, CorruptPayloadError


def encode_frame(
    frame: Bytes,
    last: Bytes | None,
    mode: int,
    settings: WriteSettings,
    references: list[Bytes],
    changes: Callable[[Bytes, Bytes], bytes] = _changes.encode,
) -> bytes:
    """Returns the smallest record for a frame; `last` is the frame before it, if the group has one."""
    kind, best = RAW_FRAME, frame.tobytes()
    if mode == AS_CHANGES:
        if last is not None:
            found = changes(frame, last)
            if len(found) < len(best):
                kind, best = SINCE_LAST, found
        for base in dict.fromkeys((settings.reference, 0)):
            if len(best) * SMALL_ENOUGH <= frame.size:
                break
            found = bytes([base]) + changes(frame, references[base][: frame.size])
            if len(found) < len(best):
                kind, best = FROM_REFERENCE, found
    if len(best) > 1 and (mode == AS_ZSTD or len(best) > settings.worth_zstd):
        prediction = settings.prediction
        if residuals.predictor(prediction) == residuals.BOOK:
            coded = codebooks.encode(frame, references[prediction >> residuals.NUMBER_AT])
            head = residuals.code_bytes(prediction)
            if coded is not None and len(head) + len(coded) < len(best):
                record = head + coded
                return _changes.varint(len(record) << KIND_BITS | ZSTD) + record
            prediction = residuals.NO_PREDICTION
        if settings.zstd is not None:
            left = frame
            if prediction != residuals.NO_PREDICTION:
                left = residuals.subtract_prediction(frame, prediction, references)
            found = residuals.code_bytes(prediction) + bytes(settings.zstd.encode(left))
            if len(found) < len(best):
                kind, best = ZSTD, found
    return _changes.varint(len(best) << KIND_BITS | kind) + best


def split_records(data: Bytes, count: int) -> list[tuple[int, Bytes]]:
    """Returns kind and body of the first `count` records."""
    records, at = [], 0
    for _ in range(count):
        head, at = _head(data, at)
        length = head >> KIND_BITS
        if at + length > data.size:
            raise CorruptPayloadError("a record does not end where its group does")
        records.append((head & KIND_MASK, data[at : at + length]))
        at += length
    return records


def _head(data: Bytes, at: int) -> tuple[int, int]:
    head, size = _changes.read_varint(data[at : at + 5].tobytes(), 0)
    return head, at + size


def needed_by(kind: int, body: Bytes) -> tuple[int, int, Bytes]:
    """Returns the reference that a record needs, or 0, the code of its prediction, and the rest of its body."""
    if kind == FROM_REFERENCE:
        return int(body[0]), residuals.NO_PREDICTION, body[1:]
    if kind != ZSTD:
        return 0, residuals.NO_PREDICTION, body
    prediction, rest = residuals.split(body)
    by_reference = residuals.predictor(prediction) in (residuals.REFERENCE, residuals.BOOK)
    return prediction >> residuals.NUMBER_AT if by_reference else 0, prediction, rest


def decode_frame(kind: int, body: Bytes, frame: Bytes, references: list[Bytes], decoder: Any) -> None:
    """Decodes a record to `frame`, which holds the frame before it.

    `decoder` reads zstd's records; without zstd it is None.
    """
    if kind == SINCE_LAST:
        _changes.apply(body, frame)
    elif kind == FROM_REFERENCE:
        frame[...] = references[int(body[0])][: frame.size]
        _changes.apply(body[1:], frame)
    elif kind == RAW_FRAME:
        frame[...] = body
    else:
        prediction, payload = residuals.split(body)
        if residuals.predictor(prediction) == residuals.BOOK:
            codebooks.decode(payload, references[prediction >> residuals.NUMBER_AT], frame)
            return
        if decoder is None:
            raise CodecUnavailableError("zstd", "zstd")
        left = frame if prediction == residuals.NO_PREDICTION else np.empty_like(frame)
        decoder.decode(payload, out=left)
        if prediction != residuals.NO_PREDICTION:
            residuals.add_prediction(left, prediction, references, frame)
