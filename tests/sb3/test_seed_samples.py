"""The samples that sb3-extra-buffers was published with run here when the name of the package is changed.

They are quoted unchanged. What shortens them is listed beside each one; nothing else is changed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

from compressed_array_sb3 import CompressedRolloutBuffer, find_buffer_dtypes
from compressed_array_sb3.training_utils.atari import make_env

pytestmark = pytest.mark.long

README = """
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from sb3_extra_buffers.compressed import CompressedRolloutBuffer, find_smallest_dtype
from sb3_extra_buffers.training_utils.atari import make_env

ATARI_GAME = "MsPacmanNoFrameskip-v4"

if __name__ == "__main__":
    flatten_obs_shape = np.prod(make_env(env_id=ATARI_GAME, n_envs=1, framestack=4).observation_space.shape)
    buffer_dtypes = dict(elem_type=np.uint8, runs_type=find_smallest_dtype(flatten_obs_shape))

    # Make vec envs
    env = make_env(env_id=ATARI_GAME, n_envs=4, framestack=4)
    eval_env = make_env(env_id=ATARI_GAME, n_envs=10, framestack=4)

    # Create PPO model using CompressedRolloutBuffer
    model = PPO("CnnPolicy", env, verbose=1, n_steps=128, batch_size=256, n_epochs=4,
                rollout_buffer_class=CompressedRolloutBuffer,
                rollout_buffer_kwargs=dict(dtypes=buffer_dtypes, compression_method="rle"), device="mps")

    # Evaluation callback (optional)
    eval_callback = EvalCallback(eval_env, n_eval_episodes=10, eval_freq=8192, log_path=f"./logs/{ATARI_GAME}",
                                 best_model_save_path=f"./logs/{ATARI_GAME}/best_model")

    # Training
    model.learn(total_timesteps=1_000_000, callback=eval_callback, progress_bar=True)

    # Save the final model
    model.save(f"ppo-{ATARI_GAME}.zip")

    # Cleanup
    env.close()
    eval_env.close()
"""

PYPI = """
from stable_baselines3 import PPO
from stable_baselines3.common.utils import get_linear_fn
from stable_baselines3.common.callbacks import EvalCallback
from sb3_extra_buffers.compressed import CompressedRolloutBuffer, find_buffer_dtypes
from sb3_extra_buffers.training_utils.atari import make_env

ATARI_GAME = "MsPacmanNoFrameskip-v4"

if __name__ == "__main__":
    # Get the most suitable dtypes for CompressedRolloutBuffer to use
    obs = make_env(env_id=ATARI_GAME, n_envs=1, framestack=4).observation_space
    compression = "rle-jit"  # or use "igzip1" since it's relatively noisy
    buffer_dtypes = find_buffer_dtypes(obs_shape=obs.shape, elem_dtype=obs.dtype, compression_method=compression)

    # Create vectorized environments after the find_buffer_dtypes call, which initializes jit
    env = make_env(env_id=ATARI_GAME, n_envs=8, framestack=4)
    eval_env = make_env(env_id=ATARI_GAME, n_envs=10, framestack=4)

    # Create PPO model with CompressedRolloutBuffer as rollout buffer class
    model = PPO("CnnPolicy", env, verbose=1, learning_rate=get_linear_fn(2.5e-4, 0, 1), n_steps=128,
                batch_size=256, clip_range=get_linear_fn(0.1, 0, 1), n_epochs=4, ent_coef=0.01, vf_coef=0.5,
                seed=1970626835, device="mps", rollout_buffer_class=CompressedRolloutBuffer,
                rollout_buffer_kwargs=dict(dtypes=buffer_dtypes, compression_method=compression))

    # Evaluation callback (optional)
    eval_callback = EvalCallback(eval_env, n_eval_episodes=20, eval_freq=8192, log_path=f"./logs/{ATARI_GAME}/ppo/eval",
                                 best_model_save_path=f"./logs/{ATARI_GAME}/ppo/best_model")

    # Training
    model.learn(total_timesteps=10_000_000, callback=eval_callback, progress_bar=True)

    # Save the final model
    model.save("ppo_MsPacman_4.zip")

    # Cleanup
    env.close()
    eval_env.close()
"""

QUICK = """
from stable_baselines3 import PPO
from sb3_extra_buffers.training_utils.atari import make_env
from sb3_extra_buffers.compressed import CompressedRolloutBuffer, find_buffer_dtypes

# Get the shape of observation and find the most suitable data types
compression = "zstd-5"  # use ZStandard with -5 compression level
obs = make_env(env_id="PongNoFrameskip-v4", n_envs=1, framestack=4).observation_space
buffer_dtypes = find_buffer_dtypes(
    obs_shape=obs.shape, elem_dtype=obs.dtype, compression_method=compression
)

# Create environment
env = make_env(env_id=ATARI_GAME, n_envs=8, framestack=4)

# Create PPO model with CompressedRolloutBuffer
model = PPO(..., 
    rollout_buffer_class=CompressedRolloutBuffer,
    rollout_buffer_kwargs=dict(dtypes=buffer_dtypes, compression_method=compression)
)

# Train as usual
model.learn(total_timesteps=1000000)
"""  # noqa: W291 - quoted as it was published

JIT_INIT = """
# Code for other stuffs...
from sb3_extra_buffers.compressed.compression_methods import has_numba

