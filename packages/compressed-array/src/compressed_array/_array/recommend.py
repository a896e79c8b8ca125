"""`recommend`: which codec suits some items, measured on them.

Codecs that need to see items in their order, "auto" among them, are measured on items in their order. The best is the
one of the least score, as `codecs._measure` reckons it; a race within 7 % of the bytes goes to the candidate listed
first. Where "auto" is a candidate, no other is advised that takes more bytes than that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.array import CompressedArray
from compressed_array.abc import Buffer, as_bytes_view
from compressed_array.codecs._measure import CLEARLY, Measurement, is_auto, measure, some, usable
from compressed_array.codecs.delta import Delta
from compressed_array.errors import UnsupportedDtypeError
from compressed_array.registry import get_codec, shorthand

STREAMS = ("auto", "delta", "delta-zstd")  # which see items in their order
CANDIDATES = ("none", *STREAMS, "zstd-3", "zstd1", "zstd3", "zstd9", "lz4-block/0", "igzip1", "gzip1", "rle-jit", "rle")
SAMPLE_BYTES, STREAM_BYTES = 2**21, 2**24
BATCH = 32  # items of a stream that are written, and read, at a time
CLOSE_RACE = 0.1


@dataclass(frozen=True)
class Recommendation:
    """The measured candidates, in the order they were given, and the best of them."""

    measurements: tuple[Measurement, ...]

    @property
    def best(self) -> Any:
        """The codec to use, or "auto"."""
        return self._winner.codec

    @property
    def _winner(self) -> Measurement:
        smallest = min(m.stored_bytes for m in self.measurements)
        for m in self.measurements:
            if m.name == "none" and CLEARLY * m.stored_bytes <= smallest:
                return m  # whatever the clock said: nothing reads faster
        auto = [m.stored_bytes for m in self.measurements if is_auto(m.codec)]
        fit = [m for m in self.measurements if m.stored_bytes <= auto[0] / CLEARLY] if auto else self.measurements
        least = min(m.score for m in fit)
        return next(m for m in fit if m.score <= least + CLOSE_RACE)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("codec", "smaller", "write µs", "read µs", "write MB/s", "read MB/s", "")]
        for m in self.measurements:
            seconds = m.encode_seconds, m.decode_seconds
            times = (f"{s * 1e6:,.1f}" for s in seconds)
            speeds = (f"{m.nbytes / max(s, 1e-12) / 1e6:,.0f}" for s in seconds)
            rows.append((m.name[:21], f"{m.ratio:.1f}x", *times, *speeds, "*" if m is self._winner else ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            row[0].ljust(widths[0]) + "".join(f"  {w:>{n}}" for w, n in zip(row[1:], widths[1:], strict=True))
            for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), "* recommended"])


def recommend(sample: Any, candidates: Iterable[Any] | None = None, item_ndim: int | None = None) -> Recommendation:
    """Measures codecs on some items, and returns what each made of them, with the best.

    Args:
        sample: An array of items in the order in which they will be written, or a list of equal-sized buffers.
        candidates: Codecs or their names; all whose library is here, if left out.
        item_ndim: How many of the last axes are an item's; all but the first, if left out. The others count items, as
            those of a `CompressedArray` do.

    >>> found = recommend(np.zeros((40, 84, 84), np.uint8), ["none", "gzip"])
    >>> found.best
    Gzip(level=6)
    """
    array, lanes = _as_array(sample, item_ndim)
    records = _records(array[some(len(array), array[0].nbytes, SAMPLE_BYTES)])
    named = usable(CANDIDATES) if candidates is None else [c if is_auto(c) else get_codec(c) for c in candidates]
    if not named:
        raise ValueError("recommend needs at least one candidate")
    return Recommendation(
        tuple(
            _measure_stream(codec, array, lanes)
            if is_auto(codec) or isinstance(codec, Delta)
            else measure(codec, records, array.dtype)
            for codec in named
        )
    )


def _as_array(sample: Any, item_ndim: int | None) -> tuple[npt.NDArray[Any], int]:
    """The items of a sample along one axis, a view where it is an array, and how many streams they are of."""
    lanes = 1
    if not isinstance(sample, np.ndarray):
        sample = _stacked(list(sample))
    if sample.dtype.hasobject:
        raise UnsupportedDtypeError("objects cannot be compressed; give an array of numbers")
    if item_ndim is not None:
        if not 0 <= item_ndim < sample.ndim:
            raise ValueError(f"an array of {sample.ndim} axes has no items of {item_ndim} and an axis to count them")
        grid, item_shape = sample.shape[: sample.ndim - item_ndim], sample.shape[sample.ndim - item_ndim :]
        lanes = grid[-1] if len(grid) > 1 else 1
        sample = sample.reshape(-1, *item_shape)
    if sample.ndim == 0 or len(sample) == 0 or sample[:1].nbytes == 0:
        raise ValueError("recommend needs an array of at least one record, counted by its first axis")
    return sample, lanes


def _records(items: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    items = np.ascontiguousarray(items)
    return items.view(np.uint8).reshape(len(items), -1)


def _stacked(buffers: list[Buffer]) -> npt.NDArray[Any]:
    if all(isinstance(b, np.ndarray) for b in buffers):
        return np.stack(buffers) if buffers else np.empty(0)
    return np.stack([as_bytes_view(b) for b in buffers])


def _measure_stream(codec: Any, items: npt.NDArray[Any], lanes: int, rounds: int = 32) -> Measurement:
    """What an array makes of items in their order: of all of them, or of the first that are enough to say."""
    nbytes = items[0].nbytes
    steps = max(min(max(STREAM_BYTES // nbytes, 4 * BATCH), len(items)) // lanes, 1)
    plain = np.ascontiguousarray(items[: steps * lanes]).reshape(steps, lanes, *items.shape[1:])
    array = CompressedArray(plain.shape, plain.dtype, item_ndim=plain.ndim - 2, codec=codec)
    at_once, rng, decode_seconds, writes = max(BATCH // lanes, 1), np.random.default_rng(0), math.inf, []
    for low in range(0, steps, at_once):
        start = time.perf_counter()
        array[low : low + at_once] = plain[low : low + at_once]
        writes.append(time.perf_counter() - start)
    # The median: while a stream is short, it is often looked at.
    encode_seconds = float(np.median(writes)) / (min(at_once, steps) * lanes)
    for _ in range(rounds):
        which = rng.integers(0, steps, BATCH), rng.integers(0, lanes, BATCH)
        start = time.perf_counter()
        array.read(which)
        decode_seconds = min(decode_seconds, (time.perf_counter() - start) / BATCH)
    exported, _ = array.store.export(np.unique(array.cells.numbers.reshape(-1)))
    stored = exported.data.size + sum(reference.nbytes for reference in getattr(exported, "references", ()))
    name = codec if is_auto(codec) else shorthand(codec)
    return Measurement(name, codec, nbytes, max(stored, 1) / (steps * lanes), encode_seconds, decode_seconds)
