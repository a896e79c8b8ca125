"""Law 5: `nbytes_stored` is what the process really holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from core_helpers.codecs import CODECS

pytestmark = [pytest.mark.long, pytest.mark.same_everywhere]

# Their payloads go the way of another codec's: through the same encoder, or one by one as gzip's do.
LIKE_OTHERS = ("igzip", "lz4-frame", "rle-jit")

MEASURE = """
import gc, sys
import numpy as np
import compressed_array as ca

def resident():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024

def frame(i):
    row = np.arange(84) * i // 7 % 251
    picture = (row[:, None] // 9 * (i % 13) + row[None, :] // 5).astype(np.uint8)
    picture[::3, i % 84] = np.random.default_rng(i).integers(0, 256, 28)
    return np.stack([np.roll(picture, k, 0) for k in range(4)])

codec, items = sys.argv[1], int(sys.argv[2])
frames = np.stack([frame(i) for i in range(64)])
batch = np.empty((16, 4, 84, 84), np.uint8)

def fill(items):
    array = ca.zeros((items, 4, 84, 84), np.uint8, item_ndim=3, codec=codec)
    for low in range(0, items, 16):
        np.bitwise_xor(frames[low % 64 : low % 64 + 16], np.uint8(low // 64 % 256), out=batch)
        array[low : low + 16] = batch
    return array

fill(640)  # libraries loaded, kernels compiled, threads started and scratch memory made
gc.collect()
before = resident()
array = fill(items)
grown = resident() - before
print(grown, array.nbytes_stored)
if sys.argv[3] == "drop":
    del array
    gc.collect()
    print(resident() - before, 0)
"""


def measure(codec: str, items: int, then: str = "stop") -> list[tuple[int, int]]:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, codec, str(items), then], capture_output=True, text=True, check=True
    )
    pairs = (line.split() for line in run.stdout.splitlines())
    return [(int(grown), int(stored)) for grown, stored in pairs]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's anonymous memory from /proc")
@pytest.mark.parametrize(
    "codec", [pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ()) for name in CODECS]
)
def test_growth_of_the_process_is_what_is_reported(codec: str) -> None:
    items = 1600 if codec in ("none", "rle", "rle-jit") else 20_000 if codec.startswith("delta") else 12_000
    ((grown, stored),) = measure(codec, items)
    assert stored > 10_000_000
    contexts = 8_000_000 if codec == "delta-zstd" else 0  # zstd's own, for groups of a megabyte; they do not grow
    assert abs(grown - stored) <= 0.1 * stored + contexts


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's anonymous memory from /proc")
def test_memory_goes_back_to_the_system_with_the_array() -> None:
    (grown, stored), (left, _) = measure("none", 1600, "drop")
    assert grown > 0.9 * stored
    assert left < 0.1 * grown
