"""SBX with compressed buffers: SAC on a pendulum, and DQN on images of Pong, with what their buffers hold at the end.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,progress]" -e adapters/sbx
    python -m examples.train_sbx
    python -m examples.train_sbx --smoke    # half a minute, most of which is JAX compiling

The pendulum's three numbers are left in a plain array. The images are four frames each, of which only what changes is
kept, and once: it asserts that they take less than a tenth of what SBX would hold.
"""

from __future__ import annotations

import argparse
import time

from sbx import DQN, SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from compressed_array_sb3.training_utils.atari import make_env
from compressed_array_sbx import CompressedReplayBuffer, MemoryUsage


def pendulum(steps: int) -> tuple[float, MemoryUsage]:
    """The mean reward that SAC comes to, and what its buffer holds."""
    model = SAC(
        "MlpPolicy",
        "Pendulum-v1",
        buffer_size=50_000,
        learning_rate=1e-3,
        train_freq=8,
        gradient_steps=8,
        replay_buffer_class=CompressedReplayBuffer,
        seed=0,
    )
    model.learn(steps, progress_bar=True)
    reward, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=5)
    return float(reward), model.replay_buffer.memory_usage()


def pong(steps: int) -> MemoryUsage:
    """What the buffer of a DQN on images holds."""
    env = make_env("PongNoFrameskip-v4", n_envs=4, vec_env_cls=DummyVecEnv, framestack=4, seed=0)
    model = DQN(
        "CnnPolicy",
        env,
        buffer_size=100_000,
        learning_starts=steps // 4,
        gradient_steps=2,
        replay_buffer_class=CompressedReplayBuffer,
        seed=0,
    )
    model.learn(steps, progress_bar=True)
    env.close()
    return model.replay_buffer.memory_usage()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--smoke", action="store_true", help="few steps")
    options.add_argument("--steps", type=int, default=20_000, help="of Pong; a third of it of the pendulum")
    given = options.parse_args()
    steps = 600 if given.smoke else given.steps

    start = time.perf_counter()
    reward, of_vectors = pendulum(steps // 3)
    print(f"SAC, {steps // 3:,} steps of a pendulum, {time.perf_counter() - start:.0f} s: mean reward {reward:.0f}")
    print(f"  {of_vectors}")
    if not given.smoke:
        assert reward > -400, "at random it is about -1,200"

    start = time.perf_counter()
    of_images = pong(steps)
    print(f"DQN, {steps:,} steps of Pong, {time.perf_counter() - start:.0f} s")
    print(f"  {of_images}")
    assert of_images.ratio > 10, "images of Pong take less than a tenth"


if __name__ == "__main__":
    main()
