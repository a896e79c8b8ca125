"""SB3's replay buffers, compressed, with transitions drawn in proportion to how much there was to learn from them.

Which transitions are drawn is decided here, by `compressed_array.sampling`; what a transition is, SB3's code says, as
in all compressed buffers. With `alpha=0` every transition is as likely as any other, and then they are drawn as SB3
draws them: the same under the same seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.buffers import BaseBuffer, NStepReplayBuffer

from compressed_array.errors import PriorityError
from compressed_array.sampling import PriorityTree, Ring, importance_weights, priorities_of
from compressed_array.usage import MemoryUsage
from compressed_array_sb3._chosen_envs import per_step_fields, twin_in_envs
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3._priorities import check_exponents, still_held
from compressed_array_sb3._weighted_loss import current_training
from compressed_array_sb3.errors import BufferOptionError, PrioritiesWarning
from compressed_array_sb3.replay import (
    CompressedDictNStepReplayBuffer,
    CompressedDictReplayBuffer,
    CompressedNStepReplayBuffer,
    CompressedReplay,
    CompressedReplayBuffer,
)

__all__ = [
    "CompressedPrioritizedDictNStepReplayBuffer",
    "CompressedPrioritizedDictReplayBuffer",
    "CompressedPrioritizedNStepReplayBuffer",
    "CompressedPrioritizedReplayBuffer",
    "PrioritizedReplay",
    "PrioritizedReplayBufferSamples",
]

Ints = npt.NDArray[np.int64]
WARN_AFTER = 1000  # batches


class PrioritizedReplayBufferSamples(NamedTuple):
    """SB3's samples, with the weight of each transition's loss and its number for `update_priorities`.

    Of Dict observations there is a tensor for each key. `weights` are in a column, as rewards are. `indices` are an
    array of the host, which can be read only.
    """

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: torch.Tensor | None
    weights: torch.Tensor
    indices: Ints


class PrioritizedReplay(CompressedReplay):
    """What the prioritized buffers share. It comes before a compressed replay buffer in a list of bases.

    A transition is drawn with probability p^alpha, where p is what `update_priorities` was told, plus epsilon; new ones
    have the largest p there was so far. One out of each of `batch_size` equal parts of all is drawn.

    Args:
        alpha: How much priorities count; 0 for not at all, and then draws are those of SB3's buffer.
        beta: How much `weights` correct for that: 1 for wholly. As all schedules of SB3 it may be a function of
            `progress_remaining`, which goes from 1 to 0, and which `PrioritizedDQN` sets.
        epsilon: What is added to each error, so that none is zero.
    """

    _ring: Ring
    _tree: PriorityTree
    _largest: float  # priority there was so far, to the power of alpha
    _unanswered: int  # batches since somebody told of errors
    _fields: tuple[str, ...] | None  # that have an item for each transition; None until they are looked for
    _last: tuple[Ints, Ints, int]  # numbers and places of the last batch, and what steps there were

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        beta: float | Callable[[float], float] = 0.4,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        check_exponents(alpha, epsilon)
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon
        self.progress_remaining = 1.0
        self.current_beta  # noqa: B018 - refuses one that is wrong
        super().__init__(*args, **kwargs)

    @property
    def priorities(self) -> PriorityTree:
        """Returns what transitions are drawn in proportion to, those of a row's environments one after the other."""
        return self._tree

    @property
    def current_beta(self) -> float:
        """Returns `beta` at the progress that remains."""
        beta = self.beta(self.progress_remaining) if callable(self.beta) else self.beta
        if not 0 <= beta < np.inf:
            raise BufferOptionError(f"beta is not negative, and with {self.progress_remaining:g} to go it is {beta}")
        return beta

    @classmethod
    def from_buffer(cls, stock: BaseBuffer, **options: Any) -> Self:
        """Returns a buffer with what one of SB3's holds, all of which has one priority; `stock` stays as it is."""
        made = super().from_buffer(stock, **options)
        made._ring.advance(made.pos + made.buffer_size * made.full)
        made._tree.update(np.arange(made._ring.count), made._largest)
        return made

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        super().add(obs, next_obs, action, reward, done, infos)
        # Until SB3's position and not by one step, so that a step after which an interrupt came is not left out.
        ring = self._ring
        steps = (self.pos - ring.row) % self.buffer_size or self.buffer_size
        first = ring.row * self.n_envs
        places = np.arange(first, first + steps * self.n_envs)
        self._tree.update(places if steps == 1 else places % ring.size, self._largest)
        ring.advance(steps)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Returns transitions drawn by priority, with their weights and numbers.

        Args:
            batch_size: How many.
            env: A VecNormalize to normalize them by, as in SB3.
        """
        if not self.size():
            super().sample(batch_size, env=env)  # which says so
        places = self._draw(batch_size)
        direct = self._direct_sampler(env)
        samples = self._samples_at(places, env) if direct is None else self._converted(direct.samples_at(places))
        weights = importance_weights(self._tree, places, self.current_beta)
        column = torch.from_numpy(weights[:, None]).to(self.device)
        numbers = self._ring.number_at(places)
        numbers.flags.writeable = False  # so that they are known again: nobody can have changed them
        self._last = numbers, places, self._ring.steps
        made = PrioritizedReplayBufferSamples(*samples, weights=column, indices=numbers)  # type: ignore[misc]  # of six
        self._unanswered += 1
        if self._unanswered == WARN_AFTER and self.alpha:
            self._warn()
        training = current_training(self)
        return made if training is None else training.add_batch(made)

    def update_priorities(self, indices: Any, td_errors: Any) -> None:
        """Sets the priorities of transitions by how far off their values were.

        Transitions that were written over meanwhile are left out.

        Args:
            indices: What `indices` of the samples says.
            td_errors: An error for each; their signs do not matter.
        """
        numbers, errors = _on_host(indices), _on_host(td_errors)
        if numbers.shape != errors.shape:
            raise PriorityError(f"{len(errors)} errors for {len(numbers)} transitions: give one for each of indices")
        known, places, steps = self._last
        if numbers is not known or steps != self._ring.steps:
            is_held = still_held(self._ring, numbers)
            places, errors = self._ring.positions(numbers[is_held]), errors[is_held]
        priorities = priorities_of(errors, self.alpha, self.epsilon)
        self._tree.update(places, priorities)
        self._largest = max(self._largest, float(np.maximum.reduce(priorities, initial=0.0)))
        self._unanswered = 0

    def memory_usage(self) -> MemoryUsage:
        usage = super().memory_usage()
        return replace(usage, rest=usage.rest + self._tree.nbytes)

    def _draw(self, batch_size: int) -> Ints:
        """Returns places of transitions, drawn by the generator that SB3 draws from."""
        if self.alpha:
            return self._tree.draw(np.random.random(batch_size))  # noqa: NPY002 - what SB3 draws from
        rows = np.random.randint(0, self.size(), size=batch_size)  # noqa: NPY002 - likewise
        return rows * self.n_envs + np.random.randint(0, self.n_envs, size=batch_size)  # noqa: NPY002 - likewise

    def _samples_at(self, places: Ints, env: Any) -> Any:
        """Returns the transitions at places, read by SB3's own code."""
        rows, envs = self._rows(places)
        if self._fields is None:  # not before: a subclass may have some of its own
            self._fields = per_step_fields(self)
        twin = twin_in_envs(self, self._fields, envs, _pairs=self._pairs, to_torch=self._taking_over())
        return twin._get_samples(rows, env=env)

    def _rows(self, places: Ints) -> tuple[Ints, Ints | None]:
        """Returns the rows of places and their environments, or rows of all environments one after the other."""
        if self.n_envs == 1 or (self.is_plain and not isinstance(self, NStepReplayBuffer)):
            return places, None
        rows = places // self.n_envs
        return rows, places - rows * self.n_envs

    def _taking_over(self) -> Callable[[Any], Any]:
        """Returns a `to_torch` that does not copy what SB3 has just gathered, which is nobody else's."""
        if self.device.type == "cpu" and type(self).to_torch is CompressedBuffer.to_torch:
            return torch.from_numpy
        return partial(self.to_torch, copy=False)

    def _allocate(self, before: Any = None) -> None:
        super()._allocate(before)
        # New ones: this is the twin of a buffer that is reset, of which nothing may change until all does.
        self._ring = copy(self._ring) if before is not None else Ring(self.buffer_size, self.n_envs)
        self._ring.clear()
        self._tree = PriorityTree(self._ring.size)
        self._largest, self._unanswered, self._fields = 1.0, 0, None
        self._last = np.empty(0, np.int64), np.empty(0, np.int64), -1

    def _warn(self) -> None:
        warnings.warn(
            f"{WARN_AFTER} batches were drawn from a {type(self).__name__}, and nobody called update_priorities(): "
            "take PrioritizedDQN or PrioritizedQRDQN, which do, or a buffer without priorities",
            PrioritiesWarning,
            stacklevel=3,
        )


class CompressedPrioritizedReplayBuffer(PrioritizedReplay, CompressedReplayBuffer):
    """`CompressedReplayBuffer` with priorities."""


class CompressedPrioritizedDictReplayBuffer(PrioritizedReplay, CompressedDictReplayBuffer):
    """`CompressedDictReplayBuffer` with priorities."""


class CompressedPrioritizedNStepReplayBuffer(PrioritizedReplay, CompressedNStepReplayBuffer):
    """`CompressedNStepReplayBuffer` with priorities: an n-step return has that of the transition it begins with."""


class CompressedPrioritizedDictNStepReplayBuffer(PrioritizedReplay, CompressedDictNStepReplayBuffer):
    """`CompressedDictNStepReplayBuffer` with priorities."""


def _on_host(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.numpy(force=True)
    array = np.asarray(values)
    return array if array.ndim == 1 else array.reshape(-1)
