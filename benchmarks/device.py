"""Replay buffers with observations on a torch device, here the CPU, on MsPacman: `nox -s bench -- device`.

Adds are compared with SB3's, reads of stacks with those of a dense tensor, each in one process and in turns. Bytes are
what observations and next observations take on the device. `!` marks times taken while others kept the machine busy; a
missed target is said and not raised. `results/device.csv` is written if nothing is marked.
"""

from __future__ import annotations

import os

from benchmarks._devices import CONTENDERS, GAME, GPU
from benchmarks._measure import READ_ROUNDS, WRITE_ROUNDS
from benchmarks._recordings import stream
from benchmarks._report import BUSY, Figure, figures, finish, speed, time_figures

LIMITS = {
    GPU + "delta": {"stored": 3.0, "write": 3.0, "read 256": 3.0, "peak": 1.0},
    GPU + "rle": {"read 256": 8.0, "peak": 1.0},
}
MEASURES = {"write": "SB3's", "read 32": "a dense tensor's", "read 256": "a dense tensor's"}


def main() -> None:
    stream(GAME)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    print(f"medians of {WRITE_ROUNDS} rounds of adds and {READ_ROUNDS} of reads")
    print(f"\n{GAME}: 40,000 transitions of 4 environments; times in us, adds of SB3's, reads of a dense tensor's")
    print(f"{'':30}{'MB':>8}{'':>9}{'add 4':>15} {'read 32':>15} {'read 256':>15} {'kernels of a read, an add':>28}")
    raw = 0.0
    for contender in CONTENDERS:
        found, limits = speed("_devices", contender), LIMITS.get(contender, {})
        raw = raw or found["stored"]
        share = 100 * found["stored"] / raw
        figures.append(Figure(GAME, contender, "stored", found["stored"] / 1e6, "MB"))
        figures.append(Figure(GAME, contender, "stored of SB3's", share, "%", limits.get("stored")))
        line = f"{contender:30}{found['stored'] / 1e6:8.1f}{share:7.2f} %"
        for measure, of in MEASURES.items():
            line += time_figures(GAME, contender, of, found, {measure: limits.get(measure, 0)}) + " "
        for measure in ("kernels of a read", "kernels of an add"):
            if measure in found:
                figures.append(Figure(GAME, contender, measure, found[measure], ""))
                line += f"{found[measure]:10.1f}"
        if "peak" in found:
            figures.append(Figure(GAME, contender, "peak of what is allowed", found["peak"], "x", limits.get("peak")))
        print(line.rstrip(), flush=True)
    finish("device", all_of_it=True)


if __name__ == "__main__":
    main()
