"""SB3's replay buffer and those that stand in for it, on MsPacman, and with one environment: `nox -s bench -- replay`.

Memory is the growth of a process that fills one buffer and does nothing else; times are ratios to SB3 in the same
process, in turns. `!` marks those taken while others kept the machine busy; a missed target is said and not raised.
`results/replay.csv` and `results/replay.png` are written if nothing is marked.
"""

from __future__ import annotations

import os

from benchmarks._contenders import BUFFER, BUFFER_CODECS, GATHER, REFERENCE, WRONG_AT_ENDS
from benchmarks._measure import READ_ROUNDS, WRITE_ROUNDS
from benchmarks._recordings import ALONE
from benchmarks._recordings import stream as open_stream
from benchmarks._report import (
    BUSY,
    HELD_RUNS,
    RESULTS,
    SPEEDS,
    Figure,
    draw,
    figures,
    finish,
    held,
    speed,
    time_figures,
)

GAME, VECTORS = "MsPacman", "HalfCheetah"
OURS = [BUFFER + codec for codec in BUFFER_CODECS]
CONTENDERS = [
    REFERENCE,
    "SB3",
    GATHER,
    *(f"extra-buffers {codec}" for codec in ("zstd-3", "lz4-frame/1", "rle-jit")),
    *OURS,
]
LIMITS = {BUFFER + "auto": {"held": 1.0, "write": 0.8, "read 32": 0.6, "read 256": 0.6}}
# With one environment, against SB3's buffer as it is made by default.
ALONE_LIMITS = {
    (GAME, BUFFER + "auto"): {"write": 1.2},
    (GAME, BUFFER + "none"): {"write": 1.05, "read 32": 1.05, "read 256": 1.05},
    (VECTORS, BUFFER + "auto"): {"write": 1.05, "read 32": 1.05, "read 256": 1.05},
}


def compare(stream: str, contender: str, against: str, limits: dict[str, float], head: str) -> None:
    """A row: the times of adds and samples, and of ours the ratio of samples to a gather."""
    times = speed("_measure", stream, contender, against, "1")
    line = head + time_figures(stream, contender, "SB3's", times, {m: limits.get(m, 0) for m in SPEEDS})
    if contender in OURS:
        of_gather = speed("_measure", stream, contender, GATHER, "1")
        for measure in SPEEDS[1:]:
            _, ratio, others = of_gather[measure]
            figures.append(Figure(stream, contender, f"{measure} of a gather's", ratio, "x", busy=others > BUSY))
            line += f"{ratio:8.2f}x{'!' if others > BUSY else ' '}"
    print(line.rstrip(), flush=True)


def main() -> None:
    for name in (GAME, VECTORS):
        open_stream(name)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    print(f"medians of {WRITE_ROUNDS} rounds of adds, {READ_ROUNDS} of samples, and {HELD_RUNS} processes")
    print(f"\n{GAME}: 40,000 transitions of 4 environments, against {REFERENCE}; times in us")
    columns = f"{'sample 32':>15} {'sample 256':>15} {'32, 256 of a gather':>20}"
    print(f"{'':34}{'held MB':>9}{'':>9}{'add 4':>15} {columns}")
    for contender in CONTENDERS:
        limits, nbytes = LIMITS.get(contender, {}), held(GAME, contender)
        share = 100 * nbytes / held(GAME, REFERENCE)
        figures.append(Figure(GAME, contender, "held", nbytes / 1e6, "MB"))
        figures.append(Figure(GAME, contender, "held of SB3's", share, "%", limits.get("held")))
        line = f"{contender + '*' * (contender in WRONG_AT_ENDS):34}{nbytes / 1e6:9.1f}{share:7.2f} %"
        compare(GAME, contender, REFERENCE, limits, line)
    print("* next_obs is not the true one where an episode ends")
    print(f"\none environment, against SB3\n{'':52}{'add 1':>15} {columns}")
    for name in (GAME, VECTORS):
        for contender in ("SB3", BUFFER + "auto", BUFFER + "none", BUFFER + "delta"):
            limits = ALONE_LIMITS.get((name, contender), {})
            compare(name + ALONE, contender, "SB3", limits, f"{name + ', ' + contender:52}")
    if finish("replay", all_of_it=True):
        draw(RESULTS / "replay.png", f"{GAME}, 40,000 transitions of 4 environments", GAME, CONTENDERS, OURS, REFERENCE)


if __name__ == "__main__":
    main()
