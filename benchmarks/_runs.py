"""When, where and with which libraries each file in `results` was measured: `results/runs.csv`, a row for each."""

from __future__ import annotations

import csv
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "numpy",
    "numba",
    "zstandard",
    "torch",
    "stable-baselines3",
    "sb3-extra-buffers",
    "sbx-rl",
    "jax",
    "torchrl",
    "cpprb",
    "ale-py",
    "vizdoom",
)
FIELDS = ("file", "date", "commit", "python", "processor", "libraries")
MEASURED = ("packages", "adapters", "benchmarks/*.py", "examples")


def note(file: Path) -> None:
    """Write down what a file was just measured with, in place of what was written down for it before."""
    runs = file.parent / "runs.csv"
    rows = {}
    if runs.exists():
        with runs.open(newline="") as source:
            rows = {row["file"]: row for row in csv.DictReader(source)}
    rows[file.name] = {
        "file": file.name,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "processor": processor(),
        "libraries": ", ".join(f"{name} {known}" for name in LIBRARIES if (known := release(name))),
    }
    with runs.open("w", newline="") as sink:
        table = csv.DictWriter(sink, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows[name] for name in sorted(rows))


def commit() -> str:
    """Returns the commit that is checked out, with a plus if what is measured was changed since; else nothing."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=9", "HEAD") + "+" * bool(git("status", "--porcelain", "-uno", "--", *MEASURED))
    except (OSError, subprocess.CalledProcessError):  # a copy without its history
        return ""


def processor() -> str:
    """Returns the name of the processor, as far as the system tells, and how many cores there are."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{os.cpu_count()} cores of {name or platform.machine()}"


def release(library: str) -> str | None:
    """Returns which release of a library is installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None
