"""Replay memories on what real games show, ours and others': `nox -s bench -- frames`.

Memory is the growth of a process that fills one contender and does nothing else. Times are ratios to SB3 (or whatever a
section names) in the same process, in turns; `!` marks those taken while others kept the machine busy. A missed target
is said and not raised. Sections can be named:

    python -m benchmarks.frames [atari] [million] [camera] [noise] [vectors]

All of them together also write `results/frames.csv` and `results/frames.png`, if nothing is marked.
"""

from __future__ import annotations

import os
import sys

from benchmarks._contenders import BUFFER, CONTENDERS, OUR_CODECS, REFERENCE, WRONG_AT_ENDS
from benchmarks._measure import READ_ROUNDS, READS, WRITE_ROUNDS, WRITES
from benchmarks._recordings import GAMES, stream
from benchmarks._report import (
    BUSY,
    HELD_RUNS,
    RESULTS,
    SPEEDS,
    Figure,
    child,
    draw,
    figures,
    finish,
    held,
    speed,
    time_figures,
)

PEERS = [name for name in CONTENDERS if not name.startswith(("frames in", BUFFER))]
ATARI_LIMITS = {
    ("MsPacman", "delta"): {"held": 1.0, "write": 0.7, "read 32": 0.5, "read 256": 0.5},
    ("MsPacman", "delta-zstd"): {"held": 0.5, "write": 1.0, "read 32": 1.0, "read 256": 1.0},
    ("Pong", "delta"): {"held": 0.4},
    ("Breakout", "delta"): {"held": 0.4},
}


def atari() -> None:
    for game in ("MsPacman", "Pong", "Breakout"):
        print(f"\n{game}: 40,000 transitions of 4 environments, against {REFERENCE}; times in us")
        print(f"{'':26}{'held MB':>8}{'':>9}{'steady':>9}{'a step of 4':>15} {'read 32':>15} {'read 256':>15}")
        for contender in PEERS if game == "MsPacman" else (REFERENCE, *OUR_CODECS):
            limits = ATARI_LIMITS.get((game, contender), {})
            nbytes, steady = held(game, contender), held(game, contender, steady=True)
            share, steady_share = (100 * n / held(game, REFERENCE) for n in (nbytes, steady))
            figures.append(Figure(game, contender, "held", nbytes / 1e6, "MB"))
            figures.append(Figure(game, contender, "held of SB3's", share, "%", limits.get("held")))
            figures.append(Figure(game, contender, "held of SB3's, steady allocator", steady_share, "%"))
            line = f"{contender + '*' * (contender in WRONG_AT_ENDS):26}{nbytes / 1e6:8.1f}"
            line += f"{share:7.2f} %{steady_share:7.2f} %"
            times = speed("_measure", game, contender, REFERENCE, "1")
            wanted = {measure: limits.get(measure, 0) for measure in SPEEDS}
            print(line + time_figures(game, contender, "SB3's", times, wanted), flush=True)
    print("* next_obs is not the true one where an episode ends: it is the row after, which the next episode wrote")
    print("steady: with glibc kept at the thresholds that it starts with, which no user does")
    print(f"{REFERENCE} beside itself shows the noise; TorchRL's codec is zlib before Python 3.14; cpprb has a buffer")
    print("per environment; extra-buffers as in their own benchmark, which optimizes as SB3 does")


def million() -> None:
    print("\nMsPacman, a million transitions: the recording 25 times over, each time the same, against the same codec")
    print(f"with the recording once{'held MB':>22}{'a step of 4':>16}{'read 32':>15} {'read 256':>15}")
    name = "MsPacman, a million"
    for codec in ("delta", "delta-zstd"):
        nbytes, times = held("MsPacman", codec, 25), speed("_measure", "MsPacman", codec, codec, "25")
        figures.append(Figure(name, codec, "held", nbytes / 1e6, "MB", 300))
        limits = {measure: 1.3 if measure.startswith("read") else 0 for measure in SPEEDS}
        print(f"{codec:36}{nbytes / 1e6:9.1f}{time_figures(name, codec, '40,000', times, limits)}", flush=True)


