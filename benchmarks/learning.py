"""Learning curves of trainings with SB3's buffers and with ours: the same returns, and the same weights all the way.

    python -m benchmarks.learning
    python -m benchmarks.learning train <DQN or PPO> <game> <stock or compressed> [--steps N] [--seed N] [--every N]
    python -m benchmarks.learning join

`train` is one training on one core, from a seed to its last step. Every so many steps it adds a row to a file: the mean
return of the last hundred episodes, and a hash of all weights. `join` puts the two trainings of every pair side by side
in `results/learning.csv` and on each other in `results/learning.png`, and fails if any row of a pair differs. Pairs
that were joined before, and are not in the folder, stay. With neither, the trainings of `ASKED` are run that are not
there yet, the two of a pair at a time, and joined. `results/learning_summary.csv` has where they came to.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._streams import CACHE

RUNS = CACHE.parent / "learning"
KINDS = ("stock", "compressed")
ASKED = {("PPO", "Pong"): 500_000, ("DQN", "MsPacman"): 100_000}
EVERY = 5_120


class Row(NamedTuple):
    """A training after some steps. `held` is the bytes of the observations in its buffer, as the buffer counts them."""

    timesteps: int
    mean_return: float
    weights: str
    held: int


class Pair(NamedTuple):
    """Both trainings of one algorithm on one game from one seed."""

    name: str
    stock: list[Row]
    compressed: list[Row]

    def differences(self) -> list[int]:
        """The steps after which one had other returns or other weights, or one has a row and the other none."""
        rows: list[dict[int, tuple[str, str]]] = []
        for run in (self.stock, self.compressed):
            rows.append({row.timesteps: (f"{row.mean_return:.6f}", row.weights) for row in run})
        return sorted(step for step in rows[0].keys() | rows[1].keys() if rows[0].get(step) != rows[1].get(step))


def train(algorithm: str, game: str, kind: str, steps: int, seed: int, every: int, folder: Path) -> None:
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.training import dqn, ppo

    class Log(BaseCallback):
        """Writes rows between learning and playing, when the weights are those of a whole number of updates."""

        def __init__(self, sink: Any) -> None:
            super().__init__()
            self.rows = csv.writer(sink, lineterminator="\n")
            self.sink, self.due, self.held, self.began = sink, 0, 0, time.perf_counter()

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if self.num_timesteps >= self.due:  # here, as a rollout buffer is emptied before the next rollout starts
                self.held = held(self.model)

        def _on_rollout_start(self) -> None:
            if self.num_timesteps >= self.due:
                self.write()

        def _on_training_end(self) -> None:
            self.write()

        def write(self) -> None:
            returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            mean = float(np.mean(returns)) if returns else float("nan")
            digest = blake2b(digest_size=16)
            for weight in self.model.policy.state_dict().values():
                digest.update(weight.numpy().tobytes())
            self.rows.writerow((self.num_timesteps, f"{mean:.6f}", digest.hexdigest(), self.held))
            self.sink.flush()
            self.due = self.num_timesteps + every
            pace = self.num_timesteps / (time.perf_counter() - self.began)
            print(f"{self.num_timesteps:9,} steps {mean:9.2f} {pace:7.0f} steps/s", file=sys.stderr, flush=True)

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    model = {"DQN": dqn, "PPO": ppo}[algorithm](kind == "compressed", game, seed)
    with file_of(folder, algorithm, game, seed, kind).open("w", newline="") as sink:
        csv.writer(sink, lineterminator="\n").writerow(Row._fields)
        model.learn(steps, callback=Log(sink))


def train_pair(algorithm: str, game: str, folder: Path) -> None:
    """Both trainings at a time, each in a process of its own; one that has come to its end is not run again."""
    steps, running = ASKED[algorithm, game], []
    for kind in KINDS:
        file = file_of(folder, algorithm, game, 0, kind)
        if file.exists() and read(file)[-1].timesteps >= steps:
            continue
        arguments = ["--folder", str(folder), "train", algorithm, game, kind, "--steps", str(steps)]
        command = [sys.executable, "-m", "benchmarks.learning", *arguments]
        running.append(subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}))
    codes = [process.wait() for process in running]
    if any(codes):
        sys.exit(f"a training of {algorithm} on {game} failed")


def file_of(folder: Path, algorithm: str, game: str, seed: int, kind: str) -> Path:
    return folder / f"{algorithm} {game} seed {seed} {kind}.csv"


def held(model: Any) -> int:
    buffer = getattr(model, "replay_buffer", None) or model.rollout_buffer
    if hasattr(buffer, "memory_usage"):
        return buffer.memory_usage().stored
    return buffer.observations.nbytes + getattr(buffer, "next_observations", np.empty(0)).nbytes


def read(file: Path) -> list[Row]:
    with file.open(newline="") as source:
        rows = list(csv.DictReader(source))
    return [as_row(row) for row in rows]


def as_row(row: dict[str, str]) -> Row:
    return Row(int(row["timesteps"]), float(row["mean_return"]), row["weights"], int(row["held"]))


def pairs(folder: Path) -> list[Pair]:
    """Trainings of which both are there."""
    found = []
    for stock in sorted(folder.glob(f"* {KINDS[0]}.csv")):
        compressed = stock.with_name(stock.name.replace(f" {KINDS[0]}.csv", f" {KINDS[1]}.csv"))
        if compressed.exists():
            found.append(Pair(stock.stem.removesuffix(f" {KINDS[0]}"), read(stock), read(compressed)))
    return found


def earlier(joined: Path) -> list[Pair]:
    """Pairs that `join` has written to a table."""
    found: dict[str, Pair] = {}
    if joined.exists():
        with joined.open(newline="") as source:
            for row in csv.DictReader(source):
                pair = found.setdefault(row["training"], Pair(row["training"], [], []))
                for kind, run in zip(KINDS, pair[1:], strict=True):
                    of_kind = {"timesteps": row["timesteps"]} | {f: row[f"{f} {kind}"] for f in Row._fields[1:]}
                    run.append(as_row(of_kind))
    return list(found.values())


def join(folder: Path) -> None:
    found = pairs(folder)
    if not found:
        sys.exit(f"no pair of trainings in {folder}")
    for pair in found:
        if differ := pair.differences():
            sys.exit(f"{pair.name}: {len(differ)} rows differ, the first after {differ[0]:,} steps")
        last, updates = pair.stock[-1], len({row.weights for row in pair.stock})
        print(f"{pair.name}: {len(pair.stock)} rows to {last.timesteps:,} steps, the same in both trainings")
        print(f"  {updates} sets of weights; mean return of the last 100 episodes {last.mean_return:.2f}")
        print(f"  observations: {megabytes(pair)}")

    from benchmarks._report import RESULTS, Figure, figures, write_csv

    joined = RESULTS / "learning.csv"
    again = {pair.name for pair in found}
    found += [pair for pair in earlier(joined) if pair.name not in again]
    found.sort(key=lambda pair: -pair.stock[-1].timesteps)
    new = joined.with_suffix(".new")  # put in place in one step: it is all that there is of the pairs that stay
    with new.open("w", newline="") as sink:
        rows = csv.writer(sink, lineterminator="\n")
        rows.writerow(("training", "timesteps", *(f"{field} {kind}" for field in Row._fields[1:] for kind in KINDS)))
        for pair in found:
            for stock, ours in zip(pair.stock, pair.compressed, strict=True):
                sides = (side for both in zip(stock[1:], ours[1:], strict=True) for side in both)
                rows.writerow((pair.name, stock.timesteps, *sides))
    new.replace(joined)
    for pair in found:
        last = pair.stock[-1]
        same = {"steps": last.timesteps, "rows": len(pair.stock), "mean return": last.mean_return}
        figures.extend(Figure(pair.name, "both", measure, value, "") for measure, value in same.items())
        for kind, run in zip(KINDS, pair[1:], strict=True):
            figures.append(Figure(pair.name, kind, "observations", max(row.held for row in run) / 1e6, "MB"))
    write_csv(RESULTS / "learning_summary.csv")
    draw(found, RESULTS / "learning.png")


def megabytes(pair: Pair) -> str:
    stock, ours = (max(row.held for row in run) / 1e6 for run in (pair.stock, pair.compressed))
    return f"{stock:,.1f} MB stock, {ours:,.2f} MB compressed"


def draw(found: list[Pair], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, len(found), figsize=(6 * len(found) + 1, 4.5), layout="constrained", squeeze=False)
    for ax, pair in zip(axes[0], found, strict=True):
        curves = {"SB3's buffer": (pair.stock, "tab:blue", 7, 0.35), "compressed": (pair.compressed, "tab:red", 1.5, 1)}
        for label, (run, color, width, alpha) in curves.items():
            steps, returns = [row.timesteps for row in run], [row.mean_return for row in run]
            ax.plot(steps, returns, color=color, linewidth=width, alpha=alpha, label=label)
        same = f"{len(pair.stock)} of {len(pair.stock)} hashes of the weights are the same"
        ax.set_title(f"{pair.name}\n{same}\nobservations in the buffer: {megabytes(pair)}", fontsize=10)
        ax.set(xlabel="steps", ylabel="mean return of the last 100 episodes")
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        ax.grid(alpha=0.3)
        ax.legend(loc="upper left")
    fig.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning")
    parser.add_argument("--folder", type=Path, default=RUNS, help="where rows of single trainings are")
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("train")
    one.add_argument("algorithm", choices=("DQN", "PPO"))
    one.add_argument("game")
    one.add_argument("kind", choices=KINDS)
    one.add_argument("--steps", type=int, default=ASKED["PPO", "Pong"])
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--every", type=int, default=EVERY)
    commands.add_parser("join")
    asked = vars(parser.parse_args())
    if (command := asked.pop("command")) == "train":
        train(**asked)
        return
    if command is None:
        for pair in ASKED:
            train_pair(*pair, asked["folder"])
    join(asked["folder"])


if __name__ == "__main__":
    main()
