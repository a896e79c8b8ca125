"""The examples for SB3 run, small, and what they claim of themselves holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
# The last lines of what they print, which is what a buffer says of its memory.
REPORT = ("transitions", "smaller, delta", "everything else:")


def run(folder: Path, name: str, *options: str) -> str:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), *options, "--smoke"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_is_trained_evaluated_and_watched(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    printed = run(tmp_path, "train_atari", "--algorithm", "ppo", "--game", "Pong")
    assert "weights are the same" in printed
    assert all(part in printed for part in REPORT)
    model = tmp_path / "ppo-Pong.zip"
    # As a module: from the folder that `examples` is in, and nothing is left there.
    command = [sys.executable, "-W", "error", "-m", "examples.evaluate_atari", "--model", str(model), "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Evaluated 2 episodes" in done.stdout
    assert all(part in done.stdout for part in REPORT)
    assert "120 pictures" in run(tmp_path, "watch_atari", "--model", str(model))
    assert {path.name for path in tmp_path.iterdir()} == {"ppo-Pong.zip", "Pong.mp4"}
    assert (tmp_path / "Pong.mp4").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("algorithm", "buffer"),
    [("ppo", "gpu"), ("dqn", "compressed"), *(pytest.param("dqn", b, marks=pytest.mark.slow) for b in ("gpu", "raw"))],
)
def test_each_buffer_trains(algorithm: str, buffer: str, tmp_path: Path) -> None:
    printed = run(tmp_path, "train_atari", "--algorithm", algorithm, "--game", "MsPacman", "--buffer", buffer)
    assert ("weights are the same" in printed) == (buffer != "raw")
    assert "in a plain array of" in printed if buffer == "raw" else all(part in printed for part in REPORT)
    assert [path.name for path in tmp_path.iterdir()] == [f"{algorithm}-MsPacman.zip"]


@pytest.mark.parametrize("name", ["train_recurrent", "train_maskable", "train_her"])
def test_other_buffers_train(name: str, tmp_path: Path) -> None:
    printed = run(tmp_path, name)
    assert "weights are the same" in printed
    assert all(part in printed for part in REPORT)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_the_zoo_trains(algorithm: str, tmp_path: Path) -> None:
    pytest.importorskip("rl_zoo3", reason="the zoo is heavy, and no dependency of the tests: `nox -s examples` has it")
    printed = run(tmp_path, "train_zoo", "--algo", algorithm)
    assert "transitions in the buffer" in printed.splitlines()[-1]
