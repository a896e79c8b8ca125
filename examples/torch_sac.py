"""SAC swings a pendulum up: continuous actions, plain vectors as observations, and a limit of time that is no end.

    pip install -e "packages/compressed-array[fast]" -e adapters/torch gymnasium tqdm
    python -m examples.torch_sac
    python -m examples.torch_sac --smoke    # seconds, and learns nothing

Half a minute on a CPU. It fails unless the pendulum ends up much better off than with random actions. Observations
of a few floats stay as they are (`codec="auto"` sees to that); a next observation that is the next step's observation
still costs nothing.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from tqdm import tqdm

from compressed_array_torch import Field, ReplayBatch, ReplayBuffer

BATCH, GAMMA, TAU, LEARNING_RATE = 256, 0.99, 0.005, 1e-3


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, outputs))


class Actor(nn.Module):
    """Draws actions from a normal distribution that is squashed into (-1, 1)."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.body = mlp(observations, 2 * actions)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions, and the logarithms of how likely they were."""
        mean, log_std = self.body(obs).chunk(2, dim=-1)
        normal = Normal(mean, log_std.clamp(-5.0, 2.0).exp())
        raw = normal.rsample()
        # log(1 - tanh(x)^2), in a form that does not round to the logarithm of zero.
        squashing = 2.0 * (np.log(2.0) - raw - nn.functional.softplus(-2.0 * raw))
        return torch.tanh(raw), (normal.log_prob(raw) - squashing).sum(-1)

    @torch.no_grad()
    def best(self, obs: torch.Tensor) -> torch.Tensor:
        """The middle of the distribution."""
        return torch.tanh(self.body(obs).chunk(2, dim=-1)[0])


class Critics(nn.Module):
    """Two estimates of an action's value."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.pair = nn.ModuleList(mlp(observations + actions, 1) for _ in range(2))

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Both, (2, batch)."""
        both = torch.cat([obs, action], dim=-1)
        return torch.stack([critic(both).squeeze(-1) for critic in self.pair])


class SAC:
    """Actor, critics and their targets, and how much randomness is worth."""

    def __init__(self, observations: int, actions: int) -> None:
        self.actor, self.critics = Actor(observations, actions), Critics(observations, actions)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.wanted_entropy = -float(actions)
        parts = (self.actor.parameters(), self.critics.parameters(), [self.log_alpha])
        self.optimizers = [torch.optim.Adam(part, lr=LEARNING_RATE) for part in parts]

    def learn(self, batch: ReplayBatch) -> None:
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            action, log_prob = self.actor(batch.next_observations)
            value = self.targets(batch.next_observations, action).amin(0) - alpha * log_prob
            # `terminated` alone: an episode that ran out of time would have gone on, so what comes after it counts.
            wanted = batch.rewards + GAMMA * ~batch.terminated * value
        critic_loss = (self.critics(batch.observations, batch.actions) - wanted).square().mean(1).sum()
        action, log_prob = self.actor(batch.observations)
        actor_loss = (alpha * log_prob - self.critics(batch.observations, action).amin(0)).mean()
        alpha_loss = -(self.log_alpha * (log_prob.detach() + self.wanted_entropy)).mean()
        for optimizer, loss in zip(self.optimizers, (actor_loss, critic_loss, alpha_loss), strict=True):
            optimizer.zero_grad()
            # The actor's loss goes through the critics, and must not leave its gradient there.
            loss.backward(inputs=optimizer.param_groups[0]["params"])
        for optimizer in self.optimizers:
            optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                slow.lerp_(fast, TAU)


def check(batch: ReplayBatch, added: list[tuple[Any, ...]]) -> None:
    """Compare a batch with what was added."""
    parts = (
        batch.observations,
        batch.actions,
        batch.rewards,
        batch.terminated,
        batch.truncated,
        batch.next_observations,
    )
    for ours, plain in zip(parts, zip(*(added[number] for number in batch.number), strict=True), strict=True):
        assert torch.equal(ours, torch.as_tensor(np.array(plain)).to(ours.dtype))


def episode_returns(env: gym.Env[Any, Any], policy: Any, episodes: int, seed: int) -> float:
    """The mean return of a policy."""
    total = 0.0
    for number in range(episodes):
        obs, _ = env.reset(seed=seed + number)
        ended = False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(policy(obs))
            total, ended = total + float(reward), terminated or truncated
    return total / episodes


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=6_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--smoke", action="store_true", help="the same in seconds, without having learnt anything")
    given = options.parse_args()
    steps = 300 if given.smoke else given.steps
    warmup = min(1_000, steps // 3)
    torch.manual_seed(given.seed)

    env = gym.make("Pendulum-v1")
    env.action_space.seed(given.seed)
    (observations,), (actions,) = env.observation_space.shape, env.action_space.shape
    scale = float(env.action_space.high[0])
    agent = SAC(observations, actions)
    buffer = ReplayBuffer(
        steps,
        1,
        observations,
        actions,
        fields={"number": Field((), torch.int64)},
        generator=torch.Generator().manual_seed(given.seed),
    )

    obs, _ = env.reset(seed=given.seed)
    added: list[tuple[Any, ...]] = []
    for step in tqdm(range(steps), "steps", disable=None):
        if step < warmup:
            action = env.action_space.sample() / scale
        else:
            with torch.no_grad():
                action = agent.actor(torch.as_tensor(obs))[0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(scale * action)
        # Of one environment, nothing needs an axis for environments. It is not reset yet: next_obs is what it showed.
        buffer.add(obs, action, reward, terminated=terminated, truncated=truncated, next_obs=next_obs, number=step)
        added.append((obs, action, reward, terminated, truncated, next_obs))
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step >= warmup:
            agent.learn(buffer.get(BATCH))
        if (step + 1) % (steps // 10) == 0:
            alpha, lately = (
                agent.log_alpha.exp().item(),
                np.mean([reward for _, _, reward, *_ in added[-steps // 10 :]]),
            )
            tqdm.write(f"{step + 1:6,} steps, alpha {alpha:.3f}, {lately:6.2f} a step")

    assert len(buffer) == steps
    check(buffer.get(BATCH), added)
    assert all(torch.isfinite(weight).all() for part in (agent.actor, agent.critics) for weight in part.parameters())
    if not given.smoke:
        random = episode_returns(env, lambda _: env.action_space.sample(), 10, seed=1_000)
        learnt = episode_returns(
            env, lambda obs: scale * agent.actor.best(torch.as_tensor(obs)).numpy(), 10, seed=1_000
        )
        print(f"random actions return {random:.1f}, what was learnt returns {learnt:.1f}")
        assert learnt > 0.5 * random  # both are negative: half the cost at least is gone
    env.close()
    print(repr(buffer))


if __name__ == "__main__":
    main()
