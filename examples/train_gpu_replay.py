"""DQN on Pong, with observations that stay compressed on the device.

    python -m examples.train_gpu_replay --device auto

`auto` is CUDA or MPS where there is one, and the CPU elsewhere. At the end, the buffer says what it holds.
"""

from __future__ import annotations

import argparse

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

from compressed_array_sb3 import BufferStatsCallback
from compressed_array_sb3.gpu_buffers import GpuReplayBuffer
from compressed_array_sb3.training_utils.atari import make_env


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--device", default="auto", help="where the network is and samples go")
    options.add_argument("--buffer-device", default=None, help="where observations are kept; the same, if left out")
    options.add_argument("--codec", default="auto", help="delta (which auto is), rle, none, zstd-3 …")
    options.add_argument("--env", default="PongNoFrameskip-v4")
    options.add_argument("--steps", type=int, default=4_000)
    options.add_argument("--buffer-size", type=int, default=100_000)
    given = options.parse_args()
    device = best_device() if given.device == "auto" else given.device

    env = make_env(given.env, n_envs=4, vec_env_cls=DummyVecEnv, framestack=4, seed=0)
    model = DQN(
        "CnnPolicy",
        env,
        buffer_size=given.buffer_size,
        learning_starts=given.steps // 4,
        replay_buffer_class=GpuReplayBuffer,
        replay_buffer_kwargs={"codec": given.codec, "buffer_device": given.buffer_device or device},
        device=device,
        seed=0,
    )
    model.learn(given.steps, callback=BufferStatsCallback(), log_interval=None)
    env.close()
    print(f"on {device}:\n{model.replay_buffer!r}")


if __name__ == "__main__":
    main()
