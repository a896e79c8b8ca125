"""Plots of what the benchmarks have measured, drawn from `benchmarks/results` alone.

python docs/_tools/plots.py    writes the one that READMEs show, docs/images/memory.svg
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

from results import ROOT, rows, spoken, streams, value
from svg import Drawing

Box = tuple[float, float, float, float]  # left, top, right, bottom

WIDTH = 560
IMAGES = ROOT / "docs" / "images"
# What the picture of all shows, from the top: as the benchmark names it, as a reader knows it, and in which colour.
BUFFERS = (
    ("SB3", "Stable-Baselines3", "quiet"),
    ("SB3 optimize", "... optimize_memory_usage", "quiet"),
    ("extra-buffers zstd-3", "sb3-extra-buffers, zstd-3", "other"),
    ("extra-buffers lz4-frame/1", "sb3-extra-buffers, lz4-frame/1", "other"),
    ("CompressedReplayBuffer auto", "CompressedReplayBuffer", "ours"),
    ("CompressedReplayBuffer delta-zstd", '... codec="delta-zstd"', "ours"),
)


def memory() -> Drawing:
    """What buffers hold of the same 40,000 transitions."""
    step, left, top = 30, 214, 42
    drawing = Drawing(
        WIDTH, top + step * len(BUFFERS) + 8, "Memory that buffers hold for 40,000 transitions of MsPacman"
    )
    drawing.text(0, 16, "Memory for 40,000 transitions of MsPacman, 4 stacked frames", bold=True, size=14)
    room = WIDTH - left - 78
    most = max(value("replay", "MsPacman", who, "held") for who, _, _ in BUFFERS)
    for number, (who, name, colour) in enumerate(BUFFERS):
        held = value("replay", "MsPacman", who, "held")
        y = top + step * number
        drawing.text(left - 8, y + 14, name, size=13, anchor="end", bold=colour == "ours")
        drawing.bar(left, y, max(held / most * room, 1.5), 20, colour)
        drawing.text(
            left + held / most * room + 7, y + 14, spoken(held, "MB"), size=13, bold=colour == "ours",
            colour="ours" if colour == "ours" else "ink",
        )  # fmt: skip
    return drawing


class Scale:
    """A logarithmic axis: where a figure lies between two ends of the sheet, and which figures are marked on it."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = math.log10(low), math.log10(high), start, end

    def __call__(self, number: float) -> float:
        share = (math.log10(number) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, steps: tuple[int, ...] = (1, 2, 5)) -> list[float]:
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        marks = [step * 10.0**power for power in powers for step in steps]
        return [mark for mark in marks if self.low - 1e-9 <= math.log10(mark) <= self.high + 1e-9]


def tradeoff() -> Drawing:
    """Memory over the time of a read, for every buffer of the replay benchmark that holds MsPacman."""
    points = []
    for who in dict.fromkeys(row["contender"] for row in rows("replay") if row["stream"] == "MsPacman"):
        held, read = (value("replay", "MsPacman", who, measure) for measure in ("held", "read 32"))
        if who != "gather":
            points.append((read, held, who))
    height, left, bottom = 400, 58, 46
    drawing = Drawing(WIDTH, height, "Memory over the time to sample 32 transitions, by buffer and codec")
    across = Scale(100, 2500, left, WIDTH - 14)
    up = Scale(4, 4000, height - bottom, 30)
    drawing.text(left, 16, "MsPacman, 40,000 transitions: memory over time", bold=True, size=14)
    for tick in across.ticks():
        drawing.line((across(tick), 30), (across(tick), height - bottom), colour="line", width=1)
        drawing.text(across(tick), height - bottom + 17, f"{tick:g}", "soft", size=12, anchor="middle")
    for tick in up.ticks((1,)):
        drawing.line((left, up(tick)), (WIDTH - 14, up(tick)), colour="line", width=1)
        drawing.text(left - 7, up(tick) + 4, f"{tick:,g}", "soft", size=12, anchor="end")
    drawing.text((left + WIDTH) / 2, height - 8, "microseconds for sample(32)", "soft", size=12, anchor="middle")
    drawing.text(left - 7, 24, "MB", "soft", size=12, anchor="end")
    taken = [(across(read) - 6, up(held) - 6, across(read) + 6, up(held) + 6) for read, held, _ in points]
    for read, held, who in points:
        ours, extra = who.startswith("CompressedReplayBuffer"), who.startswith("extra-buffers")
        colour = "ours" if ours else "other" if extra else "quiet"
        name = who.removeprefix("CompressedReplayBuffer ").removeprefix("extra-buffers ")
        drawing.dot(across(read), up(held), colour)
        x, y = free_place(across(read), up(held), name, taken)
        drawing.text(x, y, name, "ink" if colour == "quiet" else colour, size=12)
    y = height - bottom - 44
    for number, (colour, name) in enumerate(
        (("ours", "CompressedReplayBuffer, by codec"), ("other", "sb3-extra-buffers"), ("quiet", "Stable-Baselines3"))
    ):
        drawing.dot(WIDTH - 246, y + number * 17 - 4, colour)
        drawing.text(WIDTH - 234, y + number * 17, name, size=12)
    return drawing


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def free_place(x: float, y: float, name: str, taken: list[Box]) -> tuple[float, float]:
    """Where a point's name covers nothing that is there already; the place is taken then."""
    width, height = 6.9 * len(name), 12
    for dx, dy in ((9, 4), (7, 16), (7, -7), (-9 - width, 4), (-width / 2, 20), (-width / 2, -10), (9, 28), (9, -20)):
        box = (x + dx, y + dy - height, x + dx + width, y + dy + 2)
        inside = box[0] > 0 and box[2] < WIDTH
        if inside and not any(overlap(box, other) for other in taken):
            break
    taken.append(box)
    return x + dx, y + dy


def data() -> Drawing:
    """What codecs hold of streams of many kinds, as a share of the plain array."""
    codecs = (
        ("auto", "ours", False),
        ("delta-zstd", "ours", True),
        ("zstd-3", "other", False),
        ("lz4-block/0", "other", True),
    )
    names = list(streams("codecs"))
    step, left, top = 19, 150, 62
    drawing = Drawing(WIDTH, top + step * len(names) + 34, "Share of the plain array that codecs hold, by kind of data")
    across = Scale(0.1, 100, left, WIDTH - 18)
    drawing.text(0, 16, "What is held, in % of the plain array", bold=True, size=14)
    for number, (codec, colour, hollow) in enumerate(codecs):
        drawing.dot(left + 6 + number * 102, 34, colour, hollow=hollow)
        drawing.text(left + 15 + number * 102, 38, codec, size=12)
    for tick in across.ticks((1,)):
        drawing.line((across(tick), 50), (across(tick), top + step * len(names)), colour="line", width=1)
        drawing.text(across(tick), top + step * len(names) + 18, f"{tick:g} %", "soft", size=12, anchor="middle")
    for number, name in enumerate(names):
        y = top + step * number + 4
        drawing.text(left - 10, y + 4, name, size=12, anchor="end")
        drawing.line((left, y), (WIDTH - 18, y), colour="line", width=0.6)
        for codec, colour, hollow in reversed(codecs):
            held = value("codecs", name, codec, "held of raw")
            drawing.dot(across(min(max(held, 0.1), 100)), y, colour, radius=4, hollow=hollow)
    return drawing


PLOTS: dict[str, Callable[[], Drawing]] = {"memory": memory, "tradeoff": tradeoff, "data": data}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else IMAGES
    (folder / "memory.svg").write_text(memory().svg())
