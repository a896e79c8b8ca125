"""What benchmarks of buffers found: measured in processes of their own, kept as figures, said against their targets."""

from __future__ import annotations

import csv
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._measure import READS
from benchmarks._runs import note

HELD_RUNS, TRIES, BUSY = 3, 3, 0.25
RESULTS = Path(__file__).parent / "results"
SPEEDS = ("write", *(f"read {batch}" for batch in READS))
NO_TIMES = {name: [math.nan, math.nan, 0.0] for name in (*SPEEDS, "read", "collect", "epochs", "rollout")}
NOTHING: dict[str, Any] = NO_TIMES | dict.fromkeys(("held", "small", "raw", "stored"), math.nan)


class Figure(NamedTuple):
    stream: str
    contender: str
    measure: str
    value: float
    unit: str
    limit: float | None = None
    busy: bool = False

    @property
    def written(self) -> str:
        """The value as it is kept: a count in all digits, what was measured in four."""
        is_count = not self.unit and float(self.value).is_integer()
        return f"{self.value:.0f}" if is_count else f"{self.value:.4g}"

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        if self.busy:
            return "UNSURE: busy machine"
        return "met" if self.value <= self.limit else "MISSED"  # a figure that could not be had is not a number


figures: list[Figure] = []


def child(module: str, *arguments: str) -> dict[str, Any]:
    """What a process of its own found; nothing but NaN if it failed, so that one contender does not end the run."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        print(f"    failed: {' '.join(arguments)}: {why}", flush=True)
        return NOTHING
    return json.loads(done.stdout.splitlines()[-1])


@cache
def held(stream: str, contender: str, times_round: int = 1, small: bool = True, steady: bool = False) -> float:
    """Bytes, with or without all that is not an observation."""
    arguments = ("held", stream, contender, str(times_round), *(("steady",) if steady else ()))
    runs = [child("_measure", *arguments) for _ in range(1 if steady or times_round > 1 else HELD_RUNS)]
    return statistics.median(run["held"] - (0 if small else run["small"]) for run in runs)


@cache
def speed(module: str, *arguments: str) -> dict[str, Any]:
    """Seconds, and how many times the other's they are, tried again while others use the machine.

    Which try counts is decided by how busy the others were, not by what came out.
    """
    tries: list[dict[str, Any]] = []
    while len(tries) < TRIES and all(busiest(found) > BUSY for found in tries):
        tries.append(child(module, "speed", *arguments))
    return min(tries, key=busiest)


def busiest(found: dict[str, Any]) -> float:
    return max(times[2] for times in found.values() if isinstance(times, list))


def time_figures(name: str, contender: str, of: str, found: dict[str, Any], limits: dict[str, float]) -> str:
    """Keep the figures of a speed, and say them in a line."""
    line = ""
    for measure, limit in limits.items():
        seconds, ratio, others = found[measure]
        busy = others > BUSY
        figures.append(Figure(name, contender, measure, seconds * 1e6, "us", busy=busy))
        figures.append(Figure(name, contender, f"{measure} of {of}", ratio, "x", limit or None, busy))
        line += f"{seconds * 1e6:8.0f}{ratio:6.2f}x{'!' if busy else ' '}"
    return line.rstrip()


def targets() -> None:
    print("\ntargets")
    for figure in figures:
        if figure.limit is not None:
            name = f"{figure.stream}, {figure.contender}: {figure.measure}"
            limit = f"<= {figure.limit:.2f} {figure.unit}"
            print(f"{name:53}{figure.value:8.2f} {figure.unit:3}{limit:>13}  {figure.verdict}")


def finish(name: str, *, all_of_it: bool) -> bool:
    """Say which targets are met, and write all figures to a file; says whether that was done."""
    targets()
    if any(figure.busy for figure in figures):
        print("\nthe machine was busy: figures marked ! are not to be quoted, and no results are written")
        return False
    if all_of_it:
        RESULTS.mkdir(exist_ok=True)
        write_csv(RESULTS / f"{name}.csv")
    return all_of_it


def write_csv(file: Path) -> None:
    with file.open("w", newline="") as sink:
        rows = csv.writer(sink, lineterminator="\n")
        rows.writerow((*Figure._fields, "verdict"))
        rows.writerows((*figure[:3], figure.written, *figure[4:], figure.verdict) for figure in figures)
    note(file)


def draw(
    file: Path,
    title: str,
    stream: str,
    contenders: Sequence[str],
    ours: Sequence[str],
    reference: str,
    read: str = "read 256",
) -> None:
    """What contenders hold, over the time of a read; ours are red."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    chosen = {(f.contender, f.measure): f.value for f in figures if f.stream == stream}
    fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    points = sorted((chosen[who, f"{read} of SB3's"], chosen[who, "held of SB3's"], who) for who in contenders)
    for i, (x, y, contender) in enumerate(points):
        ax.scatter(x, y, color="tab:red" if contender in ours else "tab:blue")
        # Neighbours' names above and below, or they would cover each other.
        ax.annotate(contender, (x, y), xytext=(6, -12 if i % 2 else 4), textcoords="offset points", fontsize=8)
    ax.set(xscale="log", yscale="log", title=title)
    ax.set(xlabel=f"time to {read}, {reference} = 1", ylabel=f"memory held, % of {reference}")
    for axis in (ax.xaxis, ax.yaxis):  # 0.3 instead of 3 x 10^-1
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:.0e}"[0] in "235" else "")
    ax.margins(x=0.25)
    ax.grid(alpha=0.3, which="both")
    fig.savefig(file, dpi=120)
