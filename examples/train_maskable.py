"""PPO on MsPacman with all eighteen actions of an Atari console, of which masks leave those that the game knows.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,contrib,progress]"
    python -m examples.train_maskable
    python -m examples.train_maskable --smoke    # seconds, and learns nothing

One network can play any game this way. It fails unless every action in the buffer is one that its mask allows, and the
observations take less than a twentieth of their bytes. With `--compare`, and with `--smoke`, it trains once more with
sb3-contrib's own buffer, and fails unless both end with the same weights, bit for bit. A million steps take as long as
those of PPO in `train_atari`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.utils import LinearSchedule, safe_mean
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecTransposeImage

from compressed_array_sb3 import CompressedMaskableRolloutBuffer


class KnownActions(gym.Wrapper[Any, Any, Any, Any]):
    """Says which actions the game knows, by the method that MaskablePPO asks for."""

    def action_masks(self) -> np.ndarray:
        console = self.unwrapped.ale
        return np.isin(console.getLegalActionSet(), console.getMinimalActionSet())


def make_game(**options: Any) -> gym.Env[Any, Any]:
    gym.register_envs(ale_py)
    return KnownActions(gym.make("MsPacmanNoFrameskip-v4", full_action_space=True, **options))


def train(buffer: type[MaskableRolloutBuffer], given: argparse.Namespace) -> MaskablePPO:
    games = make_atari_env(make_game, 2 if given.smoke else 8, seed=given.seed, vec_env_cls=DummyVecEnv)
    env = VecTransposeImage(VecFrameStack(games, 4))
    model = MaskablePPO(
        "CnnPolicy",
        env,
        n_steps=40 if given.smoke else 128,
        batch_size=80 if given.smoke else 256,
        n_epochs=1 if given.smoke else 4,
        learning_rate=LinearSchedule(2.5e-4, 0.0, 1.0),
        clip_range=LinearSchedule(0.1, 0.0, 1.0),
        ent_coef=0.01,
        rollout_buffer_class=buffer,
        device=given.device,
        seed=given.seed,
    )
    start = time.perf_counter()
    model.learn(given.steps, progress_bar=True)
    seconds = time.perf_counter() - start
    env.close()
    over = [episode["r"] for episode in model.ep_info_buffer]
    score = f"mean score of the last {len(over)} games {safe_mean(over):,.1f}" if over else "no game has ended"
    rate = f"{seconds:,.0f} s, {model.num_timesteps / seconds:,.0f} steps a second"
    print(f"{buffer.__name__}: {rate}, {score}", flush=True)
    return model


def check_masks(buffer: CompressedMaskableRolloutBuffer) -> None:
    """Fails unless masks and actions in the buffer are those of the game."""
    known = make_game().action_masks()
    taken = buffer.actions.astype(int).ravel()
    assert buffer.action_masks.shape == (len(taken), len(known))
    assert (buffer.action_masks == known).all()
    assert known[taken].all(), "an action was taken that its mask does not allow"
    print(f"{len(taken):,} actions, all of the {known.sum()} in {len(known)} that the game knows")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=1_000_000, help="of all environments together")
    options.add_argument("--device", default="auto")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--compare", action="store_true", help="train with the raw buffer too, and compare weights")
    options.add_argument("--smoke", action="store_true", help="a short run, with --compare on a CPU")
    given = options.parse_args()
    if given.smoke:
        given.steps, given.device, given.compare = 160, "cpu", True

    model = train(CompressedMaskableRolloutBuffer, given)
    check_masks(model.rollout_buffer)
    if given.compare:
        weights, control = model.policy.state_dict(), train(MaskableRolloutBuffer, given).policy.state_dict()
        assert all(torch.equal(weights[name], control[name]) for name in control), "the weights are not the same"
        print(f"The {sum(part.numel() for part in control.values()):,} weights are the same, bit for bit.")
    usage = model.rollout_buffer.memory_usage()
    assert usage.stored < usage.raw / 20, f"{usage.stored:,} bytes of {usage.raw:,}"
    print(f"{type(model.rollout_buffer).__name__}: {usage}")


if __name__ == "__main__":
    main()
