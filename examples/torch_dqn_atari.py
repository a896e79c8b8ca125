"""DQN on an Atari game in a loop of one's own, with prioritized replay and returns over three steps.

    pip install -e "packages/compressed-array[fast]" -e adapters/torch tqdm gymnasium ale-py opencv-python-headless
    python -m examples.torch_dqn_atari --game RoadRunner
    python -m examples.torch_dqn_atari --smoke    # seconds, and learns nothing

Two minutes on a CPU. It fails unless the buffer holds the game in 3 % of the memory of plain arrays, gives back what
was put in bit by bit, with the right returns over three steps, and DQN makes twice the points of random play. The last
is claimed of RoadRunner alone: most games take longer to learn.
"""

from __future__ import annotations

import argparse
import copy
from collections import deque
from functools import partial
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from torch import nn
from tqdm import tqdm

from compressed_array_torch import Field, PrioritizedReplayBatch, PrioritizedReplayBuffer

ENVS, BATCH, N_STEP, GAMMA = 4, 32, 3, 0.99
STACK = (4, 84, 84)
KEPT = 128  # steps that are kept aside as plain arrays, to compare with

Step = tuple[Any, ...]  # obs, action, reward, terminated, truncated, next_obs of all environments


def make_env(game: str) -> gym.Env[Any, Any]:
    # The preprocessing skips frames itself.
    gym.register_envs(ale_py)
    env = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    return FrameStackObservation(AtariPreprocessing(env), STACK[0])


class QNetwork(nn.Module):
    """The values of all actions, from four frames."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(STACK[0], 16, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 9 * 9, 256),
            nn.ReLU(),
            nn.Linear(256, actions),
        )

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.layers(frames / 255.0)
        return values


def true_next(next_obs: np.ndarray, infos: dict[str, Any]) -> np.ndarray:
    """What each environment showed after its action, also where an episode has ended by it."""
    if "final_obs" not in infos:
        return next_obs
    last = next_obs.copy()
    for i in np.flatnonzero(infos["_final_obs"]):
        last[i] = infos["final_obs"][i]
    return last


def learn(q: QNetwork, target: QNetwork, optimizer: torch.optim.Optimizer, buffer: PrioritizedReplayBuffer) -> None:
    """One step of gradient descent on a batch, whose errors become priorities."""
    batch = buffer.get(BATCH)
    with torch.no_grad():
        # `discounts` has it all: gamma to the number of steps that a return goes over, and 0 behind a termination.
        wanted = batch.rewards + batch.discounts * target(batch.next_observations).amax(1)
    errors = wanted - q(batch.observations).gather(1, batch.actions[:, None]).squeeze(1)
    losses = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
    loss = (batch.weights * losses).mean()  # transitions that are drawn more often count less each time
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    buffer.update_priorities(batch.indices, errors.detach())


def check(batch: PrioritizedReplayBatch, kept: dict[int, Step]) -> int:
    """Compare what a batch has of the steps that were kept aside, in plain Python, and say how many those are."""
    newest, checked = max(kept), 0
    for i, number in enumerate(batch.number.tolist()):
        step, env = divmod(number, ENVS)
        if step not in kept:
            continue
        obs, action = kept[step][:2]
        total, discount = 0.0, 1.0
        for last in range(step, min(step + N_STEP, newest + 1)):
            _, _, reward, terminated, truncated, next_obs = kept[last]
            total, discount = total + discount * float(reward[env]), discount * GAMMA
            if terminated[env] or truncated[env]:
                break
        assert np.array_equal(batch.observations[i].numpy(), obs[env])
        assert np.array_equal(batch.next_observations[i].numpy(), next_obs[env])
        assert batch.actions[i] == action[env]
        assert np.isclose(batch.rewards[i], total)
        assert np.isclose(batch.discounts[i], 0.0 if terminated[env] else discount)
        checked += 1
    return checked


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--game", default="RoadRunner")
    options.add_argument("--steps", type=int, default=24_000, help="of all environments together")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--device", default="cpu", help="where the network is and batches go")
    options.add_argument("--smoke", action="store_true", help="the same in seconds, without having learnt anything")
    given = options.parse_args()
    rounds = 100 if given.smoke else given.steps // ENVS
    warmup = rounds // 10
    rng = np.random.default_rng(given.seed)
    torch.manual_seed(given.seed)

    # By default gymnasium's vector environments spend a step of their own on starting anew, in which the action is
    # ignored: a transition that never was. With SAME_STEP there is none, the new episode's first observation comes with
    # the last reward, and what the old one showed last, which `next_obs` has to be, is in the infos.
    envs = SyncVectorEnv([partial(make_env, given.game)] * ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    actions = int(envs.single_action_space.n)
    q = QNetwork(actions).to(given.device)
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=2.5e-4, eps=1.5e-4)
    buffer = PrioritizedReplayBuffer(
        rounds,
        ENVS,
        STACK,
        (),
        obs_dtype=torch.uint8,
        action_dtype=torch.int64,
        beta=lambda batches: min(1.0, 0.4 + 0.6 * batches / rounds),
        n_step=N_STEP,
        gamma=GAMMA,
        fields={"number": Field((), torch.int64)},
        device=given.device,
        generator=torch.Generator().manual_seed(given.seed),
    )

    kept: deque[tuple[int, Step]] = deque(maxlen=KEPT)
    points = np.zeros(rounds)
    obs, _ = envs.reset(seed=given.seed)
    for number in tqdm(range(rounds), "steps", disable=None):
        epsilon = max(0.05, 1.0 - 2.0 * max(0, number - warmup) / rounds)
        action = rng.integers(actions, size=ENVS)
        if number >= warmup:
            with torch.no_grad():
                greedy = q(torch.as_tensor(obs, device=given.device)).argmax(1).cpu().numpy()
            action = np.where(rng.random(ENVS) < epsilon, action, greedy)
        after, reward, terminated, truncated, infos = envs.step(action)
        next_obs = true_next(after, infos)
        step = (obs, action, np.sign(reward), terminated, truncated, next_obs)
        numbers = number * ENVS + np.arange(ENVS)
        buffer.add(*step[:3], terminated=terminated, truncated=truncated, next_obs=next_obs, number=numbers)
        # The environments use these arrays again.
        kept.append((number, tuple(np.array(part) for part in step)))
        obs, points[number] = after, reward.mean()
        if number >= warmup:
            learn(q, target, optimizer, buffer)
        if number % 250 == 0:
            target.load_state_dict(q.state_dict())
        if number % (rounds // 10) == rounds // 10 - 1:
            lately = 1_000 * points[: number + 1][-rounds // 10 :].mean()
            tqdm.write(f"{(number + 1) * ENVS:8,} steps, epsilon {epsilon:.2f}, {lately:6,.0f} points in 1,000")
    envs.close()

    checked = sum(check(buffer.get(BATCH).to("cpu"), dict(kept)) for _ in range(40))
    assert checked > 0
    print(f"{checked:,} transitions were drawn of which a copy was kept aside, and are equal bit by bit.")
    usage = buffer.memory_usage()
    share = usage.stored / usage.raw
    assert share < (0.06 if given.smoke else 0.03), f"{share:.2%} of plain arrays"
    if given.game == "RoadRunner" and not given.smoke:
        random, learnt = (1_000 * part.mean() for part in (points[:warmup], points[-rounds // 5 :]))
        print(f"1,000 steps make {random:,.0f} points at random and {learnt:,.0f} in the end.")
        assert learnt > 2 * random
    print(repr(buffer))


if __name__ == "__main__":
    main()
