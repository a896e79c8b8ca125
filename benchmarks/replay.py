"""SB3's replay buffer and those that stand in for it, on MsPacman: `nox -s bench -- replay`.

Memory is the growth of a process that fills one buffer and does nothing else; times are ratios to SB3 in the same
process, in turns. `!` marks those taken while others kept the machine busy; a missed target is said and not raised.
`results/replay.csv` and `results/replay.png` are written if nothing is marked.
"""

from __future__ import annotations

import os

from benchmarks._contenders import BUFFER, BUFFER_CODECS, REFERENCE, WRONG_AT_ENDS
from benchmarks._measure import READ_ROUNDS, WRITE_ROUNDS
from benchmarks._recordings import stream
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

GAME = "MsPacman"
OURS = [BUFFER + codec for codec in BUFFER_CODECS]
CONTENDERS = [REFERENCE, "SB3", *(f"extra-buffers {codec}" for codec in ("zstd-3", "lz4-frame/1", "rle-jit")), *OURS]
LIMITS = {BUFFER + "auto": {"held": 1.0, "write": 0.8, "read 32": 0.6, "read 256": 0.6}}


def main() -> None:
    stream(GAME)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    print(f"medians of {WRITE_ROUNDS} rounds of adds, {READ_ROUNDS} of samples, and {HELD_RUNS} processes")
    print(f"\n{GAME}: 40,000 transitions of 4 environments, against {REFERENCE}; times in us")
    print(f"{'':34}{'held MB':>9}{'':>9}{'add 4':>15} {'sample 32':>15} {'sample 256':>15}")
    for contender in CONTENDERS:
        limits, nbytes = LIMITS.get(contender, {}), held(GAME, contender)
        share = 100 * nbytes / held(GAME, REFERENCE)
        figures.append(Figure(GAME, contender, "held", nbytes / 1e6, "MB"))
        figures.append(Figure(GAME, contender, "held of SB3's", share, "%", limits.get("held")))
        times = speed("_measure", GAME, contender, REFERENCE, "1")
        line = f"{contender + '*' * (contender in WRONG_AT_ENDS):34}{nbytes / 1e6:9.1f}{share:7.2f} %"
        wanted = {measure: limits.get(measure, 0) for measure in SPEEDS}
        print(line + time_figures(GAME, contender, "SB3's", times, wanted), flush=True)
    print("* next_obs is not the true one where an episode ends")
    if finish("replay", all_of_it=True):
        draw(RESULTS / "replay.png", f"{GAME}, 40,000 transitions of 4 environments", GAME, CONTENDERS, OURS, REFERENCE)


if __name__ == "__main__":
    main()
