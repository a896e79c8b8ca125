"""`auto` against every fixed codec on streams of many kinds: `python -m benchmarks.codecs [--quick] [stream ...]`.

Bytes are those that an array says it holds, its table included, for each item. Reads are batches of 32 random items, by
all codecs in turns; medians of a round's ratio. `auto` may take a tenth more bytes than any codec that reads as fast,
and 1.3 times the time of any that holds as little; a codec for which it takes more rivals it. An array of some hundred
kilobytes holds as much of garbage and spare memory, which is counted.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import compressed_array as ca
from benchmarks._report import Figure, figures, finish
from benchmarks._scenes import SCENES, scene

FIXED = ("none", "rle-jit", "lz4-block/0", "igzip1", "zstd-3", "zstd1", "zstd3", "zstd9", "delta", "delta-zstd")
# What other libraries put before zstd, by numcodecs.
SHUFFLES = {"shuffle zstd3": 1, "bitshuffle zstd3": 2}
BATCH, ROUNDS, WRITES = 32, 41, 16
BYTES, TIME = 1.1, 1.3  # how much more `auto` may take than the best


def arrays(plain: npt.NDArray[Any]) -> dict[str, Any]:
    import numcodecs

    blosc = {name: numcodecs.Blosc("zstd", 3, shuffle) for name, shuffle in SHUFFLES.items()}
    made = {}
    for name, codec in {"auto": "auto", **dict(zip(FIXED, FIXED, strict=True)), **blosc}.items():
        made[name] = ca.CompressedArray(plain.shape, plain.dtype, item_ndim=plain.ndim - 1, codec=codec)
        for low in range(0, len(plain), WRITES):
            made[name][low : low + WRITES] = plain[low : low + WRITES]
    return made


def times(made: dict[str, Any], plain: npt.NDArray[Any], rounds: int) -> dict[str, list[float]]:
    """Seconds for a batch, round by round; whoever begins a round finds the caches cold, so they take turns at that."""
    rng, names = np.random.default_rng(0), list(made)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        which = rng.integers(0, len(plain), BATCH)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            batch = made[name].read(which)
            spent = time.perf_counter() - start
            if turn:
                found[name].append(spent)
            else:
                assert np.array_equal(batch, plain[which]), name
    return found


def compare(name: str, rounds: int, count: int | None) -> None:
    plain = np.array(scene(name)[:count])
    made = arrays(plain)
    held = {codec: array.nbytes_stored / len(plain) for codec, array in made.items()}
    taken = times(made, plain, rounds)
    slower = {c: statistics.median(a / b for a, b in zip(taken["auto"], taken[c], strict=True)) for c in made}
    best = min((c for c in made if c != "auto"), key=held.__getitem__)
    as_fast = [c for c in made if slower[c] >= 1 / TIME]
    as_small = [c for c in made if held[c] <= BYTES * held["auto"]]
    bytes_over = held["auto"] / min(held[c] for c in as_fast)
    time_over = max(slower[c] for c in as_small)
    rivals = [c for c in as_fast if held[c] * BYTES < held["auto"]]
    rivals += [c for c in as_small if slower[c] > TIME and c not in rivals]
    for codec in made:
        figures.append(Figure(name, codec, "held of raw", 100 * held[codec] / plain[0].nbytes, "%"))
        figures.append(Figure(name, codec, "read 32", statistics.median(taken[codec]) * 1e6, "us"))
    figures.append(Figure(name, "auto", "held of the least as fast", bytes_over, "x", BYTES))
    figures.append(Figure(name, "auto", "read 32 of the fastest as small", time_over, "x", TIME))
    shares = "".join(f"{100 * held[c] / plain[0].nbytes:8.2f}" for c in made)
    print(f"{name:22}{shares}  {best:16}{bytes_over:6.2f}x{time_over:6.2f}x  {' '.join(rivals)}", flush=True)


def main() -> None:
    asked = [word for word in sys.argv[1:] if word != "--quick"]
    quick = "--quick" in sys.argv
    if unknown := set(asked) - set(SCENES):
        sys.exit(f"no stream {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
    names = ["auto", *FIXED, *SHUFFLES]
    print("held, % of raw; then the least of them, auto's bytes of the least as fast, its time of the fastest as small")
    print(f"{'':22}{''.join(f'{name[:7]:>8}' for name in names)}")
    for name in asked or SCENES:
        compare(name, 11 if quick else ROUNDS, 500 if quick else None)
    finish("codecs", all_of_it=not asked and not quick)


if __name__ == "__main__":
    main()
