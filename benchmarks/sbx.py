"""SBX with stock buffers and with ours: time in the buffer of one `train()`, and wall clock: `nox -s bench -- sbx`.

    python -m benchmarks.sbx [SAC] [DQN] [steps]

Times are ratios to the stock buffer in the same process, in turns. SB3 copies every array by torch, with as many
threads as torch takes, so they are taken with one as well. `!` marks those taken while others kept the machine busy; a
missed target is said and not raised. `results/sbx.csv` is written if nothing is marked. With a name, only the wall
clock of that algorithm is taken.
"""

from __future__ import annotations

import os
import sys

from benchmarks._report import BUSY, Figure, figures, finish, speed
from benchmarks._sbx import CASES, ROUNDS
from benchmarks._sbx_runs import MODELS, TURN, compare

STEPS = 20_000
LIMITS = {"DQN images 1": 0.6, "DQN images 16": 0.6, "SAC vectors 20": 1.05}
WALL_CLOCK = 1.02


def buffers() -> None:
    print(f"in the buffer, of one train(): sample and numpy(); medians of {ROUNDS} rounds")
    print(f"{'':16}{'':>12}{'':>9}{'torch with one thread':>25}")
    for name in CASES:
        line = f"{name:16}"
        for threads, limit in (("", LIMITS.get(name)), ("1", None)):
            seconds, ratio, others = speed("_sbx", name, threads)["train"]
            busy, whose = others > BUSY, "train" + ", torch with one thread" * bool(threads)
            figures.append(Figure(name, "auto", whose, seconds * 1e6, "us", busy=busy))
            figures.append(Figure(name, "auto", f"{whose}, of stock", ratio, "x", limit, busy))
            line += f"{seconds * 1e6:9.0f} us{ratio:8.2f}x{'!' if busy else ' '}"
        print(line.rstrip(), flush=True)


def wall_clock(algorithm: str, steps: int) -> None:
    found = compare(algorithm, steps)
    busy = found.others > BUSY
    figures.append(Figure(algorithm, "auto", "wall clock of stock", found.ratio, "x", WALL_CLOCK, busy))
    figures.append(Figure(algorithm, "auto", "wall clock of stock, median turn", found.median, "x", busy=busy))
    times = f"{found.stock:9.1f} s{found.ours:9.1f} s{found.ratio:9.3f}x{found.median:9.3f}x"
    print(f"{algorithm:8}{steps:8,}{times}{'!' if busy else ''}  same parameters", flush=True)


def main() -> None:
    asked = [name for name in MODELS if name in sys.argv]
    steps = next((int(word) for word in sys.argv[1:] if word.isdigit()), STEPS)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    if not asked:
        buffers()
    print(
        f"\nwall clock, turns of {TURN:,} steps\n{'':8}{'steps':>8}{'stock':>11}{'ours':>11}{'ratio':>10}{'median':>10}"
    )
    for algorithm in asked or MODELS:
        wall_clock(algorithm, steps)
    finish("sbx", all_of_it=not asked and steps >= STEPS)


if __name__ == "__main__":
    main()
