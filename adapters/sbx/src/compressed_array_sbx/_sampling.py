"""`JaxSampling`: `sample_jax`, drawn uniformly or by priority, decoded ahead or not, for loops of one's own."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch

from compressed_array.sampling import PriorityTree
from compressed_array_sb3 import BufferEmptyError, BufferOptionError
from compressed_array_sb3.replay import CompressedReplay
from compressed_array_sbx._memory import lend
from compressed_array_sbx._prefetch import PrefetchedBatch
from compressed_array_sbx._sampler import Ints, TransitionSampler
from compressed_array_sbx._to_jax import to_jax
from compressed_array_sbx._transitions import observations, small_fields
from compressed_array_sbx.batches import JaxReplaySamples


class JaxSampling(CompressedReplay):
    """What the replay buffers can do beside what SB3's can. They take all arguments of the SB3 adapter's buffers, and:

    Args:
        alpha: How much priorities count in `sample_jax`: 0 for not at all; None for no priorities. `sample`, which
            SBX's own algorithms call, draws uniformly all the same: they know no weights.
        beta: How much `weights` correct for that: 1 for wholly.
        epsilon: What is added to each error, so that none is zero.
    """

    # What `sample_jax` draws by; made from numpy's global generator, which SB3 seeds, when it is first used.
    rng: np.random.Generator | None = None
    _added = 0  # steps that nobody has counted yet
    _prefetched: PrefetchedBatch | None = None
    _batch_memory = staticmethod(lend)

    def __init__(
        self, *args: Any, alpha: float | None = None, beta: float = 0.4, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon
        self._sampler = TransitionSampler(self.buffer_size, self.n_envs, alpha, epsilon)

    @property
    def priorities(self) -> PriorityTree | None:
        """Returns what transitions are drawn in proportion to, by position, if the buffer has an `alpha`."""
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

        Args:
            batch_size: How many.
            env: The `VecNormalize` to normalize observations and rewards with.
            beta: What counts in the place of the buffer's own `beta`.
            prefetch: Whether a thread is to decode the next batch meanwhile. Batches are the same with and without:
                what is drawn is looked up when it is asked for. It helps where observations are compressed, and
                several batches are drawn between steps or the buffer is full.
            device: The device of JAX that they go to; its default one if nothing is said.
        """
        if beta is not None and self.alpha is None:
            raise BufferOptionError("beta is for draws by priority: give the buffer an alpha, as in alpha=0.6")
        self._count()
        sampler = self._sampler
        if not sampler.ring.count:
            raise BufferEmptyError("there is nothing to sample yet: add() transitions first")
        words, ahead = self._words(batch_size)
        positions = sampler.draw(words)
        rest = small_fields(self, sampler.ring, positions, env)
        read = partial(observations, self, sampler.ring) if ahead is None else ahead.observations
        obs, after = (self._shown(part, env) for part in read(rest.first, rest.last))
        weights = sampler.weights(positions, self.beta if beta is None else beta)
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
            indices: What `indices` of the batch says.
            td_errors: An error for each, of JAX or numpy; their signs do not matter.
        """
        self._count()
        self._sampler.update(indices, td_errors)

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
        self._added = 0  # last: if an interrupt came before, it is seen that the counts do not agree

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
        return PrefetchedBatch(self.rng, state, words, rest.first, rest.last, partial(observations, self, ring))

    def _shown(self, obs: Any, env: Any) -> Any:
        """Returns observations as `env`, `output_dtype` and `normalize_images` ask for them."""
        obs = self._normalize_obs(obs, env)
        if self.output_dtype == "raw" and not self.normalize_images:
            return obs
        is_dict = isinstance(obs, dict)
        return self._convert({key: as_tensor(part) for key, part in obs.items()} if is_dict else as_tensor(obs), env)


def as_tensor(array: Any) -> torch.Tensor:
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(array)