def camera() -> None:
    print("\nA camera that moves, and masks: auto against each distinct frame once in a plain compressed array; of the")
    print("masks, which come to less than an allocator keeps or not, the bytes that the arrays count")
    print(f"{'':36}{'held MB':>9}{'theirs':>9}{'':>8}{'read 32':>15} {'read 256':>15}")
    contests = dict.fromkeys(("CarRacing", "CarRacing x4", "ViZDoom", "ViZDoom x4"), "zstd-3")
    for name, codec in (contests | {"ViZDoom labels": "zstd3"}).items():
        plain = f"frames in {codec}"
        if name.endswith("labels"):
            ours, theirs = (child("_measure", "held", name, contender, "1")["stored"] for contender in ("auto", plain))
        else:
            ours, theirs = held(name, "auto", small=False), held(name, plain, small=False)
        figures.append(Figure(name, "auto", f"held of {plain}", ours / theirs, "x", 1.0))
        line = f"{name + ', ' + plain:36}{ours / 1e6:9.2f}{theirs / 1e6:9.2f}{ours / theirs:7.2f}x"
        limits = dict.fromkeys(SPEEDS[1:], 0 if name.endswith("labels") else 1.2)
        times = speed("_measure", name, "auto", plain, "1")
        print(line + time_figures(name, "auto", plain, times, limits), flush=True)


def noise() -> None:
    print("\nNoise, frames of 84x84: auto against numpy, batches of 256")
    print(f"{'':36}{'of raw':>9}{'write':>15}{'read':>15}")
    nbytes = child("_noise", "held")
    figures.append(Figure("noise", "auto", "held of raw", nbytes["held"] / nbytes["raw"], "x", 1.02))
    times = time_figures("noise", "auto", "numpy's", speed("_noise"), {"write": 1.5, "read": 1.5})
    print(f"{'':36}{nbytes['held'] / nbytes['raw']:8.3f}x{times}", flush=True)


def vectors() -> None:
    print("\nHalfCheetah, 17 float32: auto against SB3, which holds obs and next_obs")
    print(f"{'':26}{'held MB':>9}{'theirs':>9}{'':>8}{'a step of 4':>15} {'read 32':>15} {'read 256':>15}")
    ours, theirs = held("HalfCheetah", "auto", small=False), held("HalfCheetah", "SB3", small=False)
    figures.append(Figure("HalfCheetah", "auto", "held of SB3's", 100 * ours / theirs, "%", 55))
    times = speed("_measure", "HalfCheetah", "auto", "SB3", "1")
    line = f"{'':26}{ours / 1e6:9.2f}{theirs / 1e6:9.2f}{100 * ours / theirs:6.1f} %"
    print(line + time_figures("HalfCheetah", "auto", "SB3's", times, dict.fromkeys(SPEEDS, 1.2)), flush=True)


SECTIONS = {section.__name__: section for section in (atari, million, camera, noise, vectors)}


def main() -> None:
    asked = sys.argv[1:] or list(SECTIONS)
    if unknown := set(asked) - set(SECTIONS):
        sys.exit(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    for name in GAMES:
        stream(name)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    reads = " and ".join(f"{times} batches of {batch}" for batch, times in READS.items())
    print(f"medians of {WRITE_ROUNDS} rounds of {WRITES} writes to a full ring, of {READ_ROUNDS} of {reads}")
    print(f"memory: medians of {HELD_RUNS} processes (one for the million); ! more than {BUSY} cores were others'")
    for section in asked:
        SECTIONS[section]()
    if finish("frames", all_of_it=set(asked) == set(SECTIONS)):
        title = "MsPacman, 40,000 transitions of 4 environments"
        draw(RESULTS / "frames.png", title, "MsPacman", PEERS, OUR_CODECS, REFERENCE)


if __name__ == "__main__":
    main()
