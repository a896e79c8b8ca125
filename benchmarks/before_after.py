"""Some of our rows of `frames`, `replay` and `device`, with the code of another commit and with this tree's.

    python -m benchmarks.before_after [COMMIT] [ROUNDS] [words that a row has to have]

The other commit, or the last one, is checked out beside this tree, with its own benchmarks, and its packages are found
before those that are installed. Processes of the two measure a row in turns. A row has the medians of all rounds, in
us, and their ratio; `slower` marks what took more than 1.05 times as long in the median and longer in every round than
in any round before, `faster` the opposite. `results/before_after.csv` has all of it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._contenders import BUFFER, OUR_CODECS
from benchmarks._devices import GPU
from benchmarks._recordings import ALONE, GAMES, stream
from benchmarks._report import RESULTS, SPEEDS, Figure, figures, write_csv
from benchmarks._streams import CACHE

ROOT = Path(__file__).parent.parent
ROUNDS, NOTICED = 3, 1.05
# Of `_measure`: a stream and a contender, which is measured beside another one of itself, so that both find the caches
# as a training leaves them: full of something else.
MEASURED = (
    *(("MsPacman", codec) for codec in OUR_CODECS),
    ("Pong", "delta"),
    ("CarRacing x4", "auto"),
    ("ViZDoom labels", "auto"),
    ("HalfCheetah", "auto"),
    *(("MsPacman", BUFFER + codec) for codec in ("auto", "delta-zstd", "none")),
    *((game + ALONE, BUFFER + "auto") for game in ("MsPacman", "HalfCheetah")),
)
# What `_measure` or `_devices` is told, by the name of the row.
ROWS: dict[str, tuple[str, ...]] = {
    **{f"{name}, {who}": ("_measure", "speed", name, who, who, "1") for name, who in MEASURED},
    **{GPU + codec: ("_devices", "speed", GPU + codec) for codec in ("delta", "rle")},
}


def packages(tree: Path) -> str:
    """Returns where the packages of a tree are, as a path to look for modules on."""
    return os.pathsep.join(str(src) for src in sorted([*tree.glob("packages/*/src"), *tree.glob("adapters/*/src")]))


def measured(tree: Path, arguments: tuple[str, ...]) -> dict[str, float]:
    """Returns the seconds that the code of this tree takes, by measure."""
    command = [sys.executable, "-m", f"benchmarks.{arguments[0]}", *arguments[1:]]
    done = subprocess.run(
        command, cwd=tree, env=os.environ | {"PYTHONPATH": packages(tree)}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed in {tree}:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {measure: found[measure][0] for measure in SPEEDS}


def compare(name: str, before: list[dict[str, float]], after: list[dict[str, float]]) -> None:
    line = f"{name:40}"
    for measure in SPEEDS:
        old, new = ([found[measure] * 1e6 for found in runs] for runs in (before, after))
        ratio = statistics.median(new) / statistics.median(old)
        mark = "  "
        if ratio > NOTICED and min(new) > max(old):
            mark = " slower"
        elif ratio < 1 / NOTICED and max(new) < min(old):
            mark = " faster"
        line += f"{statistics.median(old):8.0f}{statistics.median(new):7.0f}{ratio:6.2f}x{mark:8}"
        for when, times in (("before", old), ("after", new)):
            figures.append(Figure(name, when, measure, statistics.median(times), "us"))
        figures.append(Figure(name, "after", f"{measure} of before", ratio, "x"))
    print(line.rstrip(), flush=True)


def main() -> None:
    commit, *more = sys.argv[1:] or ["HEAD"]
    rounds = int(more.pop(0)) if more and more[0].isdigit() else ROUNDS
    chosen = {name: arguments for name, arguments in ROWS.items() if all(word in name for word in more)}
    for name in GAMES:
        stream(name)  # recorded once, before anything is timed
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "before")
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], check=True, capture_output=True)
        try:
            (tree / CACHE.parent.name).mkdir()
            (tree / CACHE.relative_to(ROOT)).symlink_to(CACHE)
            print(f"before: {commit}; after: this tree; medians of {rounds} processes each, in us")
            print(f"{'':40}" + "".join(f"{title:>21}{'':8}" for title in ("add", "read 32", "read 256")))
            for name, arguments in chosen.items():
                runs: dict[Path, list[dict[str, float]]] = {tree: [], ROOT: []}
                for turn in range(rounds):
                    for side in (tree, ROOT) if turn % 2 else (ROOT, tree):
                        runs[side].append(measured(side, arguments))
                compare(name, runs[tree], runs[ROOT])
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True, capture_output=True)
    if chosen == ROWS:
        write_csv(RESULTS / "before_after.csv")


if __name__ == "__main__":
    main()
