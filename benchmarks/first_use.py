"""The first `add` and `sample` of an Atari buffer, seconds of CPU: `python -m benchmarks.first_use`.

With kernels to be compiled, and with kernels that an earlier process has compiled and kept. Imports of torch and SB3
are not counted, numba's is. What is imported is compiled to bytecode beforehand, as it is anywhere but on a first day.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks._report import Figure, figures, finish

ROUNDS = 3
COLD, WARM = 6.0, 0.5  # seconds
USE = """
import time
import numpy as np
from gymnasium import spaces
from compressed_array_sb3 import CompressedReplayBuffer

start = time.process_time()
buffer = CompressedReplayBuffer(1000, spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(2))
obs = np.random.default_rng(0).integers(0, 9, (1, 4, 84, 84)).astype(np.uint8)
buffer.add(obs, obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
buffer.sample(32)
print(time.process_time() - start)
"""


def use(cache: str) -> float:
    env = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
    return float(
        subprocess.run([sys.executable, "-c", USE], env=env, capture_output=True, text=True, check=True).stdout
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        use(cache)  # bytecode
    cold, warm = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(use(cache))
            warm.append(use(cache))
    for measure, found, limit in (("kernels compiled", cold, COLD), ("kernels kept", warm, WARM)):
        figures.append(Figure("first use", "CompressedReplayBuffer", measure, statistics.median(found), "s", limit))
        print(f"{measure:20}{statistics.median(found):6.2f} s of CPU, median of {ROUNDS}")
    finish("first_use", all_of_it=True)


if __name__ == "__main__":
    main()
