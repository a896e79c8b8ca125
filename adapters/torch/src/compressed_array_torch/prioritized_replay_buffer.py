"""`PrioritizedReplayBuffer`: transitions, drawn in proportion to how much there was to learn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from compressed_array.errors import PriorityError
from compressed_array.sampling import PriorityTree, importance_weights, priorities_of
from compressed_array.usage import MemoryUsage
from compressed_array_torch._base import ResetStrategy
from compressed_array_torch._storage import Chunk, Prepared
from compressed_array_torch._tensors import as_host, as_tensor
from compressed_array_torch.batches import PrioritizedReplayBatch
from compressed_array_torch.errors import BufferOptionError, BufferStateError
from compressed_array_torch.fields import Field
from compressed_array_torch.iteration import Prefetcher
from compressed_array_torch.replay_buffer import Mask, ReplayBuffer
from compressed_array_torch.stats_tracker import StatsTracker

__all__ = ["PrioritizedReplayBuffer"]

STRATA = 2**53  # as many as a float tells apart


class PrioritizedReplayBuffer(ReplayBuffer):
    """A replay buffer that draws a transition with probability p^alpha, where p is what `update_priorities` was told.

    New transitions have the largest priority there was so far. Priorities are kept by the host.

    It takes all arguments of `ReplayBuffer`, and:

    Args:
        alpha: How much priorities count: 0 for not at all.
        beta: How much `weights` correct for it: 1 for wholly; to change it over time, a function of how many batches
            were drawn.
        epsilon: What is added to each error, so that none is zero.

    >>> import torch
    >>> buffer = PrioritizedReplayBuffer(1000, num_envs=2, obs_shape=(3,), action_shape=())
    >>> no, obs = torch.zeros(2, dtype=torch.bool), torch.ones(2, 3)
    >>> buffer.add(obs, torch.zeros(2), torch.zeros(2), terminated=no, next_obs=obs)
    >>> batch = buffer.get(batch_size=16)
    >>> buffer.update_priorities(batch.indices, td_errors=batch.weights - 0.5)
    >>> batch.observations.shape, batch.weights.shape
    (torch.Size([16, 3]), torch.Size([16]))
    """

    def __init__(
        self,
        buffer_size: int,
        num_envs: int,
        obs_shape: Any,
        action_shape: Any,
        stats_tracker: StatsTracker | None = None,
        alpha: float = 0.6,
        beta: float | Callable[[int], float] = 0.4,
        epsilon: float = 1e-6,
        obs_dtype: Any = torch.float32,
        action_dtype: Any = torch.float32,
        device: torch.device | str = "cpu",
        store_device: torch.device | str | None = None,
        reset_strategy: ResetStrategy = ResetStrategy.RECURRENT,
        *,
        codec: Any = "auto",
        fields: Mapping[str, Field] | None = None,
        n_step: int | None = None,
        gamma: float = 0.99,
        generator: torch.Generator | None = None,
    ) -> None:
        if alpha < 0 or epsilon < 0:
            raise BufferOptionError(f"alpha and epsilon are not negative, and these are {alpha} and {epsilon}")
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
            n_step=n_step,
            gamma=gamma,
            generator=generator,
        )
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon
        self._tree = PriorityTree(self._ring.size)
        self._largest = 1.0  # of all priorities so far, to the power of alpha
        self._drawn = 0  # batches

    @property
    def priorities(self) -> PriorityTree:
        """Returns the priorities by which transitions are drawn, by position."""
        return self._tree

    def get(self, batch_size: int, beta: float | None = None) -> PrioritizedReplayBatch:
        """Returns transitions drawn by priority, one out of each of `batch_size` equal parts of them, with weights.

        They are in the order of their rows: shuffle a batch before you cut it into smaller ones.

        Args:
            batch_size: How many.
            beta: What to use instead of the buffer's own `beta`.
        """
        with self._lock.held():
            uniforms = self._words(batch_size).cpu().numpy() % STRATA / STRATA
            places = self._tree.draw(uniforms)
            if beta is None:
                beta = self.beta(self._drawn) if callable(self.beta) else self.beta
            self._drawn += 1
            weights = importance_weights(self._tree, places, beta)
            positions = torch.from_numpy(places).to(self.store_device)
            indices = torch.from_numpy(self._ring.number_at(places))
            return PrioritizedReplayBatch(
                **self._parts(positions),
                indices=indices,
                weights=torch.from_numpy(weights).to(self.device),
            )

    def sample(self, batch_size: int, beta: float | None = None) -> PrioritizedReplayBatch:
        """Returns what `get` returns.

        Args:
            batch_size: How many transitions.
            beta: What to use instead of the buffer's own `beta`.
        """
        return self.get(batch_size, beta)

    def prefetch(self, batch_size: int, ahead: int = 2) -> Prefetcher:
        """Raises `BufferOptionError`: what is drawn depends on priorities that are not known yet.

        Args:
            batch_size: How many transitions a batch would have.
            ahead: How many batches would be decoded ahead.
        """
        raise BufferOptionError(
            "batches by priority cannot be drawn ahead: the priorities they depend on are not known yet"
        )

    def update_priorities(self, indices: Any, td_errors: Any) -> None:
        """Sets the priorities of transitions by how far off their values were.

        Transitions that were written over meanwhile are left out.

        Args:
            indices: The `indices` of the batch.
            td_errors: An error for each; their signs do not matter.
        """
        numbers = as_host(as_tensor(indices)).reshape(-1)
        errors = as_host(as_tensor(td_errors).double()).reshape(-1)
        if numbers.shape != errors.shape:
            raise ValueError(f"{len(errors)} errors for {len(numbers)} transitions")
        if not np.isfinite(errors).all():
            raise PriorityError("errors are finite numbers, and some of these are not: no priority was changed")
        with self._lock.held():
            is_held = self._ring.is_held(numbers)
            priorities = priorities_of(errors[is_held], self.alpha, self.epsilon)
            self._tree.update(self._ring.positions(numbers[is_held]), priorities)
            self._largest = max(self._largest, float(priorities.max(initial=0.0)))

    def memory_usage(self) -> MemoryUsage:
        """Returns how much memory is held now, and how much a buffer that compresses nothing would hold."""
        usage = super().memory_usage()
        return replace(usage, rest=usage.rest + self._tree.nbytes)

    def _empty(self) -> None:
        super()._empty()
        self._tree.clear()
        self._largest = 1.0

    def _add(self, step: Prepared) -> None:
        first = self._ring.steps
        self._draw_none_of(1)
        super()._add(step)
        self._tree.update(self._places(first, 1), self._largest)

    def _write_chunk(self, chunk: Chunk) -> None:
        self._draw_none_of(chunk.steps)
        super()._write_chunk(chunk)

    def _count_steps(self, first: int, ended: Mask) -> None:
        super()._count_steps(first, ended)
        self._tree.update(self._places(first, len(ended)), self._largest)

    def _draw_none_of(self, steps: int) -> None:
        """Gives rows about to be overwritten priority 0, so that a failed write leaves no half-written step to draw."""
        if len(self._ring) + steps > self._ring.capacity:
            self._tree.update(self._places(self._ring.steps, steps), 0.0)

    def _places(self, first: int, steps: int) -> Any:
        """Returns the positions of the transitions of these steps."""
        return self._ring.positions(np.arange(first * self.num_envs, (first + steps) * self.num_envs))

    def _state(self) -> dict[str, Any]:
        priorities = torch.from_numpy(self._tree[np.arange(self._tree.capacity)])
        return super()._state() | {"priorities": priorities, "largest": self._largest, "drawn": self._drawn}

    def _prepare_load(self, state: Mapping[str, Any]) -> list[Callable[[], Any]]:
        ready = super()._prepare_load(state)
        priorities = state.get("priorities")
        if not isinstance(priorities, torch.Tensor) or priorities.shape != (self._tree.capacity,):
            raise BufferStateError(f"the state has no priorities of {self._tree.capacity} transitions")
        tree = PriorityTree(self._tree.capacity)
        try:
            tree.update(np.arange(tree.capacity), priorities.cpu().numpy())
            largest, drawn = float(state["largest"]), int(state["drawn"])
        except (KeyError, TypeError, ValueError) as error:
            raise BufferStateError(f"the state is damaged: {error}") from error
        return [*ready, lambda: self.__dict__.update(_tree=tree, _largest=largest, _drawn=drawn)]
