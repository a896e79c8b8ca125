"""Buffers for training loops in plain torch, beside what people would use instead: `nox -s bench -- torch`.

Memory is the growth of a process that fills one contender and does nothing else. Times are ratios to another contender
in the same process, in turns; `!` marks those taken while others kept the machine busy. A missed target is said and not
raised. Sections can be named:

    python -m benchmarks.torch [dense] [compressed] [priorities] [sequences] [sharing] [storages] [latents]

All of them together also write `results/torch.csv`, if nothing is marked.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from functools import cache
from typing import Any

from benchmarks import _latents, _sequences, _sharing, _torch_buffers, _trees
from benchmarks._contenders import REFERENCE
from benchmarks._measure import READ_ROUNDS, WRITE_ROUNDS
from benchmarks._recordings import stream
from benchmarks._report import BUSY, HELD_RUNS, SPEEDS, Figure, child, figures, finish, time_figures
from benchmarks._report import speed as report_speed

GAME, VECTORS = "MsPacman", "HalfCheetah"
OURS, SELECT, LAZY = _torch_buffers.OURS, _torch_buffers.SELECT, _torch_buffers.LAZY
LISTED, STORAGE, BY_LANES = _torch_buffers.LISTED, _torch_buffers.STORAGE, _torch_buffers.BY_LANES
# What a buffer may take of the bytes that SB3's takes for the same transitions, in %.
HELD = 1.0
NO_TIME = (math.nan, math.nan, 0.0)


@cache
def held(module: str, name: str, contender: str) -> float:
    runs = (child(module, "held", name, contender, "1")["held"] for _ in range(HELD_RUNS))
    return statistics.median(runs)


def speed(module: str, *arguments: str, measures: tuple[str, ...]) -> dict[str, Any]:
    """Seconds and ratios; of a process that failed there are none."""
    found = report_speed(module, *arguments)
    return {"stored": math.nan, "raw": math.nan, "sent": math.nan} | dict.fromkeys(measures, NO_TIME) | found


def held_figures(name: str, contender: str, nbytes: float, of: str, whole: float, limit: float | None = None) -> str:
    """Keep the figures of what is held, and say them in a line."""
    share = 100 * nbytes / whole
    figures.append(Figure(name, contender, "held", nbytes / 1e6, "MB"))
    figures.append(Figure(name, contender, f"held of {of}", share, "%", limit))
    return f"{nbytes / 1e6:9.1f}{share:8.2f} %"


def dense() -> None:
    contender = OURS + "none"
    print("\nkept as they are, beside an index_select of each part of a transition, and TorchRL's dense storage")
    print(f"{'':45}{'add 4':>15} {'get 32':>15} {'get 256':>15}")
    for name in (GAME, VECTORS):
        for against, limit in ((SELECT, 1.1), (LAZY, 1.0)):
            found = speed("_torch_buffers", name, contender, against, "1", measures=SPEEDS)
            limits = {measure: limit if measure == "read 256" else 0 for measure in SPEEDS}
            print(f"{name + ', of ' + against:45}{time_figures(name, contender, against, found, limits)}", flush=True)


def compressed() -> None:
    print(f"\n{GAME}: 40,000 transitions of 4 environments, beside {REFERENCE}")
    print(f"{'':26}{'held MB':>9}{'':>10}{'add 4':>15} {'get 32':>15} {'get 256':>15}")
    whole = held("_torch_buffers", GAME, REFERENCE)
    for codec in ("delta", "delta-zstd", "auto"):
        contender = OURS + codec
        line = f"{contender:26}"
        nbytes = held("_torch_buffers", GAME, contender)
        line += held_figures(GAME, contender, nbytes, "SB3's", whole, HELD if codec == "delta" else None)
        limits = {measure: 0.6 if (codec, measure) == ("delta", "read 256") else 0 for measure in SPEEDS}
        found = speed("_torch_buffers", GAME, contender, REFERENCE, "1", measures=SPEEDS)
        print(line + time_figures(GAME, contender, "SB3's", found, limits), flush=True)


def priorities() -> None:
    print(f"\n{_trees.LEAVES:,} priorities, {_trees.BATCH} at a time: beside Tianshou's tree; and with transitions of")
    print(f"{_trees.OBSERVATION} floats, all that a step of training takes: add({_trees.LANES}), get, update")
    name = "priorities"
    for what, contender, of, measures in (
        ("tree", "PriorityTree", "Tianshou's", ("update", "find")),
        ("buffer", "PrioritizedReplayBuffer", "cpprb's", ("learn",)),
    ):
        found = speed("_trees", what, measures=measures)
        for measure in measures:
            line = time_figures(name, contender, of, found, {measure: 0.5})
            print(f"{contender + ' ' + measure + ', of ' + of:45}{line}", flush=True)


def sequences() -> None:
    print(f"\n{_sequences.WINDOWS} windows of {_sequences.LENGTH} steps, beside gathering the same by position")
    print(f"{'':30}{'held MB':>9}{'of SB3':>10}{'add 4':>15} {'get':>15}")
    whole = held("_torch_buffers", GAME, REFERENCE)
    for name in (_sequences.FRAMES, _sequences.STACKS):
        for codec in ("delta", "delta-zstd", "auto"):
            contender, is_bound = _sequences.OURS + codec, codec == "delta"
            line = f"{name + ', ' + codec:30}"
            nbytes = held("_sequences", name, contender)
            line += held_figures(name, contender, nbytes, "SB3's stacks", whole, HELD if is_bound else None)
            raw = 40_000 * 84 * 84 * (1 if name == _sequences.FRAMES else 4)
            figures.append(Figure(name, contender, "held of the observations, raw", 100 * nbytes / raw, "%"))
            for against in (_sequences.GATHER, _sequences.SELECT) if is_bound else (_sequences.GATHER,):
                found = speed("_sequences", name, contender, against, measures=("write", "read"))
                limits = {"write": 0, "read": 0.7 if is_bound and against == _sequences.GATHER else 0}
                print(line + time_figures(name, contender, against, found, limits), flush=True)
                line = f"{'  beside ' + _sequences.SELECT:49}"


def sharing() -> None:
    print(f"\n{_sharing.WRITERS} processes that write, beside one that adds as many steps of 4 transitions itself")
    print(f"{'':45}{'sent, of raw pairs':>20}{'a step':>15}")
    contender = "SharedReplayBuffer"
    for codec in ("auto", "delta"):
        name = f"{GAME}, {codec}"
        found = speed("_sharing", codec, measures=("take in",))
        share = 100 * found["sent"] / found["raw"]
        figures.append(Figure(name, contender, "sent of raw", share, "%", 2.0))
        line = time_figures(name, contender, "adding", found, {"take in": 1.25})
        print(f"{name + ', ' + contender:45}{share:18.2f} %{line}", flush=True)


def storages() -> None:
    print(f"\nunder TorchRL's ReplayBuffer, beside its own storages: {LAZY}, then {LISTED}")
    print(f"{'':26}{'held MB':>9}{'':>10}{'extend 4':>15} {'sample 32':>15} {'sample 256':>15}")
    for contender in (STORAGE, BY_LANES):
        nbytes = held("_torch_buffers", GAME, contender)
        for against in (LAZY, LISTED):
            theirs = held("_torch_buffers", GAME, against)
            line = held_figures(GAME, contender, nbytes, against, theirs)
            found = speed("_torch_buffers", GAME, contender, against, "1", measures=SPEEDS)
            line += time_figures(GAME, contender, against, found, dict.fromkeys(SPEEDS, 0.0))
            print(f"{contender if against == LAZY else '':26}{line}", flush=True)


def latents() -> None:
    rows = f"{_latents.STEPS * _latents.LANES:,} rows of {_latents.WIDTH:,}"
    print(f'\nstates of agents, {rows}, in an array with "auto"; {_latents.BATCH} rows read beside a dense array')
    print(f"{'':26}{'stored MB':>10}{'of raw':>9}{'read':>15}")
    for kind, (_, limit) in _latents.KINDS.items():
        found = speed("_latents", kind, measures=("read",))
        share = 100 * found["stored"] / found["raw"]
        figures.append(Figure(kind, "auto", "stored of raw", share, "%", limit))
        line = time_figures(kind, "auto", "a dense array's", found, {"read": 0})
        print(f"{kind:26}{found['stored'] / 1e6:10.1f}{share:7.2f} %{line}", flush=True)


SECTIONS = {
    section.__name__: section for section in (dense, compressed, priorities, sequences, sharing, storages, latents)
}


def main() -> None:
    asked = sys.argv[1:] or list(SECTIONS)
    if unknown := set(asked) - set(SECTIONS):
        sys.exit(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    for name in (GAME, VECTORS):
        stream(name)  # recorded once, before anything is timed
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ! more than {BUSY} cores were others'")
    print(f"medians of {WRITE_ROUNDS} rounds of adds, {READ_ROUNDS} of reads, and {HELD_RUNS} processes; times in us")
    for section in asked:
        SECTIONS[section]()
    finish("torch", all_of_it=set(asked) == set(SECTIONS))


if __name__ == "__main__":
    main()