# Compressed-buffer-related settings
compression_method = "rle-jit"
storage_dtypes = dict(elem_type=np.uint8, runs_type=np.uint16)

# Pre-JIT Numba to avoid fork issues
if has_numba() and "jit" in compression_method:
    from sb3_extra_buffers.compressed.compression_methods.compression_methods_numba import init_jit
    init_jit(**storage_dtypes)

# Now, safe to initialize multi-processing environments!
env = SubprocVecEnv(...)
"""

JIT_FIND = """
# Code for other stuffs...

# Get observation space from environment
obs = make_env(env_id=ATARI_GAME, n_envs=1, framestack=4).observation_space

# Get the buffer datatype settings via find_buffer_dtypes
compression = "rle-jit"
buffer_dtypes = find_buffer_dtypes(obs_shape=obs.shape, elem_dtype=obs.dtype, compression_method=compression)

# Now, safe to initialize multi-processing environments!
env = SubprocVecEnv(...)
"""


def adapted(sample: str, changes: Mapping[str, str]) -> str:
    """The sample for this package, with changes that all find what they change."""
    for old, new in changes.items():
        assert old in sample
        sample = sample.replace(old, new)
    return sample.replace("sb3_extra_buffers", "compressed_array_sb3")


@pytest.mark.parametrize(
    ("sample", "changes", "evaluations", "saved", "method"),
    [
        pytest.param(
            README,
            {
                'device="mps"': 'device="cpu"',
                "n_envs=4": "n_envs=2",
                "n_envs=10": "max_num_frames_per_episode=400, n_envs=1",
                "n_eval_episodes=10, eval_freq=8192": "n_eval_episodes=1, eval_freq=100",
                "1_000_000": "256",
            },
            "logs/MsPacmanNoFrameskip-v4/evaluations.npz",
            "ppo-MsPacmanNoFrameskip-v4.zip",
            "rle",
            id="README",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            PYPI,
            {
                'device="mps"': 'device="cpu"',
                "n_envs=8": "n_envs=2",
                "n_envs=10": "max_num_frames_per_episode=400, n_envs=1",
                "n_eval_episodes=20, eval_freq=8192": "n_eval_episodes=1, eval_freq=100",
                "10_000_000": "256",
            },
            "logs/MsPacmanNoFrameskip-v4/ppo/eval/evaluations.npz",
            "ppo_MsPacman_4.zip",
            "rle-jit",
            id="PyPI",
        ),
    ],
)
def test_samples_that_are_scripts(
    sample: str, changes: dict[str, str], evaluations: str, saved: str, method: str, tmp_path: Path
) -> None:
    script = tmp_path / "sample.py"
    script.write_text(adapted(sample, changes))
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / evaluations)["timesteps"].tolist() == [200]
    model = PPO.load(tmp_path / saved, device="cpu")
    assert model.num_timesteps == 256
    assert model.rollout_buffer_class is CompressedRolloutBuffer
    assert model.rollout_buffer_kwargs["compression_method"] == method


def run(
    sample: str, changes: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **names: Any
) -> dict[str, Any]:
    """The names that a sample without a main guard leaves behind, run as if in a notebook."""
    monkeypatch.chdir(tmp_path)
    exec(adapted(sample, changes), names)
    return names


def test_sample_that_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {
        "n_envs=8": "n_envs=2",
        "PPO(..., ": 'PPO("CnnPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu",',
        "1000000": "128",
    }
    names = run(QUICK, changes, tmp_path, monkeypatch, ATARI_GAME="PongNoFrameskip-v4")
    names["env"].close()
    buffer = names["model"].rollout_buffer
    assert isinstance(buffer, CompressedRolloutBuffer)
    assert buffer.full
    assert buffer.memory_usage().ratio > 5
    assert names["model"].num_timesteps == 128


@pytest.mark.parametrize("sample", [JIT_INIT, JIT_FIND], ids=["init_jit", "find_buffer_dtypes"])
def test_samples_that_compile_before_processes(sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def games(_: object) -> VecEnv:
        """The environments for which a sample has three dots."""
        env = make_env("MsPacmanNoFrameskip-v4", 2)
        assert isinstance(env.unwrapped, SubprocVecEnv)
        return env

    names = run(
        sample,
        {},
        tmp_path,
        monkeypatch,
        np=np,
        SubprocVecEnv=games,
        make_env=make_env,
        find_buffer_dtypes=find_buffer_dtypes,
        ATARI_GAME="MsPacmanNoFrameskip-v4",
    )
    env = names["env"]
    dtypes = names.get("buffer_dtypes") or names["storage_dtypes"]
    method = names.get("compression") or names["compression_method"]
    kwargs = {"dtypes": dtypes, "compression_method": method}
    model = PPO(
        "CnnPolicy",
        env,
        n_steps=8,
        batch_size=16,
        n_epochs=1,
        device="cpu",
        rollout_buffer_class=CompressedRolloutBuffer,
        rollout_buffer_kwargs=kwargs,
    )
    model.learn(16)
    env.close()
    assert model.rollout_buffer.full
    assert model.rollout_buffer.codec == "rle-jit"
