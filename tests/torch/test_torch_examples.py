"""The examples for training loops of one's own run, small, and what they claim of themselves holds."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"
# What each one imports beside torch and this package.
NEEDS: dict[str, tuple[str, ...]] = {
    "torch_dqn_atari": ("gymnasium", "ale_py", "cv2"),
    "torch_dreamer_storage": (),
    "torch_r2d2_memory": (),
    "torch_sac": ("gymnasium",),
}


def test_no_example_is_left_out() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("torch_*.py")) == sorted(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    missing = [package for package in NEEDS[name] if find_spec(package) is None]
    if missing:
        pytest.skip(f"{name} needs {', '.join(missing)}")
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "everything else:" in done.stdout.splitlines()[-1]  # the end of what a buffer says of its memory
    assert not list(tmp_path.iterdir())
