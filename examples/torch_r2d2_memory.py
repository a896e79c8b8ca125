"""A recurrent DQN after R2D2 finds its way through a maze that only shows at the start which way to turn at the end.

    pip install -e "packages/compressed-array[fast]" -e adapters/torch tqdm
    python -m examples.torch_r2d2_memory
    python -m examples.torch_r2d2_memory --smoke    # seconds, and learns nothing

Half a minute on a CPU. It fails unless nine of ten turns are right, where without a memory half of them are at best.
The buffer draws windows out of episodes, each with the recurrent state to begin with, and takes better states back.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from compressed_array_torch import Field, SequenceReplayBuffer

ENVS, BATCH, HIDDEN, GAMMA = 8, 32, 64, 0.97
BURN_IN, LENGTH = 4, 10
FORWARD, UP, DOWN = range(3)


class TMaze:
    """Mazes side by side, each a corridor that ends in a junction. A sign says where to turn, in the first step only.

    Bumping into a wall costs a little. An episode terminates with a turn at the junction, and is truncated if there was
    none for too long.
    """

    side, corridor, limit = 32, 8, 24

    def __init__(self, mazes: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.goal, self.place, self.time = (np.zeros(mazes, np.int64) for _ in range(3))
        self._start(np.ones(mazes, bool))

    def _start(self, which: np.ndarray) -> None:
        self.goal[which] = self.rng.choice([UP, DOWN], which.sum())
        self.place[which] = self.time[which] = 0

    def observe(self) -> np.ndarray:
        """What is to be seen: walls and a pattern that passes by, the sign, the junction."""
        pictures = np.full((len(self.goal), self.side, self.side), 90, np.uint8)
        pictures[:, 11:21] = 20
        pictures[:, [10, 21]] = 140 + 40 * ((np.arange(self.side) + 2 * self.place[:, None, None]) % 4 < 2)
        for i in np.flatnonzero(self.time == 0):
            row = 2 if self.goal[i] == UP else 24
            pictures[i, row : row + 6, 4:10] = 255
        pictures[self.place == self.corridor, :, 24:] = 20
        return pictures

    def step(self, action: np.ndarray) -> tuple[np.ndarray, ...]:
        """The next observations, the last ones of episodes that ended, rewards, and how episodes ended."""
        is_there = self.place == self.corridor
        terminated = is_there & (action != FORWARD)
        moves = ~is_there & (action == FORWARD)
        reward = np.where(terminated, np.where(action == self.goal, 1.0, -1.0), np.where(moves, 0.0, -0.2))
        self.place += moves
        self.time += 1
        truncated = ~terminated & (self.time == self.limit)
        last = self.observe()
        self._start(terminated | truncated)
        return self.observe(), last, reward.astype(np.float32), terminated, truncated


class RecurrentQ(nn.Module):
    """The values of actions, from a picture and a state that goes from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(nn.Flatten(2), nn.Linear(TMaze.side**2, HIDDEN), nn.ReLU())
        self.memory = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.values = nn.Linear(HIDDEN, 3)
        # A GRU forgets half of its state a step as it comes, and with it the gradient; this one about a tenth.
        nn.init.constant_(self.memory.bias_hh_l0[HIDDEN : 2 * HIDDEN], 2.0)

    def forward(self, pictures: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For windows of pictures, (batch, length, side, side): values, and the state after each step."""
        states, _ = self.memory(self.eye(pictures / 255.0), state[None].contiguous())
        return self.values(states), states


def learn(q: RecurrentQ, target: RecurrentQ, optimizer: torch.optim.Optimizer, buffer: SequenceReplayBuffer) -> int:
    """One step of gradient descent on a batch of windows; for how many steps it has brought the state up to date."""
    batch = buffer.get(BATCH)
    # Not in torch.no_grad() for the burn-in: the sign is at the very start, and what remembers it has to learn that.
    values, states = q(batch.observations, batch.hidden)
    taken = values.gather(2, batch.actions[..., None]).squeeze(2)
    with torch.no_grad():
        _, seen = target(batch.observations, batch.hidden)
        # Each next observation is one more step from its own state, so no end of an episode or a window needs care.
        after, _ = target(batch.next_observations.flatten(0, 1)[:, None], seen.flatten(0, 1))
        wanted = batch.rewards + GAMMA * ~batch.terminated * after.amax(2).view_as(batch.rewards)
    # A window that begins with an episode begins with the true state, and needs no burn-in. Without this, the first
    # steps of episodes would never be learnt from.
    mask = batch.learning_mask | (batch.is_valid & batch.is_first[:, :1])
    loss = (mask * (taken - wanted).square()).sum() / mask.sum().clamp(min=1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(q.parameters(), 10.0)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), q.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
    # The state before a step is the one after the step before. Padding and what is gone meanwhile is left out.
    return buffer.update(batch.indices[:, 1:], hidden=states[:, :-1].detach())


def success(q: RecurrentQ, episodes: int, seed: int, *, has_memory: bool) -> float:
    """How many of the episodes end at the right place."""
    mazes = TMaze(episodes, seed)
    obs, hidden = mazes.observe(), torch.zeros(episodes, HIDDEN)
    is_over, is_right = np.zeros(episodes, bool), np.zeros(episodes, bool)
    for _ in range(TMaze.limit):
        with torch.no_grad():
            values, states = q(torch.from_numpy(obs)[:, None], hidden)
        hidden = states[:, 0] * has_memory
        obs, _, reward, terminated, truncated = mazes.step(values[:, 0].argmax(1).numpy())
        is_right |= ~is_over & (reward == 1.0)
        is_over |= terminated | truncated
    return float(is_right.mean())


def check(buffer: SequenceReplayBuffer) -> None:
    """What a batch has to look like, and that what is written back is what is drawn afterwards."""
    batch = buffer.get(BATCH)
    assert batch.observations.shape == (BATCH, BURN_IN + LENGTH, TMaze.side, TMaze.side)
    assert batch.hidden.shape == (BATCH, HIDDEN)  # first_only: the state before the first step of each window
    ends = batch.terminated | batch.truncated
    assert not ends[:, :-1][batch.is_valid[:, 1:]].any()  # no window goes on behind the end of an episode
    assert not batch.observations[~batch.is_valid].any()
    assert not batch.learning_mask[:, :BURN_IN].any()
    assert torch.equal(batch.learning_mask[:, BURN_IN:], batch.is_valid[:, BURN_IN:])
    marks = batch.indices[..., None].expand(-1, -1, HIDDEN).float()
    assert buffer.update(batch.indices, hidden=marks) == len(batch.indices[batch.is_valid].unique())
    again = buffer.get(100 * BATCH)
    is_marked = torch.isin(again.indices[:, 0], batch.indices[batch.is_valid])
    assert is_marked.any()
    assert (again.hidden[is_marked] == again.indices[is_marked, :1]).all()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=24_000, help="of all mazes together")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--smoke", action="store_true", help="the same in seconds, without having learnt anything")
    given = options.parse_args()
    rounds = 60 if given.smoke else given.steps // ENVS
    rng = np.random.default_rng(given.seed)
    torch.manual_seed(given.seed)
    q, target = RecurrentQ(), RecurrentQ()
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    buffer = SequenceReplayBuffer(
        1_000,
        ENVS,
        (TMaze.side, TMaze.side),
        (),
        obs_dtype=torch.uint8,
        action_dtype=torch.int64,
        length=LENGTH,
        burn_in=BURN_IN,
        boundary="pad",
        first_only=("hidden",),
        next_observations=True,
        fields={"hidden": Field((HIDDEN,))},
        generator=torch.Generator().manual_seed(given.seed),
    )

    mazes = TMaze(ENVS, given.seed)
    obs, hidden = mazes.observe(), torch.zeros(ENVS, HIDDEN)
    epsilon = 0.4 ** (1 + 7 * np.arange(ENVS) / (ENVS - 1))  # from curious to greedy, as R2D2 has its actors
    warmup, refreshed = rounds // 20, 0
    for number in tqdm(range(rounds), "steps", disable=None):
        with torch.no_grad():
            values, states = q(torch.from_numpy(obs)[:, None], hidden)
        is_random = (rng.random(ENVS) < epsilon) | (number < warmup)
        action = np.where(is_random, rng.integers(3, size=ENVS), values[:, 0].argmax(1).numpy())
        after, last, reward, terminated, truncated = mazes.step(action)
        # With the state before this step, which is what a window that begins here begins with.
        buffer.add(obs, action, reward, terminated=terminated, truncated=truncated, next_obs=last, hidden=hidden)
        obs, hidden = after, states[:, 0] * torch.from_numpy(~(terminated | truncated))[:, None]
        if number >= warmup:
            refreshed += learn(q, target, optimizer, buffer)
        if number % (rounds // 10) == 0:
            rate = success(q, 200, seed=given.seed + 1, has_memory=True)
            tqdm.write(f"{number * ENVS:7,} steps, {rate:4.0%} right, {refreshed:,} states written back")

    if not given.smoke:
        with_memory, without = (success(q, 500, given.seed + 2, has_memory=has) for has in (True, False))
        print(f"{with_memory:.0%} right with the memory, {without:.0%} without")
        assert without < 0.65 < 0.9 < with_memory
    check(buffer)
    print(repr(buffer))


if __name__ == "__main__":
    main()
