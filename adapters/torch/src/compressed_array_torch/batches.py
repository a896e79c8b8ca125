"""What buffers hand out: tensors by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import torch

__all__ = ["Batch", "PrioritizedReplayBatch", "ReplayBatch", "RolloutBatch", "SequenceBatch"]


@dataclass
class Batch:
    """Tensors by name, or trees of them. A buffer's own fields are in `extras`, and attributes as well."""

    extras: dict[str, torch.Tensor] = field(default_factory=dict, kw_only=True)

    def __getattr__(self, name: str) -> Any:
        extras = self.__dict__.get("extras", {})
        if name in extras:
            return extras[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Returns this batch on another device.

        Args:
            device: Where it is to be.
            non_blocking: Whether the host goes on before all is there, which needs memory that is pinned.
        """
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Returns this batch in memory from which a GPU copies without waiting; a DataLoader asks for it."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        return type(self)(**{part.name: _changed(getattr(self, part.name), change) for part in fields(self)})


@dataclass
class ReplayBatch(Batch):
    """Transitions, (batch, ...) each.

    With n-step returns `rewards` are those; `next_observations`, `terminated` and `truncated` are of the last step that
    a return goes over, and `discounts` is what a value of its next observation counts, zero behind a termination.
    """

    observations: Any
    actions: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    next_observations: Any
    discounts: torch.Tensor | None = None

    @property
    def dones(self) -> torch.Tensor:
        """Returns 1.0 where an episode ended, by termination or truncation, else 0.0."""
        return (self.terminated | self.truncated).float()

    @property
    def truncateds(self) -> torch.Tensor:
        """Returns 1.0 where an episode was truncated, else 0.0."""
        return self.truncated.float()


@dataclass
class PrioritizedReplayBatch(ReplayBatch):
    """Transitions with weights, which correct for their different probabilities, and indices, which name them.

    The transition of environment `e` in the step `s` that was added, from 0 on, has the index `s * num_envs + e`. No
    index is used again, but `reset` may leave some out.
    """

    indices: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    weights: torch.Tensor = field(default_factory=lambda: torch.empty(0))


@dataclass
class SequenceBatch(Batch):
    """Windows of steps, (batch, length, ...) each, with the burn-in first.

    Where `is_valid` is False, behind the end of an episode, there is no step and all is zero. `learning_mask` is also
    False in the burn-in. A window that begins with an episode needs no burn-in: to learn from all of it, take
    `learning_mask | is_valid & is_first[:, :1]`. `last_observations`, (batch, ...), come after the last valid step of
    each window. `indices` name steps as those of `PrioritizedReplayBatch` do, and are -1 where there is none.
    """

    observations: Any
    actions: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    last_observations: Any
    is_first: torch.Tensor
    is_valid: torch.Tensor
    learning_mask: torch.Tensor
    indices: torch.Tensor
    next_observations: Any = None
    discounts: torch.Tensor | None = None


@dataclass
class RolloutBatch(Batch):
    """Steps of a rollout, (batch, ...) each."""

    observations: Any
    actions: torch.Tensor
    returns: torch.Tensor
    advantages: torch.Tensor
    values: torch.Tensor
    log_probs: torch.Tensor


def _changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, Mapping):
        return {key: _changed(part, change) for key, part in value.items()}
    return change(value) if isinstance(value, torch.Tensor) else value
