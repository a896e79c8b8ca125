"""What the benchmarks have measured, as pages ask for it: only what is in `benchmarks/results` can be said."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
RUNS = RESULTS / "runs.csv"

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


def measured_with(name: str) -> str:
    """Returns when a file was measured, and with which commit, as far as `runs.csv` knows."""
    run = next((row for row in rows("runs") if row["file"] == f"{name}.csv"), None) if RUNS.exists() else None
    if run is None:
        return ""
    at = f" at {run['commit']}" if run["commit"] else ""
    return f"Measured on {run['date']}{at}, with the libraries that `runs.csv` names."


def figure(name: str, stream: str, contender: str, measure: str) -> str:
    """Returns one figure with its unit, as a person reads it; of "worst game" a name."""
    if measure == "worst game":
        return max(rows(name), key=lambda row: float(row[f"{contender} %"]))["game"]
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
    """Returns a figure in two or three digits, with thousands marked, and its unit; of a count all digits.

    >>> spoken(1407, "us"), spoken(3.568e6, "us"), spoken(0.5425, "%"), spoken(63, ""), spoken(1.82, "")
    ('1.41 ms', '3.57 s', '0.54 %', '63', '1.82')
    """
    for larger in ("ms", "s"):
        if unit in ("us", "ms") and number >= 1000:
            number, unit = number / 1000, larger
    unit = unit.replace("us", "µs")
    is_count = not unit and number == int(number)
    digits = 0 if number >= 100 or is_count else 1 if number >= 10 else 2
    text = f"{number:,.{digits}f}"
    return f"{text}x" if unit == "x" else f"{text} {unit}".rstrip()
