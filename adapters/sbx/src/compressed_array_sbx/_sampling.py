"""`JaxSampling`: `sample_jax`, drawn uniformly or by priority, decoded ahead or not, for your own loops."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from compressed_array.sampling import PriorityTree
from compressed_array.usage import MemoryUsage
from compressed_array_sb3 import BufferClassError, BufferEmptyError, BufferOptionError
from compressed_array_sb3._direct import is_made_by_sb3
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3._priority_arguments import checked_beta, exponents_of
from compressed_array_sb3.replay import CompressedReplay
from compressed_array_sbx._memory import lend
from compressed_array_sbx._prefetch import PrefetchedBatch, Read
from compressed_array_sbx._sampler import Ints, TransitionSampler
from compressed_array_sbx._to_jax import to_jax
from compressed_array_sbx._transitions import read_observations, small_fields
from compressed_array_sbx.batches import JaxReplaySamples

NOT_CALLED = ("sample", "_get_samples", "to_torch")  # methods of SB3's sampling that `sample_jax` does without
NO_ALPHA = "beta and epsilon are for draws by priority: give the buffer an alpha, as in alpha=0.6"


class JaxSampling(CompressedReplay):
    """What the replay buffers can do besides what SB3's can.

    They take all arguments of `CompressedBuffer`, and:

    Args:
        alpha: How much priorities count in `sample_jax`: 0 for not at all; None for no priorities. `sample`, which
            SBX's own algorithms call, draws uniformly all the same: they know no weights.
        beta: How much `weights` correct for that: 0.4 by default, 1 for wholly.
        epsilon: What is added to each error, so that none is zero: 1e-6 by default. Weights are relative to the weight
            of the least priority, so the smaller it is, the smaller they become as `beta` goes to 1.
    """

    # What `sample_jax` draws by; seeded from numpy's global generator, which SB3 seeds, when it is first used.
    rng: np.random.Generator | None = None
    _added = 0  # steps since the buffer was made, or reset
    _prefetched: PrefetchedBatch | None = None
    _batch_memory = staticmethod(lend)

    def __init__(
        self,
        *args: Any,
        alpha: float | None = None,
        beta: float | None = None,
        epsilon: float | None = None,
        **kwargs: Any,
    ) -> None:
        if alpha is None and (beta, epsilon) != (None, None):
            raise BufferOptionError(NO_ALPHA)
        super().__init__(*args, **kwargs)
        self.alpha = alpha
        self.beta = checked_beta(0.4 if beta is None else beta)
        self.epsilon = 1e-6 if epsilon is None else epsilon
        self._sampler = TransitionSampler(self.buffer_size, self.n_envs, alpha, self.epsilon)

    @classmethod
    def _options_of(cls, compressed: CompressedBuffer) -> dict[str, Any]:
        told = exponents_of(compressed)  # of which a schedule for beta has no place here
        return super()._options_of(compressed) | {name: value for name, value in told.items() if not callable(value)}

    @classmethod
    def _has_all_of(cls, loaded: CompressedBuffer, options: dict[str, Any]) -> bool:
        return isinstance(loaded, JaxSampling) and (options.get("alpha") is None or loaded.alpha is not None)

    @property
    def priorities(self) -> PriorityTree | None:
        """Returns the priorities by which transitions are drawn, by position; None if the buffer has no `alpha`."""
        self._count()
        return self._sampler.tree

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        super().add(obs, next_obs, action, reward, done, infos)
        self._added += 1

    def sample_jax(
        self,
        batch_size: int,
        env: Any = None,
        *,
        beta: float | None = None,
        prefetch: bool = False,
        device: Any = None,
    ) -> JaxReplaySamples:
        """Returns transitions as JAX arrays, drawn by the buffer's own `rng`, by priority if the buffer has an `alpha`.

        They come in no order, so that each part of a batch is a batch, too. SB3's `sample`, `_get_samples` and
        `to_torch` are not called, and a subclass that has one of its own is refused. Rewards of n steps are summed in
        another order than in SB3, and differ from those of `sample` by no more than round-off; all else is equal.

        Args:
            batch_size: How many.
            env: The `VecNormalize` to normalize observations and rewards with.
            beta: What to use instead of the buffer's own `beta`.
            prefetch: Whether a thread is to decode the next batch meanwhile. Batches are the same with and without:
                when the next batch is asked for, it is drawn from the steps that are there then. It helps where
                observations are compressed, and several batches are drawn between steps or the buffer is full. What is
                written to the buffer's arrays by another way than `add` is not noticed in that batch.
            device: The device of JAX that they go to; by default JAX's default device.
        """
        if beta is not None and self.alpha is None:
            raise BufferOptionError(NO_ALPHA)
        beta = checked_beta(self.beta if beta is None else beta)
        if not (vars(self).keys().isdisjoint(NOT_CALLED) and is_made_by_sb3(type(self), NOT_CALLED)):
            raise BufferClassError(
                f"{type(self).__name__} has a {', '.join(NOT_CALLED[:-1])} or {NOT_CALLED[-1]} of its own, which "
                "sample_jax would not call: call sample, and hand its tensors to JAX"
            )
        self._count()
        sampler = self._sampler
        if not sampler.ring.count:
            raise BufferEmptyError("there is nothing to sample yet: add() transitions first")
        words, ahead = self._words(batch_size)
        positions = sampler.draw(words)
        rest = small_fields(self, sampler.ring, positions, env)
        read, steps = self._reader(), (rest.first, rest.last)
        found = read(*steps) if ahead is None else ahead.observations(*steps, read)
        obs, after = (self._shown(part, env) for part in found)
        weights = sampler.weights(positions, beta)
        if prefetch:
            self._prefetched = self._begin(batch_size)
        return JaxReplaySamples(
            observations=to_jax(obs, device),
            actions=to_jax(rest.actions, device),
            next_observations=to_jax(after, device),
            dones=to_jax(rest.dones, device),
            rewards=to_jax(rest.rewards, device),
            discounts=to_jax(rest.discounts, device),
            weights=to_jax(weights, device),
            indices=None if weights is None else rest.first,
        )

    def update_priorities(self, indices: Any, td_errors: Any) -> None:
        """Sets the priorities of transitions by how far off their values were.

        Transitions that were written over meanwhile are left out.

        Args:
            indices: The `indices` of the batch.
            td_errors: An error for each, of JAX or numpy; their signs do not matter.
        """
        self._count()
        self._sampler.update(indices, td_errors)

    def memory_usage(self) -> MemoryUsage:
        usage, tree = super().memory_usage(), self._sampler.tree
        return usage if tree is None else replace(usage, rest=usage.rest + tree.nbytes)

    def reset(self) -> None:
        super().reset()
        self._sampler.clear()
        self._added = 0

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_prefetched"}
        if self._prefetched is not None and self._prefetched.rng is self.rng:  # its words are drawn again
            state["rng"] = deepcopy(self.rng)
            state["rng"].bit_generator.state = self._prefetched.state
        return state

    def _count(self) -> None:
        self._sampler.count(self._added, self.size(), self.pos)

    def _words(self, batch_size: int) -> tuple[Ints, PrefetchedBatch | None]:
        """Returns random words for a batch, and what was decoded ahead for them."""
        ahead, self._prefetched = self._prefetched, None
        if self.rng is None:
            self.rng = np.random.default_rng(np.random.randint(2**31 - 1))  # noqa: NPY002 - the one that SB3 seeds
        if ahead is not None and ahead.rng is self.rng:
            if len(ahead.words) == batch_size:
                return ahead.words, ahead
            self.rng.bit_generator.state = ahead.state
        return self.rng.integers(0, 2**63, batch_size, np.int64), None

    def _begin(self, batch_size: int) -> PrefetchedBatch:
        """Begins to decode the next batch, as it would be drawn now."""
        state = self.rng.bit_generator.state if self.rng is not None else None
        words, _ = self._words(batch_size)
        ring = self._sampler.ring
        rest = small_fields(self, ring, self._sampler.draw(words), None)
        return PrefetchedBatch(self.rng, state, words, rest.first, rest.last, self._reader())

    def _reader(self) -> Read:
        # It refers to the arrays and not to the buffer, which refers to the batch: a cycle would be freed late.
        return partial(read_observations, self.observations, self.next_observations, self._sampler.ring)  # type: ignore[attr-defined]  # of SB3's buffer

    def _shown(self, obs: Any, env: Any) -> Any:
        """Returns observations as `env`, `output_dtype` and `normalize_images` ask for them."""
        obs = self._normalize_obs(obs, env)
        if self.output_dtype == "raw" and not self.normalize_images:
            return obs
        is_dict = isinstance(obs, dict)
        return self._convert({key: as_tensor(part) for key, part in obs.items()} if is_dict else as_tensor(obs), env)


def as_tensor(array: Any) -> torch.Tensor:
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(array)
