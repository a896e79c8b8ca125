"""Weights for the rows of a loss that SB3's code computes, and errors from it, without a line of that code changed.

A target is computed from a batch's rewards and from the network's own values. So inside `WeightedTraining.during` the
rewards are a tensor of a special class, `RewardTensor`, as is all that torch computes from them, and torch asks that
class what to do (`__torch_function__`) when a loss takes the mean of its rows: there each row gets its weight, and its
error goes to the buffer. Nothing is patched, and no other thread or model sees any of it. A `train` that does not take
exactly one such mean for each batch works in a way that is not known here, and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import torch

from compressed_array_sb3.errors import UnweightedLossError

if TYPE_CHECKING:
    from compressed_array_sb3.prioritized import PrioritizedReplayBufferSamples

P = ParamSpec("P")
MEANS = (torch.mean, torch.Tensor.mean)


class HasPriorities(Protocol):
    """A buffer that takes the errors of batches."""

    def update_priorities(self, indices: Any, td_errors: Any) -> None: ...


class WeightedTraining:
    """One call of an algorithm's `train` on a buffer with priorities."""

    def __init__(self, buffer: HasPriorities) -> None:
        self.buffer = buffer
        self._batches: list[WeightedBatch] = []

    def during(self, train: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls a function that trains, with this as the current training, in a context that ends with the call."""

        def run() -> None:
            _current.set(self)
            train(*args, **kwargs)

        copy_context().run(run)
        self._check()

    def add_batch(self, samples: PrioritizedReplayBufferSamples) -> PrioritizedReplayBufferSamples:
        """Returns a batch with rewards that carry its weights to the loss."""
        self._check()
        self._batches.append(WeightedBatch(self.buffer, samples))
        return samples._replace(rewards=self._batches[-1].target(samples.rewards))

    @property
    def mean_weight(self) -> float:
        """Returns the mean weight of all batches; NaN if there was none."""
        return float(torch.tensor([batch.weights.mean() for batch in self._batches]).mean())

    def _check(self) -> None:
        if self._batches and not self._batches[-1].has_loss:
            raise UnweightedLossError("it took no mean over the rows of a target that it made of a batch's rewards")


class WeightedBatch:
    """The weights of one batch, and whether they went into its loss."""

    def __init__(self, buffer: HasPriorities, samples: PrioritizedReplayBufferSamples) -> None:
        self._buffer, self._indices, self.weights = buffer, samples.indices, samples.weights
        self.has_loss = False

    def target(self, tensor: torch.Tensor) -> RewardTensor:
        """Returns a tensor, with one row for each transition, that remembers this batch."""
        if tensor.shape[:1] != self.weights.shape[:1]:
            raise UnweightedLossError(
                f"it made a tensor of shape {tuple(tensor.shape)} of a batch of {len(self.weights)} before it took the "
                "mean of a loss, so that it is not known any more which row is whose"
            )
        target = tensor.as_subclass(RewardTensor)
        target.batch = self
        return target

    def loss(self, rows: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
        """Returns the mean of a loss, in which each row counts by its weight."""
        if self.has_loss:
            raise UnweightedLossError("it took a second mean over the rows of one batch")
        self.has_loss = True
        self._buffer.update_priorities(self._indices, errors.detach().reshape(len(self.weights), -1).mean(1))
        return (self.weights.reshape(-1, *[1] * (rows.ndim - 1)) * rows).mean()


class RewardTensor(torch.Tensor):
    """Rewards of a batch, and all that is computed from them until the mean of a loss is taken."""

    batch: WeightedBatch | None = None

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        batch = next((part.batch for part in (*args, *options.values()) if isinstance(part, cls)), None)
        if batch is None:
            raise UnweightedLossError(f"it gave a target to {func.__name__} in a way that hides whose it is")
        with torch._C.DisableTorchFunctionSubclass():
            if options.get("reduction") == "mean" and len(args) == 2:  # a loss of torch.nn.functional
                return batch.loss(func(*args, **options | {"reduction": "none"}), (args[0] - args[1]).abs())
            if func in MEANS and len(args) == 1 and not options:  # a loss that `train` has written out itself
                return batch.loss(args[0], args[0])
            result = func(*args, **options)
            return batch.target(result) if isinstance(result, torch.Tensor) else result


_current: ContextVar[WeightedTraining | None] = ContextVar("training", default=None)


def current_training(buffer: HasPriorities) -> WeightedTraining | None:
    """Returns the training on a buffer that this thread is in the middle of, or None."""
    training = _current.get()
    return training if training is not None and training.buffer is buffer else None
