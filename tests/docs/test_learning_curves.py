"""Two trainings are said to be the same only if every row of theirs is."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.learning")


def test_trainings_that_were_joined_are_kept_when_others_are(learning: ModuleType, tmp_path: Path) -> None:
    joined, header = tmp_path / "learning.csv", "training,timesteps"
    for field in ("mean_return", "weights", "held"):
        header += "".join(f",{field} {kind}" for kind in learning.KINDS)
    joined.write_text(f"{header}\nPPO Pong seed 0,5120,-20.5,-20.5,bb,bb,100,7\nDQN seed 1,0,nan,nan,aa,ab,0,0\n")
    pong, other = learning.earlier(joined)
    assert (pong.name, pong.stock[0].held, pong.compressed[0].held) == ("PPO Pong seed 0", 100, 7)
    assert pong.differences() == []
    assert other.differences() == [0]
    assert learning.earlier(tmp_path / "none.csv") == []


def test_the_trainings_that_the_pages_show_are_the_same(learning: ModuleType) -> None:
    pairs = learning.earlier(ROOT / "benchmarks" / "results" / "learning.csv")
    assert [pair.name for pair in pairs if pair.differences()] == []
    assert min(len(pair.stock) for pair in pairs) > 1
