"""rl-baselines3-zoo: the forms of its files and of its command line that the README gives."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import DQN, PPO

import compressed_array_sb3 as cab

# The zoo evaluates these two of a yml, and each value of `--hyperparams name:value`; callbacks it imports by name.
CLASS = "__import__('compressed_array_sb3').CompressedReplayBuffer"
KWARGS = "dict(codec='delta')"
CALLBACK = "compressed_array_sb3.BufferStatsCallback"

YML = f"""
CartPole-v1:
  policy: 'MlpPolicy'
  n_timesteps: !!float 5e4
  buffer_size: 1000
  learning_starts: 20
  replay_buffer_class: "{CLASS}"
  replay_buffer_kwargs: "{KWARGS}"
  callback: {CALLBACK}
"""

# It does not evaluate a rollout_buffer_class, but takes a file of Python instead of a yml.
PY = """
from compressed_array_sb3 import CompressedRolloutBuffer

hyperparams = {
    "CartPole-v1": {
        "policy": "MlpPolicy",
        "n_timesteps": 5e4,
        "n_steps": 16,
        "batch_size": 16,
        "n_epochs": 1,
        "rollout_buffer_class": CompressedRolloutBuffer,
        "rollout_buffer_kwargs": {"codec": "delta"},
    }
}
"""


def test_what_the_zoo_makes_of_its_files() -> None:
    """Its own steps, without it: eval in a module that knows nothing of us, exec, and an import by name."""
    module, _, name = CALLBACK.rpartition(".")
    callback: Any = getattr(importlib.import_module(module), name)()
    nothing: dict[str, Any] = {}
    options = {"replay_buffer_class": eval(CLASS, nothing), "replay_buffer_kwargs": eval(KWARGS, nothing)}
    model = DQN("MlpPolicy", "CartPole-v1", buffer_size=50, learning_starts=8, device="cpu", **options)
    model.learn(12, callback=callback)
    assert type(model.replay_buffer) is cab.CompressedReplayBuffer
    assert model.replay_buffer.memory_usage().keys[""].codec == "delta"
    # What `enjoy` looks for in the name of the class, to give HER its environment.
    assert "HerReplayBuffer" in CLASS.replace("CompressedReplayBuffer", cab.CompressedHerReplayBuffer.__name__)

    read: dict[str, Any] = {}
    exec(PY, read)
    options = {k: v for k, v in read["hyperparams"]["CartPole-v1"].items() if k not in ("policy", "n_timesteps")}
    ppo = PPO("MlpPolicy", "CartPole-v1", device="cpu", **options).learn(16)
    assert type(ppo.rollout_buffer) is cab.CompressedRolloutBuffer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "options", "kept"),
    [
        ("dqn", ["--conf-file", "dqn.yml"], CLASS),
        ("ppo", ["--conf-file", "ppo.py"], "compressed_array_sb3.rollout.CompressedRolloutBuffer"),
        ("dqn", ["--hyperparams", f'replay_buffer_class:"{CLASS}"', f"replay_buffer_kwargs:{KWARGS}"], CLASS),
    ],
)
def test_the_zoo_trains_and_plays(algorithm: str, options: list[str], kept: str, tmp_path: Path) -> None:
    pytest.importorskip("rl_zoo3", reason="the zoo is heavy, and no dependency of the tests")
    (tmp_path / "dqn.yml").write_text(YML)
    (tmp_path / "ppo.py").write_text(PY)
    which = ["--algo", algorithm, "--env", "CartPole-v1", "-f", "logs"]
    train = ["rl_zoo3.train", *which, "-n", "64", "--eval-freq", "-1", *options]
    for command in (train, ["rl_zoo3.enjoy", *which, "-n", "100", "--no-render"]):
        run = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
    assert "Mean reward" in run.stdout
    config = tmp_path / "logs" / algorithm / "CartPole-v1_1" / "CartPole-v1" / "config.yml"
    assert kept in config.read_text()
