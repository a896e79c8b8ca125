"""The examples for training loops of one's own run, small, and what they claim of themselves holds."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"
NEED_NOTHING = ("torch_dreamer_storage", "torch_r2d2_memory")
# Those that play, and what they import beside torch and this package: `tests(sb3)` has that.
PLAY: dict[str, tuple[str, ...]] = {"torch_dqn_atari": ("gymnasium", "ale_py", "cv2"), "torch_sac": ("gymnasium",)}


def test_no_example_is_left_out() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("torch_*.py")) == sorted([*NEED_NOTHING, *PLAY])


@pytest.mark.parametrize("name", NEED_NOTHING)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    run(name, tmp_path)


@pytest.mark.parametrize("name", PLAY)
def test_an_example_that_plays_runs(name: str, tmp_path: Path) -> None:
    missing = [package for package in PLAY[name] if find_spec(package) is None]
    if missing:
        pytest.skip(f"{name} needs {', '.join(missing)}")
    run(name, tmp_path)


def run(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "everything else:" in done.stdout.splitlines()[-1]  # the end of what a buffer says of its memory
    assert not list(tmp_path.iterdir())
