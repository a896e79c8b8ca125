"""PPO with an LSTM on Pong, one frame at a time: what moves where, it has to remember.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,contrib,progress]"
    python -m examples.train_recurrent
    python -m examples.train_recurrent --smoke    # seconds, and learns nothing

sb3-contrib's `RecurrentPPO` lets nobody choose its buffer; `CompressedRecurrentPPO` is the same with a compressed one.
It fails unless the frames take less than a twentieth of their bytes. With `--compare`, and with `--smoke`, it trains
once more with `RecurrentPPO`, and fails unless both end with the same weights, bit for bit. "Everything else" in the
report are mostly the states of the LSTM, which stay plain: numbers that look random.
"""

from __future__ import annotations

import argparse
import time

import torch
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.utils import LinearSchedule, safe_mean
from stable_baselines3.common.vec_env import DummyVecEnv

from compressed_array_sb3 import CompressedRecurrentPPO
from compressed_array_sb3.training_utils.atari import make_env


def train(algorithm: type[RecurrentPPO], given: argparse.Namespace) -> RecurrentPPO:
    env = make_env("PongNoFrameskip-v4", 2 if given.smoke else 8, DummyVecEnv, framestack=None, seed=given.seed)
    model = algorithm(
        "CnnLstmPolicy",
        env,
        n_steps=40 if given.smoke else 128,
        batch_size=80 if given.smoke else 256,
        n_epochs=1 if given.smoke else 4,
        learning_rate=LinearSchedule(2.5e-4, 0.0, 1.0),
        clip_range=LinearSchedule(0.1, 0.0, 1.0),
        ent_coef=0.01,
        policy_kwargs={
            "lstm_hidden_size": 64 if given.smoke else 256,
            "enable_critic_lstm": False,
            "shared_lstm": True,
        },
        device=given.device,
        seed=given.seed,
    )
    start = time.perf_counter()
    model.learn(given.steps, progress_bar=True)
    seconds = time.perf_counter() - start
    env.close()
    games = [episode["r"] for episode in model.ep_info_buffer]
    score = f"mean score of the last {len(games)} games {safe_mean(games):,.1f}" if games else "no game has ended"
    rate = f"{seconds:,.0f} s, {model.num_timesteps / seconds:,.0f} steps a second"
    print(f"{algorithm.__name__}: {rate}, {score}", flush=True)
    return model


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=1_000_000, help="of all environments together")
    options.add_argument("--device", default="auto")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--compare", action="store_true", help="train with RecurrentPPO too, and compare weights")
    options.add_argument("--smoke", action="store_true", help="a short run, with --compare on a CPU")
    given = options.parse_args()
    if given.smoke:
        given.steps, given.device, given.compare = 160, "cpu", True

    model = train(CompressedRecurrentPPO, given)
    if given.compare:
        weights, control = model.policy.state_dict(), train(RecurrentPPO, given).policy.state_dict()
        assert all(torch.equal(weights[name], control[name]) for name in control), "the weights are not the same"
        print(f"The {sum(part.numel() for part in control.values()):,} weights are the same, bit for bit.")
    usage = model.rollout_buffer.memory_usage()
    # First frames, and tables, weigh more in a small buffer.
    assert usage.stored < usage.raw / (5 if given.smoke else 20), f"{usage.stored:,} bytes of {usage.raw:,}"
    print(f"{type(model.rollout_buffer).__name__}: {usage}")


if __name__ == "__main__":
    main()
