"""Two trainings are said to be the same only if every row of theirs is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from document_helpers.code_blocks import ROOT

STOCK = "timesteps,mean_return,weights,held\n0,nan,aa,0\n5120,-20.5,bb,100\n10240,-20.25,cc,100\n"


def join(folder: Path, compressed: str) -> str:
    """Returns what `join` says as it fails."""
    (folder / "PPO Pong seed 0 stock.csv").write_text(STOCK)
    (folder / "PPO Pong seed 0 compressed.csv").write_text(compressed)
    command = [sys.executable, "-m", "benchmarks.learning", "--folder", str(folder), "join"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.strip()


@pytest.mark.parametrize(
    ("this", "that", "first"),
    [
        ("-20.5,bb", "-20.5,bd", "1 rows differ, the first after 5,120 steps"),  # weights
        ("-20.25,cc", "-20.26,cc", "1 rows differ, the first after 10,240 steps"),  # returns
        ("10240,-20.25,cc,100\n", "", "1 rows differ, the first after 10,240 steps"),  # ended too early
        ("5120,", "5121,", "2 rows differ, the first after 5,120 steps"),
    ],
)
def test_trainings_that_part_are_not_joined(tmp_path: Path, this: str, that: str, first: str) -> None:
    assert this in STOCK
    assert join(tmp_path, STOCK.replace(this, that)) == f"PPO Pong seed 0: {first}"
