"""Memory and latency of every codec and level that sb3-extra-buffers lists, ours and its own.

`nox -s bench -- codec_table` runs `examples.eval_memory_saving` (replay) and `examples.eval_memory_loading` (rollout),
which say what is measured, and keeps what they find in `results/memory_saving.csv` and `results/memory_loading.csv`,
drawn in `results/memory.png`. `python -m benchmarks.codec_table saving`, `loading` or `drawing` does one of the three.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._report import RESULTS, Figure, figures, write_csv
from examples.eval_memory_loading import measure_loading
from examples.eval_memory_saving import (
    BASELINE,
    ENVS,
    LISTED,
    OURS,
    OURS_ALONE,
    THEIRS,
    Measure,
    check,
    compare,
    measure_saving,
    record,
    show,
)

TRANSITIONS = 10_000
PARTS: dict[str, tuple[Measure, str]] = {"saving": (measure_saving, "add"), "loading": (measure_loading, "load")}


def run(part: str) -> None:
    work, verb = PARTS[part]
    figures.clear()
    with TemporaryDirectory() as folder:
        record(Path(folder), TRANSITIONS // ENVS, None)
        print(f"{part}: {TRANSITIONS:,} transitions of MsPacman")
        rows = show(compare(work, [*LISTED, *OURS_ALONE], Path(folder), TRANSITIONS // ENVS), verb)
    raw = rows[0][1].says
    for codec, *costs in rows:
        for who, cost in zip((BASELINE if codec == BASELINE else OURS, THEIRS), costs, strict=True):
            if math.isnan(cost.says):
                continue
            figures.append(Figure(who, codec, "says", cost.says / 1e6, "MB"))
            figures.append(Figure(who, codec, "held", cost.real / 1e6, "MB"))
            figures.append(Figure(who, codec, "held of SB3's", 100 * cost.real / raw, "%"))
            figures.append(Figure(who, codec, verb, cost.seconds, "s"))
    write_csv(RESULTS / f"memory_{part}.csv")
    check(rows)


def kept(part: str) -> dict[tuple[str, str, str], float]:
    """Figures by library, codec and measure."""
    with (RESULTS / f"memory_{part}.csv").open() as source:
        return {
            (row["stream"], row["contender"], row["measure"]): float(row["value"]) for row in csv.DictReader(source)
        }


def draw(file: Path) -> None:
    """A line for each codec; what a library says that it holds is a ring, what it takes a disc."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    codecs = [BASELINE, *LISTED, *OURS_ALONE]
    heights = {codec: i for i, codec in enumerate(codecs)}
    titles = {
        ("saving", "held"): "replay, MB",
        ("saving", "add"): "all adds, s of CPU",
        ("loading", "held"): "rollout, MB",
        ("loading", "load"): "one epoch of reads, s of CPU",
    }
    fig, axes = plt.subplots(1, len(titles), figsize=(13, 8.5), sharey=True, layout="constrained")
    for ax, ((part, measure), title) in zip(axes, titles.items(), strict=True):
        found = kept(part)
        for who, colour, shift in ((BASELINE, "0.3", 0), (OURS, "tab:red", -0.16), (THEIRS, "tab:blue", 0.16)):
            there = [codec for codec in codecs if (who, codec, measure) in found]
            at = [heights[codec] + shift for codec in there]
            ax.scatter([found[who, c, measure] for c in there], at, s=26, color=colour, label=who)
            if measure == "held":
                said = [found[who, c, "says"] for c in there]
                ax.scatter(said, at, s=40, facecolors="none", edgecolors=colour, label=f"{who}, as it says")
        ax.set(xscale="log", title=title)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")  # which would write over each other
        ax.grid(alpha=0.3)
    axes[0].set_yticks(range(len(codecs)), codecs)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    fig.suptitle(f"{TRANSITIONS:,} transitions of MsPacman, 4 frames each: every codec and level")
    fig.savefig(file, dpi=120)


def main() -> None:
    asked = sys.argv[1:] or [*PARTS, "drawing"]
    for part in PARTS:
        if part in asked:
            run(part)
    if "drawing" in asked:
        draw(RESULTS / "memory.png")


if __name__ == "__main__":
    main()
