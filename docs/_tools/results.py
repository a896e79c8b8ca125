"""What the benchmarks have measured, as pages ask for it: only what is in `benchmarks/results` can be said."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

Row = dict[str, str]


class NoSuchFigureError(Exception):
    """A page asks for a figure that no benchmark has written."""


@cache
def rows(name: str) -> tuple[Row, ...]:
    """Returns the rows of a benchmark's file.

    Args:
        name: The benchmark, such as "replay".
    """
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        raise NoSuchFigureError(f"there is no {path.relative_to(ROOT)}")
    with path.open(newline="") as lines:
        return tuple(csv.DictReader(lines))


def figure(name: str, stream: str, contender: str, measure: str) -> str:
    """Returns one figure with its unit, as a person reads it."""
    for row in rows(name):
        if (row["stream"], row["contender"], row["measure"]) == (stream, contender, measure):
            return spoken(float(row["value"]), row["unit"])
    raise NoSuchFigureError(f"{name}.csv has no {measure!r} of {contender!r} on {stream!r}")


def value(name: str, stream: str, contender: str, measure: str) -> float:
    """Returns one figure as a number."""
    for row in rows(name):
        if (row["stream"], row["contender"], row["measure"]) == (stream, contender, measure):
            return float(row["value"])
    raise NoSuchFigureError(f"{name}.csv has no {measure!r} of {contender!r} on {stream!r}")


def streams(name: str) -> Iterator[str]:
    """The streams of a benchmark, in the order of its file."""
    yield from dict.fromkeys(row["stream"] for row in rows(name))


def spoken(number: float, unit: str) -> str:
    """Returns a figure in two or three digits, with thousands marked, and its unit."""
    if unit == "us" and number >= 1000:
        number, unit = number / 1000, "ms"
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:,.{digits}f}"
    return f"{text}x" if unit == "x" else f"{text} {unit}".rstrip()
