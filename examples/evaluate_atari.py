"""Evaluates a model on complete games of Atari, and keeps every transition that it plays in a compressed replay buffer.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,progress]"
    python -m examples.evaluate_atari --algorithm ppo --game Pong --model ppo-Pong.zip
    python -m examples.evaluate_atari --game MsPacman           # without a model it plays at random
    python -m examples.evaluate_atari --smoke                   # seconds

Scores are those of the games themselves, through clipped rewards and lost lives, and each environment plays its share
of them: games that end first are not a fair sample. It fails unless the transitions take less than a twentieth of their
bytes and, of the first of them, come out of SB3's own buffer and of the compressed one as the same samples. The buffer
is what offline learning or imitation begins with: `--out` saves it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.save_util import save_to_pkl
from stable_baselines3.common.vec_env import DummyVecEnv

from compressed_array_sb3 import CompressedReplayBuffer
from compressed_array_sb3.training_utils.atari import make_env
from compressed_array_sb3.training_utils.eval_model import eval_model, report

ALGORITHMS: dict[str, Any] = {"ppo": PPO, "dqn": DQN}


def compare(buffers: list[ReplayBuffer]) -> None:
    """Fails unless buffers give the same samples under the same seed."""
    for seed in range(10):
        samples = []
        for buffer in buffers:
            np.random.seed(seed)  # noqa: NPY002 - what SB3 draws from
            samples.append(buffer.sample(64))
        for name in ("observations", "next_observations", "actions", "rewards", "dones"):
            first, *others = (getattr(sample, name) for sample in samples)
            assert all(torch.equal(first, other) for other in others), f"{name} differ"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--algorithm", choices=ALGORITHMS, default="ppo", help="what the model was trained by")
    options.add_argument("--model", type=Path, help="a file of train_atari; without it, actions are random")
    options.add_argument("--game", default="Pong", help="Pong, MsPacman, or any other that ale-py has")
    options.add_argument("--episodes", type=int, default=100)
    options.add_argument("--envs", type=int, default=8)
    options.add_argument("--buffer-size", type=int, default=1_000_000, help="transitions that are kept")
    options.add_argument("--framestack", type=int, default=4, help="frames in an observation")
    options.add_argument("--device", default="auto")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="a file for the buffer, which load_replay_buffer reads")
    options.add_argument("--smoke", action="store_true", help="two short games")
    given = options.parse_args()
    limit = {"max_num_frames_per_episode": 600} if given.smoke else {}
    if given.smoke:
        given.episodes, given.envs, given.buffer_size = 2, 2, 2_000

    env = make_env(
        f"{given.game}NoFrameskip-v4", given.envs, DummyVecEnv, framestack=given.framestack, seed=given.seed, **limit
    )
    env.action_space.seed(given.seed)
    model = None if given.model is None else ALGORITHMS[given.algorithm].load(given.model, device=given.device)
    where = (env.observation_space, env.action_space, "cpu")
    kept = CompressedReplayBuffer(given.buffer_size, *where, n_envs=given.envs)
    # Beside it the first transitions once more, raw and compressed. Both are rings: what follows goes over them.
    few = [cls(2_000, *where, n_envs=given.envs) for cls in (ReplayBuffer, CompressedReplayBuffer)]
    start = time.perf_counter()
    returns, _ = eval_model(given.episodes, env, model, buffer=[kept, *few])
    print(f"{given.model or 'random actions'} in {given.game}, {time.perf_counter() - start:,.0f} s")
    print(report(returns))

    compare(few)
    usage = kept.memory_usage()
    assert usage.stored < usage.raw / 20, f"{usage.stored:,} bytes of {usage.raw:,}"
    print(f"{few[0].size() * given.envs:,} transitions give the same samples as in SB3's buffer, bit for bit.")
    if given.out is not None:
        save_to_pkl(given.out, kept)
        print(f"saved as {given.out}, {given.out.stat().st_size / 1e6:,.1f} MB")
    print(f"{type(kept).__name__}: {usage}")


if __name__ == "__main__":
    main()
