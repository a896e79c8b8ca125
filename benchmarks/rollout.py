"""SB3's rollout buffer and those that stand in for it, on MsPacman: `nox -s bench -- rollout`.

A rollout is collected (`reset`, `add`, the returns) and read for four epochs of minibatches, as PPO does. Memory is the
growth of a process that fills one buffer; times are ratios to SB3 in the same process, in turns. `!` marks those taken
while others kept the machine busy; a missed target is said and not raised. `results/rollout.csv` and
`results/rollout.png` are written if nothing is marked.
"""

from __future__ import annotations

import os
import statistics

from benchmarks._recordings import stream
from benchmarks._report import BUSY, HELD_RUNS, RESULTS, Figure, child, draw, figures, finish, speed, time_figures
from benchmarks._rollouts import BATCH, CONTENDERS, EPOCHS, GAME, OUR_CODECS, OURS, REFERENCE, ROUNDS

SHAPES = {"PPO": (128, 8), "large": (2048, 16)}
LIMITS = {OURS + "auto": {"held": 2.0, "rollout": 1.0}}
MEASURES = ("collect", "epochs", "rollout")


def held(steps: int, envs: int, contender: str) -> float:
    runs = (child("_rollouts", "held", str(steps), str(envs), contender)["held"] for _ in range(HELD_RUNS))
    return statistics.median(runs)


def main() -> None:
    stream(GAME)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    for name, (steps, envs) in SHAPES.items():
        print(f"\n{GAME}: {steps} x {envs} steps, {EPOCHS} epochs of batches of {BATCH}, beside {REFERENCE}")
        print(f"medians of {ROUNDS[steps * envs]} rounds, of {HELD_RUNS} processes; times in us")
        print(f"{'':34}{'held MB':>9}{'':>9}{'collect':>15} {'epochs':>15} {'both':>15}")
        plain = held(steps, envs, REFERENCE)
        for contender in CONTENDERS:
            limits = LIMITS.get(contender, {})
            nbytes = plain if contender == REFERENCE else held(steps, envs, contender)
            share = 100 * nbytes / plain
            figures.append(Figure(name, contender, "held", nbytes / 1e6, "MB"))
            figures.append(Figure(name, contender, "held of SB3's", share, "%", limits.get("held")))
            times = speed("_rollouts", str(steps), str(envs), contender)
            line = f"{contender:34}{nbytes / 1e6:9.1f}{share:7.2f} %"
            wanted = {measure: limits.get(measure, 0) for measure in MEASURES}
            print(line + time_figures(name, contender, "SB3's", times, wanted), flush=True)
    if finish("rollout", all_of_it=True):
        title = f"{GAME}, rollouts of 2048 steps of 16 environments"
        ours = [OURS + codec for codec in OUR_CODECS]
        draw(RESULTS / "rollout.png", title, "large", list(CONTENDERS), ours, REFERENCE, "rollout")


if __name__ == "__main__":
    main()
