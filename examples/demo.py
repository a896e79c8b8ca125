"""Real Atari observations through every codec that is installed, and back: `nox -s demo`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import compressed_array as ca
from benchmarks._atari import record

ITEMS, BATCH, WRITES, READS = 2_000, 256, 3, 9


def timed(times: list[float], work: Callable[..., Any], *args: Any) -> Any:
    start = time.perf_counter()
    result = work(*args)
    times.append(time.perf_counter() - start)
    return result


def main() -> None:
    print(f"Playing MsPacman for {ITEMS} observations of four stacked frames …", flush=True)
    frames = record(ITEMS)
    everything = np.arange(ITEMS)
    rng = np.random.default_rng(0)

    makers: dict[str, Callable[[Any], Any]] = {"plain numpy": np.copy}
    missing = []
    for name, info in ca.available_codecs().items():
        if info.available:
            codec = ca.get_codec(name)
            makers[ca.shorthand(codec)] = partial(ca.compress, item_ndim=3, codec=codec)
        else:
            missing.append(f"{name} (pip install 'compressed-array[{info.extra}]')")

    arrays: dict[str, Any] = {}
    writes: dict[str, list[float]] = {name: [] for name in makers}
    reads: dict[str, list[float]] = {name: [] for name in makers}
    # In turns, so that a busy moment of the machine falls on all alike; what is compiled at first use, before.
    for make in makers.values():
        make(frames[:BATCH])[everything[:BATCH]]
    for _ in range(WRITES):
        for name, make in makers.items():
            arrays[name] = timed(writes[name], make, frames)
    for _ in range(READS):
        which = rng.integers(ITEMS, size=BATCH)
        for name, array in arrays.items():
            batch = timed(reads[name], array.__getitem__, which)
            assert np.array_equal(batch, frames[which]), f"{name} returned something else"
    for name, array in arrays.items():
        assert np.array_equal(array[everything], frames), f"{name} returned something else"

    print(f"\n{'':14}{'stored MB':>11}{'smaller':>10}{'write MB/s':>14}{'read MB/s':>14}")
    for name, array in arrays.items():
        stored = array.nbytes_stored if isinstance(array, ca.CompressedArray) else array.nbytes
        write, read = frames.nbytes / median(writes[name]), BATCH * frames[0].nbytes / median(reads[name])
        print(f"{name:14}{stored / 1e6:11.2f}{frames.nbytes / stored:9.1f}x{write / 1e6:14,.0f}{read / 1e6:14,.0f}")
    print(f"write: all, into new memory, median of {WRITES}; read: {BATCH} at random, median of {READS}")

    auto = ca.compress(frames, item_ndim=3, codec="auto")
    assert np.array_equal(auto[everything], frames), "auto returned something else"
    print(f"\nEvery codec returned all {ITEMS} observations bit for bit.")
    print(f"codec='auto' measured the first of them and chose {ca.shorthand(auto.codec)}.")
    plain_gb, stored_gb = frames.nbytes / ITEMS / 1e3, auto.nbytes_stored / ITEMS / 1e3
    print(f"At that rate a million observations are {plain_gb:.1f} GB plain and {stored_gb:.2f} GB compressed.")
    for line in missing:
        print(f"not installed: {line}")


if __name__ == "__main__":
    main()
