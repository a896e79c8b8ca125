"""PPO or DQN on an Atari game, with observations compressed on the host, compressed on a torch device, or left raw.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,progress]"
    python -m examples.train_atari --algorithm ppo --game Pong
    python -m examples.train_atari --algorithm ppo --game MsPacman --buffer gpu
    python -m examples.train_atari --algorithm dqn --game MsPacman --buffer raw     # the control: SB3's own buffer
    python -m examples.train_atari --algorithm dqn --game MsPacman --smoke          # seconds, and learns nothing

The settings are those of rl-baselines3-zoo for Atari, which trains for ten million steps; this does a million by
default: an hour or two of one core for PPO, and about twice that for DQN, reckoned from shorter runs on a busy machine.
It fails unless compressed observations take less than a twentieth of their bytes. With `--compare`, and with `--smoke`,
it trains once more with SB3's own buffer, and fails unless both end with the same weights, bit for bit. The model is
saved, for `evaluate_atari` and `watch_atari`; at the end the buffer says what it holds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer, RolloutBuffer
from stable_baselines3.common.utils import LinearSchedule, safe_mean
from stable_baselines3.common.vec_env import DummyVecEnv

from compressed_array.usage import MemoryUsage, usage_of
from compressed_array_sb3 import BufferStatsCallback, CompressedReplayBuffer, CompressedRolloutBuffer
from compressed_array_sb3.gpu_buffers import GpuReplayBuffer, GpuRolloutBuffer
from compressed_array_sb3.training_utils.atari import make_env

BUFFERS: dict[str, dict[str, type[BaseBuffer]]] = {
    "ppo": {"compressed": CompressedRolloutBuffer, "gpu": GpuRolloutBuffer, "raw": RolloutBuffer},
    "dqn": {"compressed": CompressedReplayBuffer, "gpu": GpuReplayBuffer, "raw": ReplayBuffer},
}


def ppo(env: Any, given: argparse.Namespace, buffer: type[BaseBuffer], options: dict[str, Any]) -> PPO:
    return PPO(
        "CnnPolicy",
        env,
        n_steps=40 if given.smoke else 128,
        batch_size=80 if given.smoke else 256,
        n_epochs=1 if given.smoke else 4,
        learning_rate=LinearSchedule(2.5e-4, 0.0, 1.0),
        clip_range=LinearSchedule(0.1, 0.0, 1.0),
        ent_coef=0.01,
        rollout_buffer_class=buffer,
        rollout_buffer_kwargs=options,
        device=given.device,
        seed=given.seed,
        verbose=given.verbose,
    )


def dqn(env: Any, given: argparse.Namespace, buffer: type[BaseBuffer], options: dict[str, Any]) -> DQN:
    return DQN(
        "CnnPolicy",
        env,
        buffer_size=140 if given.smoke else given.buffer_size,
        learning_starts=min(100_000, given.steps // (2 if given.smoke else 10)),
        train_freq=1,  # of a step in four environments, which is a gradient for every four transitions
        target_update_interval=1_000,
        exploration_fraction=0.1,
        exploration_final_eps=0.01,
        replay_buffer_class=buffer,
        replay_buffer_kwargs=options,
        device=given.device,
        seed=given.seed,
        verbose=given.verbose,
    )


def train(given: argparse.Namespace, kind: str) -> PPO | DQN:
    """A model that has learned with one kind of buffer."""
    n_envs = 2 if given.smoke else {"ppo": 8, "dqn": 4}[given.algorithm]
    env = make_env(f"{given.game}NoFrameskip-v4", n_envs, DummyVecEnv, framestack=given.framestack, seed=given.seed)
    options = {} if kind == "raw" else {"codec": given.codec}
    model = {"ppo": ppo, "dqn": dqn}[given.algorithm](env, given, BUFFERS[given.algorithm][kind], options)
    callback = None if kind == "raw" else BufferStatsCallback()
    start = time.perf_counter()
    model.learn(given.steps, callback=callback, log_interval=10, progress_bar=True)
    seconds = time.perf_counter() - start
    env.close()
    games = [episode["r"] for episode in model.ep_info_buffer]
    score = f"mean score of the last {len(games)} games {safe_mean(games):,.1f}" if games else "no game has ended"
    rate = f"{seconds:,.0f} s, {model.num_timesteps / seconds:,.0f} steps a second"
    print(f"{kind:>10}: {rate}, {score}", flush=True)
    return model


def buffer_of(model: PPO | DQN) -> Any:
    return model.rollout_buffer if isinstance(model, PPO) else model.replay_buffer


def memory_usage(buffer: Any) -> MemoryUsage:
    """What a buffer holds, SB3's own too."""
    if hasattr(buffer, "memory_usage"):
        usage: MemoryUsage = buffer.memory_usage()
        return usage
    names = ("observations", "next_observations")
    arrays = [getattr(buffer, name) for name in names if hasattr(buffer, name)]
    transitions, capacity = buffer.size() * buffer.n_envs, buffer.buffer_size * buffer.n_envs
    keys = {"": usage_of(arrays, transitions, buffer.observation_space.sample().nbytes)}
    others = [part.nbytes for name, part in vars(buffer).items() if name not in names and hasattr(part, "nbytes")]
    return MemoryUsage(transitions, capacity, keys, sum(others))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--algorithm", choices=BUFFERS, default="ppo")
    options.add_argument("--game", default="Pong", help="Pong, MsPacman, or any other that ale-py has")
    options.add_argument("--buffer", choices=("compressed", "gpu", "raw"), default="compressed")
    options.add_argument("--codec", default="auto", help="of a compressed buffer: auto, delta, delta-zstd, zstd-3 …")
    options.add_argument("--steps", type=int, default=1_000_000, help="of all environments together")
    options.add_argument("--buffer-size", type=int, default=100_000, help="transitions that DQN replays")
    options.add_argument("--framestack", type=int, default=4, help="frames in an observation")
    options.add_argument("--device", default="auto", help="where the network is and, with --buffer gpu, the buffer")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="the model's file; by default such as ppo-Pong.zip")
    options.add_argument("--compare", action="store_true", help="train with the raw buffer too, and compare weights")
    options.add_argument("--verbose", action="store_true", help="SB3's log, with what the buffer holds")
    options.add_argument("--smoke", action="store_true", help="a short run, with --compare on a CPU")
    given = options.parse_args()
    if given.smoke:
        given.steps, given.device, given.compare = 160, "cpu", True

    print(f"{given.algorithm.upper()} on {given.game}, {given.steps:,} steps", flush=True)
    model = train(given, given.buffer)
    out = given.out or Path(f"{given.algorithm}-{given.game}.zip")
    model.save(out)
    if given.compare and given.buffer != "raw":
        # On a GPU, two trainings with the same buffer differ as well: sums are not in the same order there.
        weights, control = model.policy.state_dict(), train(given, "raw").policy.state_dict()
        assert all(torch.equal(weights[name], control[name]) for name in control), "the weights are not the same"
        print(f"The {sum(part.numel() for part in control.values()):,} weights are the same, bit for bit.")
    usage = memory_usage(buffer_of(model))
    if given.buffer != "raw" and given.codec == "auto":
        most = usage.raw / (10 if given.smoke else 20)  # first frames, and tables, weigh more in a small buffer
        assert usage.stored < most, f"{usage.stored:,} bytes of {usage.raw:,}"
    print(f"saved as {out}\n{type(buffer_of(model)).__name__}: {usage}")


if __name__ == "__main__":
    main()
