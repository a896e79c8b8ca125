"""Reading and writing batches, memory held, and import time: `nox -s bench -- array`.

Every target is a ratio of two things done in this one run, in turns, since the speed of a machine changes from minute
to minute. A missed target is said and not raised: time is something to look at, not to fail on.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import isal.isal_zlib
import lz4.block
import lz4.frame
import numpy as np
import zstandard

import compressed_array as ca
from benchmarks._atari import record
from compressed_array._runtime.threads import thread_count

ITEMS, BATCH, ROUNDS, IMPORTS = 10_000, 256, 21, 7
READ_TARGETS = {"zstd-3": 0.6, "lz4-block/0": 0.6, "rle-jit": 0.25, "none": 1.3}
CODECS = ("zstd-3", "lz4-block/0", "rle-jit", "none", "zstd1", "lz4-frame/0", "igzip1", "gzip6")
WRITE_TARGETS = dict.fromkeys((codec for codec in CODECS if codec != "none"), 1.0)
WHO = ("array", "loop", "one thread")
THREADS = "COMPRESSED_ARRAY_THREADS"
LAZY = ("torch", "numba", "zstandard", "lz4", "isal", "numcodecs")


class OneByOne(NamedTuple):
    """How a user would compress and restore one item with the library itself."""

    compress: Callable[[Any], Any]
    restore: Callable[[Any], Any]


def one_by_one(codec: str) -> OneByOne:
    match codec:
        case "zstd-3" | "zstd1":
            level = -3 if codec == "zstd-3" else 1
            return OneByOne(zstandard.ZstdCompressor(level).compress, zstandard.ZstdDecompressor().decompress)
        case "lz4-block/0":
            return OneByOne(lz4.block.compress, lz4.block.decompress)
        case "lz4-frame/0":
            return OneByOne(lz4.frame.compress, lz4.frame.decompress)
        case "igzip1":
            gz = isal.isal_zlib
            return OneByOne(lambda item: gz.compress(item, 1, 31), lambda payload: gz.decompress(payload, 31))
        case "gzip6":
            return OneByOne(lambda item: zlib.compress(item, 6, 31), lambda payload: zlib.decompress(payload, 31))
        case "rle-jit":
            return OneByOne(ca.get_codec(codec).encode, ca.get_codec(codec).decode)
    raise ValueError(f"no single-item calls known for {codec}")


class Loop:
    """The contender: a list of payloads, and a Python loop over it."""

    def __init__(self, codec: str, items: np.ndarray) -> None:
        self.compress, self.restore = one_by_one(codec)
        self.payloads = [self.compress(item) for item in items]
        self.item_shape, self.raw = items.shape[1:], items[0].nbytes

    def read(self, which: np.ndarray) -> np.ndarray:
        return np.stack(
            [np.frombuffer(self.restore(self.payloads[i]), np.uint8).reshape(self.item_shape) for i in which]
        )

    def write(self, which: np.ndarray, batch: np.ndarray) -> None:
        for i, item in zip(which, batch, strict=True):
            self.payloads[i] = self.compress(item)

    def nbytes(self) -> int:
        return sum(min(memoryview(payload).nbytes, self.raw) for payload in self.payloads)


class Plain:
    """The contender of `none`: numpy itself."""

    def __init__(self, items: np.ndarray) -> None:
        self.items = items.copy()

    def read(self, which: np.ndarray) -> np.ndarray:
        return self.items[which]

    def write(self, which: np.ndarray, batch: np.ndarray) -> None:
        self.items[which] = batch

    def nbytes(self) -> int:
        return self.items.nbytes


Rival = Loop | Plain
Contest = Callable[[int, ca.CompressedArray, Rival], dict[bool, Callable[[], Any]]]


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def verdict(value: float, target: float | None, unit: str = "x") -> str:
    if target is None:
        return ""
    return f"<= {target:.2f}{unit}  {'met' if value <= target else 'MISSED'}"


@contextmanager
def one_thread() -> Iterator[None]:
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS]
        if before is not None:
            os.environ[THREADS] = before


def in_turns(title: str, contest: Contest, arrays: dict[str, ca.CompressedArray], rivals: dict[str, Rival]) -> None:
    """Time what `contest` gives for each codec, the array (also on one thread) and its rival in turns."""
    times: dict[tuple[str, str], list[float]] = {(codec, who): [] for codec in arrays for who in WHO}
    for turn in range(ROUNDS + 1):
        for codec in arrays:
            work = contest(2 * turn, arrays[codec], rivals[codec])
            # Whoever comes second finds the caches warm, so they take turns at that too.
            for ours in (True, False) if turn % 2 else (False, True):
                times[codec, "array" if ours else "loop"].append(seconds(work[ours]))
            # Other items: to write the same again would leave garbage such as no ring does.
            work = contest(2 * turn + 1, arrays[codec], rivals[codec])
            with one_thread():
                times[codec, "one thread"].append(seconds(work[True]))

    print(f"\n{title}: medians of {ROUNDS} rounds")
    print(f"{'codec':14}{'array ms':>10}{'loop ms':>10}{'ratio':>9}{'one thread':>12}   target")
    for codec in arrays:
        # The first round compiles and warms up.
        ours, alone, theirs = (statistics.median(times[codec, who][1:]) for who in ("array", "one thread", "loop"))
        target = READ_TARGETS.get(codec) if title.startswith("read") else WRITE_TARGETS.get(codec)
        line = f"{codec:14}{ours * 1e3:10.2f}{theirs * 1e3:10.2f}{ours / theirs:8.2f}x{alone / theirs:11.2f}x   "
        print((line + verdict(ours / theirs, target)).rstrip())


def batches(items: np.ndarray, arrays: dict[str, ca.CompressedArray], rivals: dict[str, Rival]) -> None:
    rng = np.random.default_rng(0)

    def read(turn: int, array: ca.CompressedArray, rival: Rival) -> dict[bool, Callable[[], Any]]:
        which = rng.integers(ITEMS, size=BATCH)
        if turn == 0:  # in a round that counts, it would bring to the caches what is to be read
            assert np.array_equal(array[which], rival.read(which))
        return {True: lambda: array[which], False: lambda: rival.read(which)}

    def write(which: np.ndarray, array: ca.CompressedArray, rival: Rival) -> dict[bool, Callable[[], Any]]:
        batch = items[rng.integers(ITEMS, size=BATCH)]
        return {True: lambda: array.__setitem__(which, batch), False: lambda: rival.write(which, batch)}

    def write_in_order(turn: int, array: ca.CompressedArray, rival: Rival) -> dict[bool, Callable[[], Any]]:
        return write(np.arange(turn * BATCH, (turn + 1) * BATCH) % ITEMS, array, rival)

    def write_anywhere(turn: int, array: ca.CompressedArray, rival: Rival) -> dict[bool, Callable[[], Any]]:
        return write(rng.choice(ITEMS, BATCH, replace=False), array, rival)

    in_turns(f"read {BATCH} random items, a[which]", read, arrays, rivals)
    in_turns(f"write {BATCH} items in a ring's order, a[which] = batch", write_in_order, arrays, rivals)
    in_turns(f"write {BATCH} random items, a[which] = batch", write_anywhere, arrays, rivals)
    print("loop: the library's own call for each item, and np.stack; for none: plain numpy")
    print("one thread: the ratio with COMPRESSED_ARRAY_THREADS=1; on a busy machine the other is no better")


def held(items: np.ndarray, payloads: dict[str, int]) -> None:
    print(f"\nmemory of {ITEMS} items: growth of a process of its own, one run each")
    print(f"{'':14}{'payloads':>9}{'array':>9}{'process':>9}{'process/':>11}{'process/':>10}")
    print(f"{'codec':14}{'MB':>9}{'says MB':>9}{'grew MB':>9}{'payloads':>11}{'says':>10}   target")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "items")
        items.tofile(file)
        for codec, nbytes in payloads.items():
            command = [sys.executable, "-m", "benchmarks._held", str(file), codec, *map(str, items.shape)]
            grown, says = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
            print(
                f"{codec:14}{nbytes / 1e6:9.1f}{says / 1e6:9.1f}{grown / 1e6:9.1f}{grown / nbytes:10.2f}x"
                f"{grown / says:9.2f}x   {verdict(grown / nbytes, 1.1)}"
            )


def import_time() -> None:
    took = []
    for _ in range(IMPORTS):
        command = [sys.executable, "-X", "importtime", "-c", "import compressed_array"]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        (cumulative,) = re.findall(r"\|\s+(\d+) \| compressed_array$", report, re.MULTILINE)
        took.append(int(cumulative) / 1e6)
    loaded = [name for name in LAZY if re.search(rf"\| +{name}$", report, re.MULTILINE)]
    middle = statistics.median(took)
    print(f"\nimport compressed_array, with numpy, median of {IMPORTS}: {middle:.3f} s   {verdict(middle, 0.3, ' s')}")
    print(f"of {', '.join(LAZY)}")
    print(f"it imports {', '.join(loaded) or 'none'}   {'MISSED' if loaded else 'met'}")


def main() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {thread_count()} threads for a large batch")
    print(f"{ITEMS} observations of MsPacman", flush=True)
    items = record(ITEMS)
    arrays = {codec: ca.compress(items, item_ndim=3, codec=codec) for codec in CODECS}
    rivals = {codec: Plain(items) if codec == "none" else Loop(codec, items) for codec in CODECS}
    payloads = {codec: rival.nbytes() for codec, rival in rivals.items()}
    batches(items, arrays, rivals)
    del arrays, rivals
    held(items, payloads)
    import_time()


if __name__ == "__main__":
    main()
