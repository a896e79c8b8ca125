"""DQN on a chain with one reward at its end, with uniform replay and with prioritized replay, over several seeds.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[progress]" matplotlib
    python -m examples.train_prioritized            # some minutes
    python -m examples.train_prioritized --smoke    # some seconds, and proves nothing

In each state one of two actions goes on, and the other leads back to the first state; which is which is a secret of the
state. So of what was played at random hardly anything is near the reward, and what matters is to replay that (the task
is a relative of the "blind cliffwalk" in Schaul et al., Prioritized Experience Replay, 2016). Both learners are
`PrioritizedDQN` with the same settings but alpha; with alpha=0 all weights are one, and it is SB3's DQN bit for bit.
Both act at random, so that both see the same steps, and differ in nothing but what they replay. They have learned once
the greedy action is the right one in every state, and stays it for a while.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from tqdm import tqdm

from compressed_array_sb3 import MemoryUsage, PrioritizedDQN

LEARNERS = {"uniform": 0.0, "prioritized": 0.6}  # alpha


class Chain(gym.Env[Any, Any]):
    """States in a row, seen as one-hot vectors."""

    def __init__(self, length: int, seed: int) -> None:
        self.length = length
        # Not by the seed alone, from which the random actions come as well.
        self.secret = np.random.default_rng([seed, length]).integers(2, size=length)
        self.observation_space = spaces.Box(0, 1, (length,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.at = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_right = action == self.secret[self.at]
        is_end = bool(is_right and self.at == self.length - 1)
        self.at = min(self.at + 1, self.length - 1) if is_right else 0
        return self._seen(), float(is_end), is_end, False, {}

    def _seen(self) -> Any:
        return np.eye(self.length, dtype=np.float32)[self.at]


class UntilLearned(BaseCallback):
    """Ends the training once the greedy actions have been right for `in_a_row` looks, and says when that began."""

    def __init__(self, chain: Chain, every: int = 100, in_a_row: int = 5) -> None:
        super().__init__()
        self.chain, self.every, self.in_a_row = chain, every, in_a_row
        self.times_right = 0

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every == 0:
            actions, _ = self.model.predict(np.eye(self.chain.length, dtype=np.float32), deterministic=True)
            self.times_right = self.times_right + 1 if (actions == self.chain.secret).all() else 0
        return self.times_right < self.in_a_row

    @property
    def steps(self) -> int:
        """As many as there were if it was not learned."""
        return self.num_timesteps - max(self.times_right - 1, 0) * self.every


def steps_to_learn(alpha: float, seed: int, length: int, most_steps: int) -> tuple[int, MemoryUsage]:
    """Steps until the chain is learned, or `most_steps`; and what the buffer holds then."""
    chain = Chain(length, seed)
    model = PrioritizedDQN(
        "MlpPolicy",
        chain,
        alpha=alpha,
        epsilon=1e-3,  # steps that were replayed before the reward was found had no error, and have to come again
        learning_rate=1e-2,
        gamma=0.9,
        buffer_size=most_steps,
        learning_starts=200,
        train_freq=4,
        target_update_interval=20,
        exploration_initial_eps=1.0,
        exploration_final_eps=1.0,
        policy_kwargs={"net_arch": []},
        seed=seed,
        device="cpu",
    )
    for net in (model.q_net, model.q_net_target):
        for parameter in net.parameters():
            torch.nn.init.zeros_(parameter)
    # What is left is a table of values that begin at zero: nothing but the reward can tell them apart.
    model.q_net.q_net[-1].bias.requires_grad_(False)
    until = UntilLearned(chain)
    model.learn(most_steps, callback=until, log_interval=10**9)
    return until.steps, model.replay_buffer.memory_usage()


def draw(file: Path, found: dict[str, list[int]], most_steps: int) -> None:
    """The share of seeds that have learned, over the steps."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, steps in found.items():
        learned = sorted(count for count in steps if count < most_steps)
        ax.step([0, *learned], np.arange(len(learned) + 1) / len(steps), where="post", label=name)
    ax.set(xlabel="steps", ylabel="share of seeds that have learned", title="A chain with one reward at its end")
    ax.legend()
    ax.grid(alpha=0.3)
    fig.savefig(file, dpi=120)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=9)
    options.add_argument("--length", type=int, default=10, help="of the chain")
    options.add_argument("--most-steps", type=int, default=30_000)
    options.add_argument("--figure", type=Path, default=Path("train_prioritized.png"))
    options.add_argument("--smoke", action="store_true", help="a tiny run that only shows that it runs")
    given = options.parse_args()
    seeds, length, most_steps = (2, 4, 600) if given.smoke else (given.seeds, given.length, given.most_steps)
    torch.set_num_threads(1)  # of a network this small, more would only wait for each other

    found: dict[str, list[int]] = {name: [] for name in LEARNERS}
    print(f"random steps until a chain of {length} is learned\n")
    print(f"{'seed':>6}" + "".join(f"{name:>14}" for name in LEARNERS))
    for seed in tqdm(range(seeds), "seeds", disable=None):
        for name, alpha in LEARNERS.items():
            steps, usage = steps_to_learn(alpha, seed, length, most_steps)
            found[name].append(steps)
        tqdm.write(f"{seed:6}" + "".join(f"{steps[-1]:14,}" for steps in found.values()))
    medians = {name: statistics.median(steps) for name, steps in found.items()}
    print(f"{'median':>6}" + "".join(f"{median:14,.0f}" for median in medians.values()))
    try:
        draw(given.figure, found, most_steps)
        print(f"\ndrawn in {given.figure}")
    except ImportError:
        print("\nnot drawn: pip install matplotlib")
    if not given.smoke:
        assert medians["prioritized"] < medians["uniform"], "prioritized replay did not learn in fewer steps"
    print(f"\nvectors this short stay plain; with the last seed, the prioritized buffer had\n{usage}")


if __name__ == "__main__":
    main()
