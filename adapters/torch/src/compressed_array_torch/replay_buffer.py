"""`ReplayBuffer`: transitions, each as likely to be drawn as any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from compressed_array.sampling import n_step as n_step_returns
from compressed_array_torch._base import BaseBuffer, ResetStrategy
from compressed_array_torch._storage import Chunk
from compressed_array_torch._tensors import as_host
from compressed_array_torch.batches import ReplayBatch
from compressed_array_torch.errors import BufferOptionError, StepError
from compressed_array_torch.fields import Field
from compressed_array_torch.iteration import BufferDataset, Prefetcher
from compressed_array_torch.stats_tracker import StatsTracker

__all__ = ["ReplayBuffer"]

Mask = npt.NDArray[np.bool_]
ORDERS = (
    "the order of arguments is add(obs, action, reward, done, next_obs, truncated), and these look like "
    "add(obs, action, reward, done, truncated, next_obs); give the last ones by name"
)


class Drawn(NamedTuple):
    """What random numbers have picked, and the state of the buffer at that time."""

    positions: torch.Tensor
    numbers: torch.Tensor
    steps: int
    changes: int


class ReplayBuffer(BaseBuffer):
    """Keeps the last `buffer_size` steps of `num_envs` environments, and draws transitions from them.

    Args:
        buffer_size: How many steps are kept, in each of which all environments act once.
        num_envs: How many environments there are.
        obs_shape: The shape of one observation; a mapping of names to shapes, nested or not, for several.
        action_shape: The shape of one action.
        stats_tracker: The tracker that is told of each step, if any.
        obs_dtype: The dtype of observations, one for all or a mapping like `obs_shape`.
        action_dtype: The dtype of actions.
        device: Where batches go.
        store_device: Where steps are kept; by default on the host.
        reset_strategy: What becomes of a full buffer when another step comes.
        codec: How observations are kept: None uncompressed, "auto" by what is best for them, or a codec of
            `compressed_array` such as "delta", "delta-zstd" or "zstd-3"; a mapping has one for each field by name, with
            dots between the names of nested observations.
        fields: What else is kept of each step: an argument of `add`, and an attribute of batches.
        n_step: Over how many steps returns go; batches then have `discounts`.
        gamma: By what a reward is discounted for each step that it comes later, in such returns.
        generator: The generator to draw with; by default torch's own.

    >>> import torch
    >>> buffer = ReplayBuffer(1000, num_envs=2, obs_shape=(3,), action_shape=())
    >>> no, obs = torch.zeros(2, dtype=torch.bool), torch.ones(2, 3)
    >>> buffer.add(obs, torch.zeros(2), torch.zeros(2), terminated=no, next_obs=obs)
    >>> buffer.get(batch_size=16).observations.shape
    torch.Size([16, 3])
    """

    _is_paired = True
    # In which environments an episode begins with the next step, if that does not follow the last one.
    _begins: Mask | None = None

    def __init__(
        self,
        buffer_size: int,
        num_envs: int,
        obs_shape: Any,
        action_shape: Any,
        stats_tracker: StatsTracker | None = None,
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
        if n_step is not None and not 1 <= n_step <= buffer_size:
            raise BufferOptionError(f"n_step is from 1 to buffer_size, {buffer_size}, not {n_step}")
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
            own_fields={"rewards": torch.float32, "terminated": torch.bool, "truncated": torch.bool},
        )
        self.n_step, self.gamma = n_step, gamma
        self._offsets = torch.arange(n_step or 1, device=self.store_device)

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        done: Any = None,
        next_obs: Any = None,
        truncated: Any = None,
        *,
        terminated: Any = None,
        infos: Mapping[str, Any] | None = None,
        done_reasons: list[str | None] | None = None,
        **fields: Any,
    ) -> None:
        """Keeps a step of all environments: what they showed, what was done, and what came of it.

        Args:
            obs: What the environments showed.
            action: What was done.
            reward: The rewards for it.
            next_obs: What they showed next, the last observation of an episode where one has ended.
            terminated: Which episodes ended by the rules of the environment.
            truncated: Which were cut off by a limit of time, say: values behind them count.
            done: Instead of `terminated`, which episodes ended for one reason or the other.
            infos: Metrics for the tracker.
            done_reasons: Why episodes ended, for the tracker.
            fields: The buffer's own fields, by name.
        """
        has_terminated, is_cut = self._ends(done, terminated, truncated, next_obs)
        values = {"actions": action, "rewards": reward, "terminated": has_terminated, "truncated": is_cut, **fields}
        with self._lock.held():
            self._add_step(self._storage.prepare(obs, next_obs, values), infos, done_reasons)

    def _ends(self, done: Any, terminated: Any, truncated: Any, next_obs: Any) -> tuple[Any, Any]:
        """Returns which episodes were terminated, and which truncated."""
        if next_obs is None:
            raise StepError("next_obs is missing: what the environments showed after the step")
        flags = {(self.num_envs,), (self.num_envs, 1), *([()] if self.num_envs == 1 else [])}
        if truncated is not None and _shape(truncated) not in flags and _shape(next_obs) in flags:
            raise StepError(ORDERS)
        if (done is None) == (terminated is None):
            raise StepError("give either terminated, or done, which says of episodes that they ended for any reason")
        if truncated is None:
            truncated = torch.zeros(self.num_envs, dtype=torch.bool)
        if terminated is not None:
            return terminated, truncated
        cut = self._storage.kind("truncated").tensor(truncated)
        return self._storage.kind("terminated").tensor(done).to(cut.device) & ~cut, cut

    def get(self, batch_size: int) -> ReplayBatch:
        """Returns transitions, drawn with replacement.

        Args:
            batch_size: How many.
        """
        with self._lock.held():
            return ReplayBatch(**self._parts(self._ring.draw(self._words(batch_size))))

    def sample(self, batch_size: int) -> ReplayBatch:
        """Returns what `get` returns.

        Args:
            batch_size: How many transitions.
        """
        return self.get(batch_size)

    def prefetch(self, batch_size: int, ahead: int = 2) -> Prefetcher:
        """Returns an iterator over what `get(batch_size)` would give, decoded ahead by a thread.

        Args:
            batch_size: How many transitions a batch has.
            ahead: How many batches are decoded ahead.
        """
        return Prefetcher(self, batch_size, ahead)

    def dataset(self, batch_size: int, batches: int | None = None) -> BufferDataset:
        """Returns what `get(batch_size)` gives as a dataset for `DataLoader(dataset, batch_size=None)`.

        Args:
            batch_size: How many transitions a batch has.
            batches: How many batches there are; without end by default.
        """
        return BufferDataset(self, batch_size, batches)

    def _draw(self, words: torch.Tensor) -> Drawn:
        """Returns what `get` draws with these random numbers."""
        positions = self._ring.draw(words)
        return Drawn(positions, self._ring.number_at(positions), self._ring.steps, self._changes)

    def _is_unchanged(self, then: Drawn, now: Drawn) -> bool:
        """Whether a batch that was drawn then is still the one that is drawn now."""
        # All the steps that n-step returns go over must have been there already.
        newest = (then.steps - (self.n_step or 1) + 1) * self.num_envs
        is_same = then.changes == now.changes and torch.equal(then.numbers, now.numbers)
        return is_same and (then.steps == now.steps or bool((then.numbers < newest).all()))

    def _batch(self, drawn: Drawn) -> ReplayBatch:
        return ReplayBatch(**self._parts(drawn.positions))

    def _parts(self, positions: torch.Tensor) -> dict[str, Any]:
        """Returns what a batch of the transitions at these positions consists of."""
        last: torch.Tensor | None = None
        returns: dict[str, torch.Tensor] = {}
        if self.n_step is not None:
            last, returns = self._returns(positions)
        without = tuple(returns)
        observations, next_observations, fields = self._storage.transitions(positions, last, without)
        fields |= returns
        return {
            "observations": observations,
            "next_observations": next_observations,
            "extras": {name: fields.pop(name) for name in self._extras},
            **fields,
        }

    def _returns(self, positions: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Returns the positions of the last steps that n-step returns go over, and the fields of batches with these."""
        numbers = self._ring.number_at(positions.reshape(-1))
        steps = self._ring.following(numbers, self._offsets)
        is_held = steps < self._ring.steps * self.num_envs
        places = self._ring.positions(steps)
        small = self._storage.rows.read(places, ("rewards", "terminated", "truncated"))
        cuts = small["truncated"] | self._is_cut(places)
        summed = n_step_returns(small["rewards"], small["terminated"], cuts, self.gamma, is_held)
        last = self._ring.positions(numbers + (summed.lengths - 1) * self.num_envs)
        ends = self._storage.rows.read(last, ("terminated", "truncated"))
        parts = {
            "rewards": summed.returns,
            "discounts": summed.discounts,
            "terminated": ends["terminated"],
            "truncated": ends["truncated"],
        }
        parts = {name: part.reshape(positions.shape).to(self.device) for name, part in parts.items()}
        return last.reshape(positions.shape), parts

    def _is_cut(self, positions: torch.Tensor) -> torch.Tensor:
        """Whether the next row does not continue these steps, although no episode has ended."""
        return torch.zeros_like(positions, dtype=torch.bool)

    def _chunk(self) -> tuple[Chunk, Mask]:
        """Returns the first steps, all of a buffer that has not gone round, and in which of them episodes ended."""
        steps, small = len(self), self._storage.rows.fields
        ended = as_host(small["terminated"] | small["truncated"])[: steps * self.num_envs]
        return self._storage.chunk(steps), ended.reshape(steps, self.num_envs)

    def _write_chunk(self, chunk: Chunk) -> None:
        """Writes the steps of a chunk to the next rows, and counts none of them yet."""
        self._ring.make_room(chunk.steps)
        first = 0
        for rows in self._ring.next_rows(chunk.steps):
            self._storage.write_chunk(rows, chunk, first)
            first += rows.stop - rows.start

    def _count_steps(self, first: int, ended: Mask) -> None:
        """Counts those of the steps from `first` on that are not counted yet; `ended` is of (steps, environments)."""
        self._ring.advance(first + len(ended) - self._ring.steps)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Returns the shape of a value that is not a tree."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)  # numpy would convert it first
    return None if isinstance(value, Mapping) else tuple(np.shape(value))
