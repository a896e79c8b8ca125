"""`RolloutBuffer`: the steps that one policy has taken, with their returns and advantages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from compressed_array_torch._base import BaseBuffer, ResetStrategy
from compressed_array_torch._tensors import Kind, as_tensor
from compressed_array_torch.batches import RolloutBatch
from compressed_array_torch.errors import BufferOptionError, BufferStateError, NothingToSampleError, StepError
from compressed_array_torch.fields import Field
from compressed_array_torch.stats_tracker import StatsTracker

__all__ = ["RolloutBuffer", "explained_variance"]


class RolloutBuffer(BaseBuffer):
    """Keeps `buffer_size` steps of `num_envs` environments, and hands all of them out in batches, epoch after epoch.

    Advantages are generalized advantage estimates.

    It takes all arguments of `BaseBuffer`, and:

    Args:
        gamma: By what a reward is discounted for each step that it comes later.
        gae_lambda: How far advantages look ahead: 0 for one step, 1 for all of the episode.

    >>> import torch
    >>> buffer = RolloutBuffer(8, num_envs=2, obs_shape=(3,), action_shape=())
    >>> no, zeros = torch.zeros(2, dtype=torch.bool), torch.zeros(2)
    >>> while not buffer.full:
    ...     buffer.add(torch.ones(2, 3), zeros, reward=zeros, terminated=no, value=zeros, log_prob=zeros)
    >>> buffer.compute_returns_and_advantages(last_values=zeros)
    >>> [batch.observations.shape[0] for batch in buffer.get(batch_size=6)]
    [6, 6, 4]
    """

    def __init__(
        self,
        buffer_size: int,
        num_envs: int,
        obs_shape: Any,
        action_shape: Any,
        stats_tracker: StatsTracker | None = None,
        obs_dtype: Any = torch.float32,
        action_dtype: Any = torch.float32,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        device: torch.device | str = "cpu",
        store_device: torch.device | str | None = None,
        reset_strategy: ResetStrategy = ResetStrategy.ERROR,
        *,
        codec: Any = "auto",
        fields: Mapping[str, Field] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if ResetStrategy(reset_strategy) is ResetStrategy.RECURRENT:
            raise BufferOptionError("a rollout is not written over step by step: use ResetStrategy.ERROR or AUTO")
        floats = ("rewards", "values", "log_probs", "final_values", "returns", "advantages")
        super().__init__(
            buffer_size,
            num_envs,
            obs_shape,
            action_shape,
            stats_tracker,
            obs_dtype,
            action_dtype,
            device,
            store_device,
            reset_strategy,
            codec=codec,
            fields=fields,
            generator=generator,
            own_fields=dict.fromkeys(floats, torch.float32) | {"terminated": torch.bool, "truncated": torch.bool},
        )
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self._nothing = torch.zeros(num_envs)
        self._is_computed, self._explained = False, float("nan")

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        done: Any = None,
        value: Any = None,
        log_prob: Any = None,
        *,
        terminated: Any = None,
        truncated: Any = None,
        final_value: Any = None,
        infos: Mapping[str, Any] | None = None,
        done_reasons: list[str | None] | None = None,
        **fields: Any,
    ) -> None:
        """Keeps a step of all environments.

        Args:
            obs: What the environments showed.
            action: What was done.
            reward: The rewards for it.
            terminated: Which episodes ended with this step by the rules of the environment.
            done: Instead of `terminated`, which episodes ended for one reason or the other.
            value: What the policy held `obs` to be worth.
            log_prob: How likely the policy was to take the action, as a logarithm.
            truncated: Which episodes were cut off with this step, by a limit of time, say.
            final_value: The value of the last observation of episodes that were truncated.
            infos: Metrics for the tracker.
            done_reasons: Why episodes ended, for the tracker.
            fields: The buffer's own fields, by name.
        """
        if value is None or log_prob is None:
            raise StepError("value and log_prob are missing: what the policy made of the observation and the action")
        if (done is None) == (terminated is None):
            raise StepError("give either terminated, or done, which says of episodes that they ended for any reason")
        is_cut = self._nothing if truncated is None else truncated
        has_terminated = terminated
        if done is not None:
            cut = self._storage.kind("truncated").tensor(is_cut)
            has_terminated = self._storage.kind("terminated").tensor(done).to(cut.device) & ~cut
        if final_value is None and bool(as_tensor(is_cut).any()):
            raise StepError("an episode was truncated: give final_value, the value of its last observation")
        values = {
            "actions": action,
            "rewards": reward,
            "terminated": has_terminated,
            "truncated": is_cut,
            "values": value,
            "log_probs": log_prob,
            "final_values": self._nothing if final_value is None else final_value,
            "returns": self._nothing,
            "advantages": self._nothing,
            **fields,
        }
        with self._lock.held():
            self._add_step(self._storage.prepare(obs, None, values), infos, done_reasons)
            self._is_computed = False

    def compute_returns_and_advantages(self, last_values: Any, last_dones: Any = None) -> None:
        """Computes returns and advantages, once all of a rollout is there.

        No advantage goes beyond the step that ends an episode. The value behind a termination is 0, that behind a
        truncation is `final_value`.

        Args:
            last_values: The values of the observations after the last step.
            last_dones: Which episodes ended with the last step, if `add` was not told.
        """
        steps = len(self)
        if not steps:
            raise NothingToSampleError
        rewards, values, final_values = map(self._by_step, ("rewards", "values", "final_values"))
        terminated, truncated = map(self._by_step, ("terminated", "truncated"))
        device = rewards.device
        after = Kind("last_values", (), torch.float32, self.num_envs).tensor(last_values).to(device)
        if last_dones is not None:
            ended = Kind("last_dones", (), torch.bool, self.num_envs).tensor(last_dones).to(device)
            terminated = terminated.clone()
            terminated[-1] |= ended & ~truncated[-1]
        advantages = torch.empty_like(rewards)
        advantage = torch.zeros_like(after)
        for step in range(steps - 1, -1, -1):
            worth = torch.where(truncated[step], final_values[step], after)
            worth = torch.where(terminated[step], torch.zeros_like(worth), worth)
            error = rewards[step] + self.gamma * worth - values[step]
            goes_on = ~(terminated[step] | truncated[step])
            advantage = torch.where(goes_on, error + self.gamma * self.gae_lambda * advantage, error)
            advantages[step], after = advantage, values[step]
        self._by_step("advantages").copy_(advantages)
        self._by_step("returns").copy_(advantages + values)
        self._explained = explained_variance(values, advantages + values)  # before anything is normalized
        self._is_computed = True

    def get(self, batch_size: int | None = None, shuffle: bool = True) -> Iterator[RolloutBatch]:
        """Returns an iterator over all steps, once each, in batches of which the last may be smaller.

        Args:
            batch_size: How many steps a batch has; all of them by default.
            shuffle: Whether steps come in random order, instead of in that of time.
        """
        if not self._ring.count:
            raise NothingToSampleError
        if not self._is_computed:
            raise RuntimeError("call compute_returns_and_advantages() before get(): there are no returns yet")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"a batch has at least one element, not {batch_size}")
        return self._batches(batch_size or self._ring.count, shuffle)

    def _batches(self, batch_size: int, shuffle: bool) -> Iterator[RolloutBatch]:
        count, device, steps = self._ring.count, self.store_device, self._ring.steps
        if shuffle:
            where = device if self.generator is None else self.generator.device
            order = torch.randperm(count, generator=self.generator, device=where).to(device)
        else:
            order = torch.arange(count, device=device)
        order = (order + self._ring.oldest * self.num_envs) % self._ring.size
        for positions in torch.split(order, batch_size):
            if self._ring.steps != steps:
                raise RuntimeError(
                    "the rollout has gone on since get() was called: use its batches before the next step"
                )
            fields = self._storage.fields(positions)
            own = {name: fields[name] for name in ("actions", "returns", "advantages", "values", "log_probs")}
            extras = {name: fields[name] for name in self._extras}
            yield RolloutBatch(observations=self._storage.observations(positions), extras=extras, **own)

    def normalize_advantages(self, epsilon: float = 1e-8) -> None:
        """Gives the advantages of all steps a mean of 0 and a standard deviation of 1.

        Args:
            epsilon: What is added to the standard deviation that they are divided by, so that it is not zero.
        """
        self._normalize("advantages", epsilon)

    def normalize_returns(self, epsilon: float = 1e-8) -> None:
        """Gives the returns of all steps a mean of 0 and a standard deviation of 1.

        Args:
            epsilon: What is added to the standard deviation that they are divided by, so that it is not zero.
        """
        self._normalize("returns", epsilon)

    @property
    def explained_variance(self) -> float:
        """Returns how much of the returns' variance the values predicted: 1 for all of it."""
        return self._explained

    @property
    def advantages_mean(self) -> float:
        return float(self._by_step("advantages").mean())

    @property
    def advantages_std(self) -> float:
        return float(self._by_step("advantages").std())

    @property
    def returns_mean(self) -> float:
        return float(self._by_step("returns").mean())

    @property
    def returns_std(self) -> float:
        return float(self._by_step("returns").std())

    def _empty(self) -> None:
        super()._empty()
        self._is_computed, self._explained = False, float("nan")

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"is_computed": self._is_computed, "explained": self._explained}

    def _prepare_load(self, state: Mapping[str, Any]) -> list[Callable[[], Any]]:
        ready, is_computed = super()._prepare_load(state), bool(state.get("is_computed"))
        try:
            explained = float(state["explained"])
        except (KeyError, TypeError, ValueError) as error:
            raise BufferStateError(f"the state is damaged: {error}") from error
        return [*ready, lambda: self.__dict__.update(_is_computed=is_computed, _explained=explained)]

    def _normalize(self, name: str, epsilon: float) -> None:
        field = self._by_step(name)
        if field.numel() > 1:  # a single value has no standard deviation
            field.copy_((field - field.mean()) / (field.std() + epsilon))

    def _by_step(self, name: str) -> torch.Tensor:
        """Returns a field of all steps that are held, (steps, environments), in the order of time."""
        field = self._storage.rows.fields[name].view(self._ring.capacity, self.num_envs)
        return field[: len(self)]


def explained_variance(y_pred: torch.Tensor, y_true: torch.Tensor) -> float:
    """Returns 1 - Var(y_true - y_pred) / Var(y_true): 1 for a perfect forecast, 0 for a constant one.

    It is NaN if nothing varies.

    Args:
        y_pred: What was predicted.
        y_true: What was observed.

    >>> import torch
    >>> explained_variance(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
    1.0
    """
    variance = torch.var(y_true.float(), correction=0)
    if variance == 0:
        return float("nan")
    return float(1 - torch.var(y_true.float() - y_pred.float(), correction=0) / variance)
