"""Every Atari game that ale-py ships and gymnasium can make: the bytes of a transition in our replay buffers.

    python -m benchmarks.atari [GAME...]         games by their names in gymnasium, such as MsPacman; else all
    python -m benchmarks.atari growth GAME...    by how much a process grows, beside what its buffer counts

A game is played at random by four environments behind SB3's wrappers: 20,000 transitions with stacks of four frames.
What a buffer of each codec says that it holds is a row of `results/atari.csv`. Random transitions and ends of episodes
are read again and compared. Games that have a row are not played again unless they are named. In the end
`results/atari.png` is drawn, and the median and the worst games are printed and kept in `results/atari_summary.csv`.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
from ale_py import roms

from benchmarks._contenders import BUFFER
from benchmarks._measure import Filled, check, held_of
from benchmarks._recordings import atari, record_to
from benchmarks._report import RESULTS, Figure, child, figures, write_csv
from benchmarks._streams import Stream

STACK, STEPS = 4, 5_000
CODECS = ("auto", "delta", "delta-zstd")
FILE = RESULTS / "atari.csv"
# SB3's wrappers want NOOP as the first action; without it among the actions of a game, it is played with all of them.
NO_NOOP = ("Backgammon", "VideoCheckers")
FIELDS = ("game", "transitions", "episodes", "changed", "new", *(f"{c} {of}" for of in ("bytes", "%") for c in CODECS))
ALL = "all games"
Row = dict[str, Any]


def games() -> dict[str, str | None]:
    """The name in gymnasium of every game that ale-py ships; None for a game that has none."""
    gym.register_envs(ale_py)
    specs = [spec for spec in gym.registry.values() if spec.namespace == "ALE" and spec.version == 5]
    names = {spec.kwargs["game"]: spec.name for spec in specs}
    return {rom: names.get(rom) for rom in sorted(roms.get_all_rom_ids())}


def record_game(game: str, folder: Path) -> Stream:
    options = {"full_action_space": True} if game in NO_NOOP else {}
    record_to(folder, partial(atari, game, **options), STACK, STEPS)
    return Stream(folder, STACK)


def measure(game: str) -> Row:
    """Play, fill, check, and forget the recording: a hundred of them are 15 GB."""
    with TemporaryDirectory() as folder:
        stream = record_game(game, Path(folder))
        transitions = stream.steps * stream.envs
        row: Row = {"game": game, "transitions": transitions, "episodes": int(stream.dones.sum()), **frames_of(stream)}
        raw = int(np.prod(stream.item_shape))
        for codec in CODECS:
            filled = Filled(BUFFER + codec, stream, stream.steps)
            check(BUFFER + codec, filled.memory, stream, stream.steps)
            stored = filled.memory.stored / transitions
            row |= {f"{codec} bytes": f"{stored:.1f}", f"{codec} %": f"{100 * stored / raw:.3f}"}
    return row


def frames_of(stream: Stream) -> Row:
    """How a game moves, in %: pixels that differ from the frame before, and frames that were not seen before."""
    changed = [np.mean(stream.frames[t] != stream.frames[t + 1]) for t in range(0, stream.steps, 5)]
    seen = {frame.tobytes() for step in stream.frames[1:] for frame in step}
    share = len(seen) / stream.dones.size
    return {"changed": f"{100 * np.mean(changed):.2f}", "new": f"{100 * share:.1f}"}


def growth(asked: Iterable[str]) -> None:
    """Observations alone, in MB: by how much a process grew, and what the buffer says."""
    print(f"{'':16}{'':12}{'grew MB':>9}{'counted':>9}")
    for game in asked:
        with TemporaryDirectory() as folder:
            record_game(game, Path(folder))
            for codec in CODECS:
                found = child("atari", "held", folder, BUFFER + codec)
                grew, counted = (found["held"] - found["small"]) / 1e6, found["stored"] / 1e6
                print(f"{game:16}{codec:12}{grew:9.2f}{counted:9.2f}{grew / counted:7.2f}x", flush=True)


def read() -> list[Row]:
    if not FILE.exists():
        return []
    with FILE.open(newline="") as source:
        return list(csv.DictReader(source))


def keep(row: Row) -> None:
    """Add a row, or put it in the place of an older one of the game."""
    rows = sorted([old for old in read() if old["game"] != row["game"]] + [row], key=lambda row: row["game"])
    with FILE.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def summary(rows: list[Row]) -> None:
    print(f"\n{len(rows)} games, {STEPS * 4:,} transitions each; % of SB3's with optimize_memory_usage")
    print(f"{'':12}{'median %':>9}{'median B':>10}{'best %':>8}{'worst %':>9}{'worst B':>9}  the worst game")
    for codec in CODECS:
        shares = [float(row[f"{codec} %"]) for row in rows]
        sizes = [float(row[f"{codec} bytes"]) for row in rows]
        worst = max(range(len(rows)), key=shares.__getitem__)
        line = f"{codec:12}{statistics.median(shares):9.2f}{statistics.median(sizes):10.0f}{min(shares):8.2f}"
        print(f"{line}{shares[worst]:9.2f}{sizes[worst]:9.0f}  {rows[worst]['game']}")
        for name, choose in (("median", statistics.median), ("best", min), ("worst", max)):
            figures.append(Figure(ALL, codec, f"{name} of games, held of SB3's", choose(shares), "%"))
            figures.append(Figure(ALL, codec, f"{name} of games, a transition", choose(sizes), "B"))
    figures.append(Figure(ALL, "all", "games", len(rows), ""))
    write_csv(RESULTS / "atari_summary.csv")
    print("\nthe ten that auto holds worst, % of SB3's; changed: pixels a step, %; new: frames not seen before, %")
    print(f"{'':18}{''.join(f'{codec:>12}' for codec in CODECS)}{'changed':>10}{'new':>8}{'episodes':>10}")
    for row in sorted(rows, key=lambda row: -float(row["auto %"]))[:10]:
        shares_of = "".join(f"{float(row[f'{codec} %']):12.2f}" for codec in CODECS)
        print(f"{row['game']:18}{shares_of}{row['changed']:>10}{row['new']:>8}{row['episodes']:>10}")


def draw(rows: list[Row], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = sorted(rows, key=lambda row: -float(row["auto %"]))
    half = -(-len(rows) // 2)
    fig, axes = plt.subplots(1, 2, figsize=(11, 2 + 0.17 * half), layout="constrained", sharex=True)
    for ax, part in zip(axes, (rows[:half], rows[half:]), strict=True):
        # Where auto has chosen delta its dot is inside of delta's square.
        looks = {"delta": ("s", 34, "none", "tab:gray"), "auto": ("o", 14, "tab:red", "tab:red")}
        looks["delta-zstd"] = ("D", 14, "tab:blue", "tab:blue")
        for codec, (marker, size, face, color) in looks.items():
            shares = [float(row[f"{codec} %"]) for row in rows]
            here = [float(row[f"{codec} %"]) for row in part]
            label = f"{codec}, median {statistics.median(shares):.2f} %"
            ax.scatter(here, range(len(part)), s=size, marker=marker, facecolor=face, edgecolor=color, label=label)
            ax.axvline(statistics.median(shares), color=color, linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(part)), [row["game"] for row in part], fontsize=7)
        ax.set(xscale="log", xlabel="observations held, % of SB3's (optimize_memory_usage)", ylim=(half - 0.5, -0.5))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:.0e}"[0] in "25" else "")
        ax.tick_params(axis="x", which="both", labelsize=8)
        ax.grid(alpha=0.3, which="both")
    axes[1].legend(loc="lower right", fontsize=9)
    fig.suptitle(f"{len(rows)} Atari games, {STEPS * 4:,} transitions of 4 environments each, random play")
    fig.savefig(file, dpi=120)


def main() -> None:
    if sys.argv[1:2] == ["growth"]:
        growth(sys.argv[2:])
        return
    known, asked, done = games(), sys.argv[1:], {row["game"] for row in read()}
    if unknown := set(asked) - set(known.values()):
        sys.exit(f"no game {', '.join(sorted(unknown))}")
    for rom in (rom for rom, game in known.items() if game is None):
        print(f"{rom}: not played, ale-py has no environment of it for gymnasium", flush=True)
    failed = []
    for game in asked or [game for game in known.values() if game is not None and game not in done]:
        start = time.process_time()
        try:
            row = measure(game)
        except Exception as error:  # a game that cannot be played does not end the run
            failed.append(f"{game}: {error!r}")
            print(failed[-1], flush=True)
            continue
        keep(row)
        shares = "".join(f"{row[f'{codec} %']:>8}" for codec in CODECS)
        print(f"{game:20}{shares} %{time.process_time() - start:8.1f} s", flush=True)
    rows = read()
    summary(rows)
    draw(rows, RESULTS / "atari.png")
    if failed:
        sys.exit("\n".join(("not measured:", *failed)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["held"]:
        import json

        recording = Stream(Path(sys.argv[2]), STACK)
        print(json.dumps(held_of(recording, sys.argv[3], recording.steps)))
    else:
        main()
