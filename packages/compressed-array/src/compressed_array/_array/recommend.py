"""`recommend`: which codec suits some items, measured on them.

What is measured is blocks of consecutive steps from all over, or all steps if there are few. Codecs that need to see
items in their order, "auto" among them, get them in that order. The bytes are those that an array of the measured
items holds, with all that it needs to find and to write them; only "none" counts as a plain array, which needs nothing.
The best is the one of the least score, as `codecs._measure` defines it; a race within 7 % of the bytes goes to the
candidate listed first. Where "auto" is a candidate, no other is advised that takes more bytes than that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._array.array import CompressedArray
from compressed_array.abc import Buffer, as_bytes_view
from compressed_array.codecs._measure import CLEARLY, Measurement, is_auto, measure, spread_indices, usable
from compressed_array.codecs.delta import Delta
from compressed_array.errors import UnsupportedDtypeError
from compressed_array.registry import get_codec, shorthand

STREAMS = ("auto", "delta", "delta-zstd")  # codecs that depend on item order
CANDIDATES = ("none", *STREAMS, "zstd-3", "zstd1", "zstd3", "zstd9", "lz4-block/0", ("igzip1", "gzip1"), "rle")
STREAM_BYTES, STREAM_ITEMS = 2**27, 2**16  # limits of what is measured
SINGLE_BYTES = 2**24  # of those, the bytes that codecs of single items get
TIMED_BYTES, TIMED_STREAM_BYTES = 2**21, 2**24  # bytes that are timed: of items one by one, and of streams
# Each block begins with items that nothing before them helps to compress, so none is short.
MOST_BLOCKS, BLOCK_STEPS = 8, 256
BATCH = 32  # items of a stream that are written, and read, at a time while they are timed
STREAM_READS = 32  # of such a batch, of which the fastest counts
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
        sample: An array of items in the order in which they will be written, compressed or not, or a list of
            equal-sized buffers. Of more than 128 MB, some parts from all over are measured.
        candidates: Codecs or their names; all whose library is here, if left out.
        item_ndim: How many of the last axes are an item's; if left out, as many as the items of a `CompressedArray`
            have, and of any other array all but the first. The others count items: the last of several counts streams,
            such as environments, and those before it steps.

    >>> found = recommend(np.zeros((40, 84, 84), np.uint8), ["none", "gzip"])
    >>> found.best
    Gzip(level=6)
    """
    steps = _measured_steps(sample, item_ndim)
    items = steps.reshape(-1, *steps.shape[2:])
    items = items[spread_indices(len(items), items.nbytes // len(items), SINGLE_BYTES)]
    named = usable(CANDIDATES) if candidates is None else [c if is_auto(c) else get_codec(c) for c in candidates]
    if not named:
        raise ValueError("recommend needs at least one candidate")
    return Recommendation(
        tuple(
            _measure_stream(codec, steps)
            if is_auto(codec) or isinstance(codec, Delta)
            else _measure_items(codec, items)
            for codec in named
        )
    )


def _measured_steps(sample: Any, item_ndim: int | None) -> npt.NDArray[Any]:
    """Returns what is measured of a sample, as steps of some streams: an array of (steps, streams, *item)."""
    is_compressed = isinstance(sample, CompressedArray)
    if not is_compressed and not isinstance(sample, np.ndarray):
        sample = _stacked(list(sample))
    if sample.dtype.hasobject:
        raise UnsupportedDtypeError("objects cannot be compressed; give an array of numbers")
    if item_ndim is not None and not 0 <= item_ndim < sample.ndim:
        raise ValueError(f"an array of {sample.ndim} axes has no items of {item_ndim} and an axis to count them")
    if sample.size == 0 or sample.ndim == 0 or sample.itemsize == 0:
        raise ValueError("recommend needs an array of at least one record, counted by its first axis")
    if item_ndim is None:
        item_ndim = min(len(sample.item_shape) if is_compressed else sample.ndim, sample.ndim - 1)
    grid, item_shape = sample.shape[: sample.ndim - item_ndim], sample.shape[sample.ndim - item_ndim :]
    streams = grid[-1] if len(grid) > 1 else 1
    in_row = prod(grid[1:-1])  # steps along the first axis alone are all that is read of a compressed array
    shape = -1, streams, *item_shape
    blocks = []
    for low, high in _blocks(grid[0] * in_row, streams, prod(item_shape) * sample.itemsize):
        if is_compressed:
            first = low // in_row
            read = sample.read(slice(first, -(-high // in_row))).reshape(shape)
            blocks.append(read[low - first * in_row : high - first * in_row])
        else:
            blocks.append(sample.reshape(shape)[low:high])
    return np.ascontiguousarray(blocks[0] if len(blocks) == 1 else np.concatenate(blocks))


def _blocks(steps: int, streams: int, item_nbytes: int) -> list[tuple[int, int]]:
    """Returns where the blocks of steps that are measured begin and end."""
    items = min(max(STREAM_BYTES // item_nbytes, 4 * BATCH), STREAM_ITEMS)
    most = max(items // streams, 1)
    if steps <= most:
        return [(0, steps)]
    count = min(max(most // BLOCK_STEPS, 1), MOST_BLOCKS)
    length = most // count
    # Each in the middle of its part of the time.
    return [(low, low + length) for low in ((2 * k + 1) * steps // (2 * count) - length // 2 for k in range(count))]


def _stacked(buffers: list[Buffer]) -> npt.NDArray[Any]:
    if all(isinstance(b, np.ndarray) for b in buffers):
        return np.stack(buffers) if buffers else np.empty(0)
    return np.stack([as_bytes_view(b) for b in buffers])


def _measure_items(codec: Any, items: npt.NDArray[Any]) -> Measurement:
    """Returns what an array makes of items one by one."""
    records = np.ascontiguousarray(items).view(np.uint8).reshape(len(items), -1)
    found = measure(codec, records[spread_indices(*records.shape, TIMED_BYTES)], items.dtype)
    if found.name == "none":
        return found
    array = CompressedArray(items.shape, items.dtype, item_ndim=items.ndim - 1, codec=codec)
    array[...] = items
    return replace(found, stored_bytes=float(array.nbytes_stored / len(items)))


def _measure_stream(codec: Any, items: npt.NDArray[Any]) -> Measurement:
    """Returns what an array makes of the items of some streams in their order."""
    (steps, streams), nbytes = items.shape[:2], items.nbytes // (len(items) * items.shape[1])
    array, rng, decode_seconds = _empty_array(items, codec), np.random.default_rng(0), math.inf
    for number, step in enumerate(items):  # as a buffer is filled, on which the bytes depend a little
        array[number] = step
    for _ in range(STREAM_READS):
        which = rng.integers(0, steps, BATCH), rng.integers(0, streams, BATCH)
        start = time.perf_counter()
        array.read(which)
        decode_seconds = min(decode_seconds, (time.perf_counter() - start) / BATCH)
    name = codec if is_auto(codec) else shorthand(codec)
    stored = float(array.nbytes_stored / (steps * streams))
    few = items[: max(TIMED_STREAM_BYTES // (streams * nbytes), 1)]
    return Measurement(name, codec, nbytes, stored, _seconds_to_write(codec, few), decode_seconds)


def _seconds_to_write(codec: Any, items: npt.NDArray[Any]) -> float:
    (steps, streams), array, writes = items.shape[:2], _empty_array(items, codec), []
    at_once = max(BATCH // streams, 1)
    for low in range(0, steps, at_once):
        start = time.perf_counter()
        array[low : low + at_once] = items[low : low + at_once]
        writes.append(time.perf_counter() - start)
    # The median: while a stream is short, it is often looked at.
    return float(np.median(writes) / (min(at_once, steps) * streams))


def _empty_array(items: npt.NDArray[Any], codec: Any) -> CompressedArray:
    return CompressedArray(items.shape, items.dtype, item_ndim=items.ndim - 2, codec=codec)
