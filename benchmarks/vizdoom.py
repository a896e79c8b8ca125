"""A replay of 100,000 steps of ViZDoom, as colours, as a segmentation, and as both: `nox -s bench -- vizdoom`.

What run-length encoding was tried on first: deathmatches of 256 x 144 pixels, of which the author of sb3-extra-buffers
reports 11 GB of colours, 3.6 GB of masks, and 150 MB of masks by run lengths. Each buffer is filled by a process of its
own, which plays the same games at random; memory is what it has grown by. SB3's is counted; its buffer of Dict
observations has no `optimize_memory_usage` and holds every observation twice.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from benchmarks._report import RESULTS, Figure, child, figures, write_csv
from examples.eval_memory_saving import BASELINE, OURS, THEIRS
from examples.train_vizdoom import SIZE

TRANSITIONS, QUICK = 100_000, 2_000
PIXELS = math.prod(SIZE)
# What is seen: what SB3 holds of a step, in bytes, and the buffers that are compared.
SEEN: dict[str, tuple[int, list[tuple[str, str]]]] = {
    "rgb": (3 * PIXELS, [(OURS, "auto"), (OURS, "delta-zstd")]),
    "labels": (PIXELS, [(THEIRS, "rle-jit"), (OURS, "auto"), (OURS, "delta-zstd")]),
    "both": (2 * 4 * PIXELS, [(OURS, "auto")]),
}
NAMES = {"rgb": "colours", "labels": "segmentation", "both": "both, as a Dict"}
REPORTED = {("rgb", BASELINE): 11e9, ("labels", BASELINE): 3.6e9, ("labels", f"{THEIRS} rle-jit"): 150e6}


def row(see: str, contender: str, says: float, real: float, raw: float) -> None:
    figures.append(Figure(see, contender, "says", says / 1e6, "MB"))
    if not math.isnan(real):
        figures.append(Figure(see, contender, "held", real / 1e6, "MB"))
        figures.append(Figure(see, contender, "held of SB3's", 100 * real / raw, "%"))
    told = REPORTED.get((see, contender))
    held = "" if math.isnan(real) else f"{real / 1e6:12,.0f}{100 * real / raw:9.2f}"
    print(
        f"  {contender:30}{says / 1e6:10,.0f}{held:21}{'' if told is None else f'{told / 1e6:12,.0f}'}".rstrip(),
        flush=True,
    )


def draw(file: Path) -> None:
    """Bars by what is seen, on a scale of powers of ten."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    held = {(f.stream, f.contender): f.value for f in figures if f.measure == "says"}
    held |= {(f.stream, f.contender): f.value for f in figures if f.measure == "held"}
    counts = [sum(see == stream for stream, _ in held) for see in SEEN]
    fig, axes = plt.subplots(len(SEEN), figsize=(9, 5.5), sharex=True, layout="constrained", height_ratios=counts)
    for ax, see in zip(axes, SEEN, strict=True):
        mine = {who: value for (stream, who), value in held.items() if stream == see}
        colours = ["0.6" if who == BASELINE else "tab:red" if who.startswith(OURS) else "tab:blue" for who in mine]
        bars = ax.barh(list(mine), list(mine.values()), color=colours)
        ax.bar_label(bars, [f"{value:,.0f} MB" for value in mine.values()], padding=3, fontsize=8)
        ax.set(xscale="log", title=NAMES[see])
        ax.title.set(size=9, ha="left", position=(0, 1))
        ax.invert_yaxis()
        ax.margins(x=0.2)
        ax.tick_params(labelsize=8)
    axes[-1].set_xlabel("memory, MB")
    axes[-1].xaxis.set_major_formatter("{x:,g}")
    fig.suptitle(f"{TRANSITIONS:,} steps of ViZDoom's deathmatch, {SIZE[1]} x {SIZE[0]} pixels")
    fig.savefig(file, dpi=120)


def main() -> None:
    quick = "--quick" in sys.argv
    count = QUICK if quick else TRANSITIONS
    print(f"a replay of {count:,} steps of 4 environments, {SIZE[1]} x {SIZE[0]}; MB")
    print(f"  {'':30}{'says':>10}{'held':>12}{'% of SB3':>9}{'reported':>12}")
    for see, (nbytes, contenders) in SEEN.items():
        print(NAMES[see])
        raw = nbytes * count
        row(see, BASELINE, raw, math.nan, raw)
        for who, codec in contenders:
            found = child("_doom", see, who, codec, str(count))
            if "says" in found:
                row(see, f"{who} {codec}", found["says"], found["real"], raw)
    if not quick:
        write_csv(RESULTS / "vizdoom.csv")
        draw(RESULTS / "vizdoom.png")


if __name__ == "__main__":
    main()
