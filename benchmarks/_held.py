"""How much memory a filled array holds, told by a process that does nothing else: `python -m benchmarks._held`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import compressed_array as ca

CHUNK, WARM_UP = 64, 1024


def private_bytes() -> int:
    """The process's anonymous memory: what it allocated, without the pages of libraries and files it has mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much of a process's memory is its own")


def fill(file: Path, shape: tuple[int, ...], codec: str, chunk: npt.NDArray[np.uint8]) -> ca.CompressedArray:
    """The observations in `file`, read a few at a time into `chunk`, so that they are never in memory as a whole."""
    array = ca.zeros(shape, np.uint8, item_ndim=len(shape) - 1, codec=codec)
    with file.open("rb", buffering=0) as source:
        for start in range(0, shape[0], len(chunk)):
            rows = chunk[: shape[0] - start]
            source.readinto(rows)
            array[start : start + len(rows)] = rows
    return array


def main() -> None:
    name, codec, *dims = sys.argv[1:]
    file, shape = Path(name), tuple(map(int, dims))
    chunk = np.ones((CHUNK, *shape[1:]), np.uint8)
    # Libraries, compiled kernels and scratch memory come with the first writes. They do not grow with the array, so
    # they belong in what was there before; the small array stays alive, so that its memory is not taken over.
    first = fill(file, (WARM_UP, *shape[1:]), codec, chunk)
    before = private_bytes()
    array = fill(file, shape, codec, chunk)
    print(private_bytes() - before, array.nbytes_stored)
    del first


if __name__ == "__main__":
    main()
