"""SB3's replay buffers, compressed, with transitions drawn in proportion to how much there was to learn from them.

Which transitions are drawn is decided here, by `compressed_array.sampling`; what a transition consists of, by SB3's own
code, as in all compressed buffers. With `alpha=0` every transition is as likely as any other, and then they are drawn
as SB3 draws them: the same under the same seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.buffers import BaseBuffer

from compressed_array.errors import PriorityError
from compressed_array.sampling import PriorityTree, Ring, importance_weights, priorities_of
from compressed_array.usage import MemoryUsage
from compressed_array_sb3._chosen_envs import per_step_fields, samples_at
from compressed_array_sb3._direct import DirectSampler
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3._priority_arguments import beta_at, check_exponents, exponents_of, still_held
from compressed_array_sb3._weighted_loss import current_training
from compressed_array_sb3.errors import PrioritiesWarning
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

    Of Dict observations there is a tensor for each key. `weights` are of shape (batch, 1), as rewards are. `indices`
    are a read-only numpy array.
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
    have the largest p there was so far. The sum of all is divided into `batch_size` equal parts, and one transition is
    drawn from each, in the order of rows. That makes no difference to a mean over the batch, as in `PrioritizedDQN`,
    but shuffle a batch before you split it. A subclass's `_get_samples` is called as if there were one environment,
    whose fields are those of the environments that were drawn.

    Args:
        alpha: How much priorities count; 0 for not at all, and then draws are those of SB3's buffer.
        beta: How much `weights` correct for that: 1 for wholly. Like SB3's schedules it may be a function of the
            progress that remains, from 1 down to 0. That is the buffer's attribute `progress_remaining`, which stays 1
            unless your own loop sets it; `PrioritizedDQN` has a schedule of its own and sets `beta` by it.
        epsilon: What is added to each error, so that none is zero. Weights are relative to the weight of the least
            priority: where some error is about zero, an error of 1 has the weight `epsilon ** (alpha * beta)`. By the
            defaults of `PrioritizedDQN` that falls to 0.00025 as `beta` goes to 1, and with an epsilon of 1e-2 to 0.06.

    Beside these it takes all arguments of `CompressedBuffer`.
    """

    _ring: Ring
    _tree: PriorityTree
    _largest: float  # of all priorities so far, to the power of alpha
    _unanswered: int  # batches since the last update_priorities()
    _fields: tuple[str, ...] | None  # attributes with an item for each transition; None until they are looked up
    _last: tuple[Ints, Ints, int]  # numbers and places of the last batch, and how many steps there were

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
        """Returns the priorities by which transitions are drawn; the environments of a row come one after the other."""
        return self._tree

    @property
    def current_beta(self) -> float:
        """Returns `beta` at the progress that remains."""
        return beta_at(self.beta, self.progress_remaining)

    @classmethod
    def from_buffer(cls, stock: BaseBuffer, **options: Any) -> Self:
        """Returns a buffer with the transitions of one of SB3's or of a compressed one, all with the same priority.

        Args:
            stock: An object of the class that this one compresses, or of another one that compresses it. It is not
                changed; if it has priorities, they are not taken over.
            options: What else the buffer is made with, such as `alpha`; what a compressed `stock` has of it is the
                default.
        """
        made = super().from_buffer(stock, **options)
        made._count(0)
        return made

    @classmethod
    def _options_of(cls, compressed: CompressedBuffer) -> dict[str, Any]:
        return super()._options_of(compressed) | exponents_of(compressed)

    @classmethod
    def _has_all_of(cls, loaded: CompressedBuffer, options: dict[str, Any]) -> bool:
        return isinstance(loaded, PrioritizedReplay)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        super().add(obs, next_obs, action, reward, done, infos)
        self._count(1)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Returns transitions drawn by priority, with their weights and numbers.

        Args:
            batch_size: How many.
            env: A VecNormalize to normalize them by, as in SB3.
        """
        size = self.size()
        if not size:
            super().sample(batch_size, env=env)  # raises BufferEmptyError
        if size != len(self._ring):
            self._count(0)
        places = self._draw(batch_size)
        direct = None if env is not None else self._direct_reader()
        samples = self._samples_at(places, env) if direct is None else self._converted(direct.samples_at(places))
        weights = importance_weights(self._tree, places, self.current_beta)
        column = torch.from_numpy(weights[:, None]).to(self.device)
        numbers = self._ring.number_at(places)
        numbers.flags.writeable = False  # so that update_priorities may rely on the values of this very array
        self._last = numbers, places, self._ring.steps
        made = PrioritizedReplayBufferSamples(*samples, weights=column, indices=numbers)  # type: ignore[misc]  # six fields
        self._unanswered += 1
        if self._unanswered == WARN_AFTER and self.alpha:
            self._warn()
        training = current_training(self)
        return made if training is None else training.add_batch(made)

    def update_priorities(self, indices: Any, td_errors: Any) -> None:
        """Sets the priorities of transitions by how far off their values were.

        Transitions that were written over meanwhile are left out.

        Args:
            indices: The `indices` of the samples.
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

    def set_exponents(self, alpha: float, epsilon: float) -> None:
        """Sets `alpha` and `epsilon`, and gives each transition the priority that follows from its error with these.

        If `alpha` was 0, the errors are not known, and all transitions get the same priority.

        Args:
            alpha: How much priorities count from now on.
            epsilon: What is added to each error from now on.
        """
        check_exponents(alpha, epsilon)
        if (alpha, epsilon) == (self.alpha, self.epsilon):  # priorities computed again would differ by round-off
            return
        ring = self._ring
        places = ring.positions(np.arange(ring.oldest * ring.lanes, ring.steps * ring.lanes))
        errors = np.append(self._tree[places], self._largest)
        if self.alpha:
            errors = np.maximum(errors ** (1 / self.alpha) - self.epsilon, 0.0)
        priorities = priorities_of(errors, alpha, epsilon)
        self._tree.update(places, priorities[:-1])
        self.alpha, self.epsilon, self._largest = alpha, epsilon, float(priorities[-1])

    def memory_usage(self) -> MemoryUsage:
        usage = super().memory_usage()
        return replace(usage, rest=usage.rest + self._tree.nbytes)

    def _count(self, added: int) -> None:
        """Counts the steps that the ring has not counted yet, `added` or more, and gives them the largest priority."""
        ring = self._ring
        # All up to SB3's position and not only `added`: after an interrupt, there may be a step that was not counted.
        steps = added + (self.pos - ring.row - added) % self.buffer_size
        if min(len(ring) + steps, self.buffer_size) != self.size():  # the position was set from outside
            ring.clear()
            self._tree.clear()
            steps = self.pos + self.buffer_size * self.full
        first = ring.row * self.n_envs
        places = np.arange(first, first + steps * self.n_envs)
        self._tree.update(places if steps == 1 else places % ring.size, self._largest)
        ring.advance(steps)

    def _draw(self, batch_size: int) -> Ints:
        """Returns places of transitions, drawn by the generator that SB3 draws from."""
        if self.alpha:
            return self._tree.draw(np.random.random(batch_size))  # noqa: NPY002 - what SB3 draws from
        rows = np.random.randint(0, self.size(), size=batch_size)  # noqa: NPY002 - likewise
        return rows * self.n_envs + np.random.randint(0, self.n_envs, size=batch_size)  # noqa: NPY002 - likewise

    def _direct_reader(self) -> DirectSampler | None:
        """Returns a reader of all parts of a sample at once, or None; `_direct_sampler` has none for plain arrays."""
        if self._direct is None or not self._direct.is_for(self):
            self._direct = DirectSampler.of(self, self._batch_memory)
        return self._direct

    def _samples_at(self, places: Ints, env: Any) -> Any:
        """Returns the transitions at places, read by SB3's own code, or by that of a subclass."""
        if self._fields is None:  # only now: a subclass may have added some of its own
            self._fields = per_step_fields(self)
        return samples_at(self, self._fields, places, env)

    def _allocate(self, before: Any = None) -> None:
        super()._allocate(before)
        # New objects: this may be the twin that `reset` makes, and the buffer itself must not change yet.
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
    """`CompressedReplayBuffer` with priorities.

    It takes all arguments of `CompressedBuffer` and `PrioritizedReplay`.

    >>> from gymnasium.spaces import Box, Discrete
    >>> buffer = CompressedPrioritizedReplayBuffer(1000, Box(0, 255, (84, 84), "uint8"), Discrete(4), device="cpu")
    >>> obs, action, zeros = np.full((1, 84, 84), 7, np.uint8), np.zeros((1, 1)), np.zeros(1)
    >>> buffer.add(obs, obs, action, zeros, zeros, [{}])
    >>> samples = buffer.sample(16)
    >>> buffer.update_priorities(samples.indices, td_errors=samples.weights)
    >>> samples.observations.shape, samples.weights.shape
    (torch.Size([16, 84, 84]), torch.Size([16, 1]))
    """


class CompressedPrioritizedDictReplayBuffer(PrioritizedReplay, CompressedDictReplayBuffer):
    """`CompressedDictReplayBuffer` with priorities.

    It takes all arguments of `CompressedBuffer` and `PrioritizedReplay`.
    """


class CompressedPrioritizedNStepReplayBuffer(PrioritizedReplay, CompressedNStepReplayBuffer):
    """`CompressedNStepReplayBuffer` with priorities: an n-step return has that of the transition it begins with.

    It takes all arguments of `CompressedBuffer` and `PrioritizedReplay`.
    """


class CompressedPrioritizedDictNStepReplayBuffer(PrioritizedReplay, CompressedDictNStepReplayBuffer):
    """`CompressedDictNStepReplayBuffer` with priorities.

    It takes all arguments of `CompressedBuffer` and `PrioritizedReplay`.
    """


def _on_host(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, torch.Tensor):
        # numpy has no bfloat16, and float32 holds all of its values.
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy(force=True)
    array = np.asarray(values)
    return array if array.ndim == 1 else array.reshape(-1)
