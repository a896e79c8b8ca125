"""Which codec suits some records: measured on them, not guessed from their dtype.

The score, lower is better, weighs in powers of two: halving the bytes is worth a read that takes four times as long,
or a write that takes 256 times as long. Both times are counted on top of what a read costs without any codec, so that
a few microseconds do not matter and the noise of a clock matters less. A record that does not shrink is stored as it
is and counts with its own size. A race within 7 % of the bytes goes to the candidate listed first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._payloads import Payloads
from compressed_array.abc import Buffer, as_bytes_view, decode_each, encode_each
from compressed_array.errors import CodecUnavailableError, UnsupportedDtypeError
from compressed_array.registry import get_codec, has_zstd, parse_shorthand, shorthand

CANDIDATES = ("none", "zstd-3", "zstd1", "zstd3", "lz4-block/0", "igzip1", "gzip1", "rle-jit", "rle")
# What an array that has to choose by itself looks at: few, so that the first write does not wait for many kernels.
QUICK_CANDIDATES = ("none", "zstd-3", "zstd1", "zstd3")
QUICK_WITHOUT_ZSTD = ("none", "lz4-block/0", "igzip1", "gzip1", "rle")

SAMPLE_BYTES, QUICK_SAMPLE_BYTES = 2**21, 3 * 2**17
SMALLEST_RECORD = 64  # below, a payload's own header and a decode call cost more than can be saved
SECONDS_PER_READ, SECONDS_PER_BYTE = 1e-6, 0.25e-9
CLOSE_RACE = 0.1


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
        """How many times smaller the record became, as `CompressedArray.ratio` counts."""
        return self.nbytes / self.stored_bytes

    @property
    def score(self) -> float:
        """How the codec compares; the module says what is weighed."""
        plain_read = SECONDS_PER_READ + SECONDS_PER_BYTE * self.nbytes
        read, write = (1 + seconds / plain_read for seconds in (self.decode_seconds, self.encode_seconds))
        return -math.log2(self.ratio) + math.log2(read) / 2 + math.log2(write) / 8


@dataclass(frozen=True)
class Recommendation:
    """The measured candidates, in the order they were given, and the best of them."""

    measurements: tuple[Measurement, ...]

    @property
    def best(self) -> Any:
        """The codec to use."""
        return self._winner.codec

    @property
    def _winner(self) -> Measurement:
        least = min(m.score for m in self.measurements)
        return next(m for m in self.measurements if m.score <= least + CLOSE_RACE)

    def __str__(self) -> str:
        lines = [f"{'codec':<22}{'smaller':>8}{'encode':>11}{'decode':>11}{'encode':>12}{'decode':>12}"]
        for m in self.measurements:
            speeds = (f"{m.nbytes / max(s, 1e-12) / 1e6:,.0f} MB/s" for s in (m.encode_seconds, m.decode_seconds))
            times = (f"{s * 1e6:,.1f} µs" for s in (m.encode_seconds, m.decode_seconds))
            words = "".join(f"{t:>11}" for t in times) + "".join(f"{s:>12}" for s in speeds)
            lines.append(f"{m.name[:21]:<22}{m.ratio:>7.1f}x{words}" + (" *" if m is self._winner else ""))
        return "\n".join([*lines, "* recommended"])


def recommend(sample: Any, candidates: Iterable[Any] | None = None) -> Recommendation:
    """Measure codecs on sample records: an array whose first axis counts them, or a list of equal-sized buffers.

    `candidates` are codecs or their names; those whose library is missing are left out when none are given.
    """
    records, dtype = _as_records(sample)
    named = _usable(CANDIDATES) if candidates is None else [get_codec(c) for c in candidates]
    if not named:
        raise ValueError("recommend needs at least one candidate")
    return Recommendation(tuple(_measure(c, records, dtype) for c in named))


def choose(records: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> Any:
    """The codec for `codec="auto"`, by a quick look at the rows of an (n, nbytes) array of records of `dtype`."""
    rows, nbytes = records.shape
    if rows == 0 or nbytes < SMALLEST_RECORD:
        return get_codec("none")
    names = QUICK_CANDIDATES if has_zstd() else QUICK_WITHOUT_ZSTD
    few = records[_some(rows, nbytes, QUICK_SAMPLE_BYTES)]
    return Recommendation(tuple(_measure(c, few, dtype) for c in _usable(names))).best


def _usable(names: Iterable[str]) -> list[Any]:
    """The codecs of these names that work here; `gzip` and `rle` stand in for their faster twins, not beside them."""
    twins = {"gzip": "igzip", "rle": "rle-jit"}
    codecs: dict[str, Any] = {}
    for name in names:
        codec_id = parse_shorthand(name)["id"]
        if twins.get(codec_id) in codecs:
            continue
        try:
            codec = get_codec(name)
        except CodecUnavailableError:
            continue
        codecs[codec_id if codec_id in twins.values() else name] = codec
    return list(codecs.values())


def _as_records(sample: Any) -> tuple[npt.NDArray[np.uint8], np.dtype[Any]]:
    if not isinstance(sample, np.ndarray):
        sample = _stacked(list(sample))
    if sample.dtype.hasobject:
        raise UnsupportedDtypeError("objects cannot be compressed; give an array of numbers")
    if sample.ndim == 0 or len(sample) == 0 or sample[:1].nbytes == 0:
        raise ValueError("recommend needs an array of at least one record, counted by its first axis")
    # By an index, which also decodes what is compressed: a sample may be far larger than what is looked at.
    few = np.ascontiguousarray(sample[_some(len(sample), sample[:1].nbytes, SAMPLE_BYTES)])
    return few.view(np.uint8).reshape(len(few), -1), sample.dtype


def _stacked(buffers: list[Buffer]) -> npt.NDArray[Any]:
    if all(isinstance(b, np.ndarray) for b in buffers):
        return np.stack(buffers) if buffers else np.empty(0)
    return np.stack([as_bytes_view(b) for b in buffers])


def _some(count: int, record_nbytes: int, nbytes: int) -> npt.NDArray[np.intp]:
    """Which records to look at: some from all over, in `nbytes` or one record."""
    most = max(nbytes // record_nbytes, 1)
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.intp)


def _measure(codec: Any, records: npt.NDArray[np.uint8], dtype: np.dtype[Any], rounds: int = 3) -> Measurement:
    adapted = codec.for_dtype(dtype) if hasattr(codec, "for_dtype") else codec
    out = np.empty_like(records)
    encode_seconds = decode_seconds = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        payloads = _encode(adapted, records)
        encode_seconds = min(encode_seconds, time.perf_counter() - start)
    shrunk = np.flatnonzero(payloads.size < records.shape[1])
    payloads, out = payloads.select(shrunk), out[: len(shrunk)]
    plain = records[len(shrunk) :]
    for _ in range(rounds):
        start = time.perf_counter()
        _decode(adapted, payloads, out)
        plain.copy()
        decode_seconds = min(decode_seconds, time.perf_counter() - start)
    n, nbytes = records.shape
    stored = float(payloads.size.sum() + plain.size) / n
    return Measurement(shorthand(codec), codec, nbytes, stored, encode_seconds / n, decode_seconds / n)


def _encode(codec: Any, records: npt.NDArray[np.uint8]) -> Payloads:
    batch = getattr(codec, "encode_batch", None)
    return encode_each(codec, records) if batch is None else batch(records)


def _decode(codec: Any, payloads: Payloads, out: npt.NDArray[np.uint8]) -> None:
    batch = getattr(codec, "decode_batch", None)
    if batch is None:
        decode_each(codec, payloads, out)
    else:
        batch(payloads, out)
