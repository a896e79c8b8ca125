"""What codecs make of some records: their sizes, and the time they take, measured and not guessed from a dtype.

`choose` looks at sizes alone, so that equal arrays are written alike. A `Measurement` has a score, lower is better,
that weighs in powers of two: halving the bytes is worth a read that takes four times as long, or a write that takes
256 times as long. Both times are counted on top of what a read costs without any codec, so that a few microseconds do
not matter and the noise of a clock matters less. A record that does not shrink is stored as it is and counts with its
own size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._runtime.payloads import Payloads
from compressed_array.codecs._batches import decode_batch, encode_batch
from compressed_array.errors import CodecUnavailableError
from compressed_array.registry import get_codec, has_zstd, shorthand

# What an array that has to choose by itself looks at, the fast ones first: few, so that the first write does not wait
# for many kernels.
QUICK_CANDIDATES = ("none", "zstd1", "zstd3", "zstd6")
QUICK_WITHOUT_ZSTD = ("none", "lz4-block/0", ("igzip1", "gzip1"), "rle")
QUICK_SAMPLE_BYTES = 3 * 2**17
TIMED_ROUNDS = 3  # of writes and reads, of which the fastest count
SMALLEST_RECORD = 64  # below, a payload's own header and a decode call cost more than can be saved
SECONDS_PER_READ, SECONDS_PER_BYTE = 1e-6, 0.25e-9
CLEARLY = 0.95  # of the bytes: what a slower codec has to come to


@dataclass(frozen=True)
class Measurement:
    """What a codec did with the sample, per record of `nbytes`."""

    name: str
    codec: Any
    nbytes: int
    stored_bytes: float
    encode_seconds: float
    decode_seconds: float

    @property
    def ratio(self) -> float:
        """Returns how many times smaller the record became, as `CompressedArray.ratio` counts."""
        return self.nbytes / self.stored_bytes

    @property
    def score(self) -> float:
        """Returns what codecs are compared by, lower for a better one, of the bytes and both times."""
        plain_read = SECONDS_PER_READ + SECONDS_PER_BYTE * self.nbytes
        read, write = (1 + seconds / plain_read for seconds in (self.decode_seconds, self.encode_seconds))
        return -math.log2(self.ratio) + math.log2(read) / 2 + math.log2(write) / 8


def choose(records: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> Any:
    """Returns the codec for `codec="auto"`, by a quick look at records of `dtype`, the rows of an array of bytes."""
    rows, nbytes = records.shape
    if rows == 0 or nbytes < SMALLEST_RECORD:
        return get_codec("none")
    few = records[spread_indices(rows, nbytes, QUICK_SAMPLE_BYTES)]
    best, least = get_codec("none"), few.size
    for codec in usable((QUICK_CANDIDATES if has_zstd() else QUICK_WITHOUT_ZSTD)[1:]):
        adapted = codec.for_dtype(dtype) if hasattr(codec, "for_dtype") else codec
        size = int(np.minimum(encode_batch(adapted, few).size, nbytes).sum())
        if size < CLEARLY * least:
            best, least = codec, size
    return best


def is_auto(codec: Any) -> bool:
    """Whether a choice of codec is left to the data."""
    return isinstance(codec, str) and codec == "auto"


def usable(candidates: Iterable[str | tuple[str, ...]]) -> list[Any]:
    """Returns the codecs of these names that work here, and "auto" as it is; of several in a tuple, the first only."""
    codecs = []
    for names in candidates:
        for name in (names,) if isinstance(names, str) else names:
            with suppress(CodecUnavailableError):
                codecs.append(name if is_auto(name) else get_codec(name))
                break
    return codecs


def spread_indices(count: int, record_nbytes: int, nbytes: int) -> npt.NDArray[np.intp]:
    """Returns the indices of records spread evenly, as many as have `nbytes` together, or one."""
    most = max(nbytes // record_nbytes, 1)
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.intp)


def measure(codec: Any, records: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> Measurement:
    """Returns what a codec makes of records, the rows of an array, and its fastest times in a few rounds."""
    adapted = codec.for_dtype(dtype) if hasattr(codec, "for_dtype") else codec
    out = np.empty_like(records)
    encode_seconds = decode_seconds = math.inf
    for _ in range(TIMED_ROUNDS):
        start = time.perf_counter()
        payloads = encode_batch(adapted, records)
        shrunk = np.flatnonzero(payloads.size < records.shape[1])
        payloads, plain = payloads.select(shrunk), records[len(shrunk) :]
        _copied(payloads)  # as a store does, to memory of its own
        plain.copy()
        encode_seconds = min(encode_seconds, time.perf_counter() - start)
    out = out[: len(shrunk)]
    for _ in range(TIMED_ROUNDS):
        start = time.perf_counter()
        decode_batch(adapted, payloads, out)
        plain.copy()
        decode_seconds = min(decode_seconds, time.perf_counter() - start)
    n, nbytes = records.shape
    stored = float(payloads.size.sum() + plain.size) / n
    return Measurement(shorthand(codec), codec, nbytes, stored, encode_seconds / n, decode_seconds / n)


def _copied(payloads: Payloads) -> npt.NDArray[np.uint8]:
    data = np.empty(int(payloads.size.sum()), np.uint8)
    payloads.copy_to(data, np.cumsum(payloads.size) - payloads.size)
    return data
