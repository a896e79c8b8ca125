"""MsPacman in Stable-Baselines3's replay buffer and in the compressed one, side by side: `nox -s demo`.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,progress]" matplotlib
    python -m examples.demo
    python -m examples.demo --smoke    # seconds, and its times say nothing

Plays the game, fills both with what comes, compares memory, speed and samples, and trains DQN with each. It takes a
minute or two, and fails unless every sample and every weight are the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from tqdm import tqdm

from compressed_array_sb3 import CompressedReplayBuffer
from compressed_array_sb3.training_utils.atari import make_env

GAME, ENVS = "MsPacmanNoFrameskip-v4", 4
CLASSES: dict[str, type[ReplayBuffer]] = {
    "Stable-Baselines3": ReplayBuffer,
    "compressed": CompressedReplayBuffer,
}
PICTURE = Path("demo.png")


def play(env: VecEnv) -> Iterator[tuple[Any, ...]]:
    """What SB3's algorithms add to a buffer, by random actions; the last observation of an episode is the true one."""
    rng, obs = np.random.default_rng(0), env.reset()
    while True:
        action = rng.integers(env.action_space.n, size=ENVS)
        after, reward, done, infos = env.step(action)
        last = after.copy(order="K")  # as SB3 does: the memory stays channel last
        for i in np.flatnonzero(done):
            last[i] = infos[i]["terminal_observation"]
        yield obs, last, action, reward, done, infos
        obs = after


def timed(times: list[float], work: Callable[..., Any], *args: Any) -> Any:
    start = time.perf_counter()
    result = work(*args)
    times.append((time.perf_counter() - start) * 1e6)
    return result


def fill(transitions: int) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Both buffers with the same stream, and what they cost."""
    env = make_env(GAME, ENVS, vec_env_cls=DummyVecEnv, seed=0)
    buffers: dict[str, Any] = {
        name: cls(transitions, env.observation_space, env.action_space, "cpu", n_envs=ENVS)
        for name, cls in CLASSES.items()
    }
    adds: dict[str, list[float]] = {name: [] for name in buffers}
    steps = play(env)
    # Twice around the ring in turns, so that a busy moment falls on both; only the second time counts.
    for number in tqdm(range(2 * transitions // ENVS), "steps", disable=None):
        step = next(steps)
        # Who comes second finds the observations in the cache, so they take turns at that, too.
        for name in list(buffers)[:: 1 if number % 2 else -1]:
            timed(adds[name], buffers[name].add, *step)
    env.close()
    stock = buffers["Stable-Baselines3"]
    held = {
        "Stable-Baselines3": stock.observations.nbytes + stock.next_observations.nbytes,
        "compressed": buffers["compressed"].memory_usage().stored,
    }
    second = transitions // ENVS
    costs = {name: {"MB": held[name] / 1e6, "add": median(adds[name][second:])} for name in buffers}
    return buffers, costs


def sample(buffers: dict[str, Any], costs: dict[str, dict[str, float]]) -> None:
    """Batches of both, which have to be equal."""
    for batch, rounds in ((32, 200), (256, 50)):
        times: dict[str, list[float]] = {name: [] for name in buffers}
        for seed in range(rounds):
            samples = {}
            for name in list(buffers)[:: 1 if seed % 2 else -1]:
                np.random.seed(seed)  # noqa: NPY002 - what SB3 draws from
                samples[name] = timed(times[name], buffers[name].sample, batch)
            stock, ours = (samples[name] for name in buffers)
            fields = ("observations", "actions", "next_observations", "dones", "rewards")
            assert all(torch.equal(getattr(stock, field), getattr(ours, field)) for field in fields)
        for name in buffers:
            costs[name][f"sample {batch}"] = median(times[name][rounds // 10 :])


def draw(costs: dict[str, dict[str, float]], transitions: int) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
    for ax, measure in zip(axes, ("MB", "add", "sample 32", "sample 256"), strict=True):
        bars = ax.bar(list(costs), [cost[measure] for cost in costs.values()], color=["tab:blue", "tab:red"])
        ax.bar_label(bars, fmt="{:,.1f}" if measure == "MB" else "{:,.0f}")
        ax.set_title("observations held, MB" if measure == "MB" else f"{measure}, us")
        ax.margins(y=0.15)
    fig.suptitle(f"MsPacman, {transitions:,} transitions of {ENVS} environments")
    fig.savefig(PICTURE, dpi=110)


def train(cls: type[ReplayBuffer], steps: int) -> dict[str, torch.Tensor]:
    """The weights of a short training."""
    env = make_env(GAME, 1, seed=1)
    model = DQN(
        "CnnPolicy",
        env,
        buffer_size=1_000,
        learning_starts=200,
        target_update_interval=500,
        replay_buffer_class=cls,
        seed=0,
        device="cpu",
    )
    model.learn(steps, progress_bar=True)
    env.close()
    weights: dict[str, torch.Tensor] = model.policy.state_dict()
    return weights


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--smoke", action="store_true", help="a short run")
    transitions, trained = (400, 240) if options.parse_args().smoke else (8_000, 2_000)
    print(f"Playing {GAME} with {ENVS} environments, the last four frames each …", flush=True)
    buffers, costs = fill(transitions)
    sample(buffers, costs)
    print(f"\n{transitions:,} transitions{'held':>17}{'add 4':>12}{'sample 32':>14}{'sample 256':>14}")
    for name, cost in costs.items():
        times = f"{cost['add']:9.0f} us{cost['sample 32']:11.0f} us{cost['sample 256']:11.0f} us"
        print(f"{name:20}{cost['MB']:10.1f} MB{times}")
    stock, ours = costs.values()
    ratios = (f"{ours[measure] / stock[measure]:.2f}x" for measure in ("add", "sample 32", "sample 256"))
    print("{:31.2f} %{:>12}{:>14}{:>14}".format(100 * ours["MB"] / stock["MB"], *ratios))
    print("Every sample was equal, bit for bit.\n")
    draw(costs, transitions)
    print(f"The picture is in {PICTURE}.")
    print(f"\nTraining DQN for {trained:,} steps with each …", flush=True)
    stock_weights, our_weights = (train(cls, trained) for cls in CLASSES.values())
    same = all(torch.equal(stock_weights[name], our_weights[name]) for name in stock_weights)
    count = sum(weight.numel() for weight in stock_weights.values())
    print(f"The {count:,} weights are {'identical' if same else 'DIFFERENT'}.")
    assert same
    print(repr(buffers["compressed"]))


if __name__ == "__main__":
    main()
