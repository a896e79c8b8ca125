"""The example in ViZDoom runs, small, whatever it sees, and what it sees is what the game shows."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.long

pytest.importorskip("vizdoom")
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_vizdoom.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_vizdoom", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("see", "algorithm"), [("rgb", "dqn"), pytest.param("labels", "ppo", marks=pytest.mark.slow), ("both", "ppo")]
)
def test_a_model_is_trained(see: str, algorithm: str, tmp_path: Path) -> None:
    options = ["--see", see, "--algorithm", algorithm, "--smoke", "--video", "game.gif"]
    command = [sys.executable, "-W", "error", str(EXAMPLE), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "weights are the same" in done.stdout
    report = done.stdout[done.stdout.index("<Compressed") :]
    assert ("Dict" in report, "labels:" in report, "rgb:" in report) == (see == "both",) * 3
    assert "everything else:" in report.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["game.gif"]


def test_all_see_the_same_game(example: ModuleType) -> None:
    envs = [example.Doom(see) for see in ("both", "rgb", "labels")]
    both, rgb, labels = (env.reset(seed=3)[0] for env in envs)
    classes: set[int] = set()
    for action in [1, 6, 6, 3, 7, 1, 4, 4, 6, 1] * 4:
        assert np.array_equal(both["rgb"], rgb)
        assert np.array_equal(both["labels"], labels)
        assert envs[0].observation_space.contains(both)
        classes |= set(np.unique(labels).tolist())
        (both, *ends), (rgb, *_), (labels, *_) = (env.step(np.int64(action)) for env in envs)
        if ends[1] or ends[2]:
            break
    for env in envs:
        env.close()
    names = {int(shade): name for name, shade in example.SHADES.items()}
    assert {"wall", "floor or ceiling", "Self"} <= {names[shade] for shade in classes}


def test_a_game_that_ran_out_of_time_is_not_lost(example: ModuleType) -> None:
    env = example.Doom("labels", "health_gathering", skip=4)
    env.unwrapped.game.set_episode_timeout(20)
    env.reset(seed=0)
    for _ in range(20):
        _, _, terminated, truncated, _ = env.step(np.int64(0))
        if terminated or truncated:
            break
    env.close()
    assert (terminated, truncated) == (False, True)
