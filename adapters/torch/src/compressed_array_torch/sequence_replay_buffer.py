"""`SequenceReplayBuffer`: windows of steps that follow each other, for recurrent policies and world models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from compressed_array.sampling import Ring, WindowBatch, Windows
from compressed_array.usage import MemoryUsage
from compressed_array_torch._base import ResetStrategy
from compressed_array_torch._storage import Prepared
from compressed_array_torch._tensors import as_bits, as_host, as_tensor
from compressed_array_torch.batches import SequenceBatch
from compressed_array_torch.errors import BufferOptionError, BufferStateError, StepError
from compressed_array_torch.fields import Field
from compressed_array_torch.replay_buffer import Mask, ReplayBuffer
from compressed_array_torch.stats_tracker import StatsTracker

__all__ = ["SequenceReplayBuffer"]


class DrawnWindows(NamedTuple):
    """What random numbers have picked, and the state of the buffer at that time."""

    windows: WindowBatch
    steps: int
    changes: int


class SequenceReplayBuffer(ReplayBuffer):
    """A replay buffer that draws windows of `burn_in + length` steps, which begin anywhere and overlap.

    It takes all arguments of `ReplayBuffer`, and:

    Args:
        length: How many steps of a window are learnt from.
        burn_in: How many come before, to have a recurrent state catch up.
        boundary: What happens where an episode ends: "stop" draws no window that goes on behind it, "pad" draws any and
            fills up with nothing, "cross" goes on with the next episode.
        first_only: Fields of which only the value at the first step of a window is wanted, such as the recurrent state
            to begin with: (batch, *shape).
        next_observations: Whether batches have the observation after each step, which most learners take from the step
            after; with `n_step` they always do.

    >>> import torch
    >>> buffer = SequenceReplayBuffer(1000, num_envs=2, obs_shape=(3,), action_shape=(), length=4, burn_in=2)
    >>> no, obs = torch.zeros(2, dtype=torch.bool), torch.ones(2, 3)
    >>> for _ in range(10):
    ...     buffer.add(obs, torch.zeros(2), torch.zeros(2), terminated=no, next_obs=obs)
    >>> batch = buffer.get(batch_size=16)
    >>> batch.observations.shape, batch.learning_mask[0].tolist()
    (torch.Size([16, 6, 3]), [False, False, True, True, True, True])
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
        device: torch.device | str = "cpu",
        store_device: torch.device | str | None = None,
        reset_strategy: ResetStrategy = ResetStrategy.RECURRENT,
        *,
        length: int,
        burn_in: int = 0,
        boundary: Any = "stop",
        first_only: Sequence[str] = (),
        next_observations: bool = False,
        codec: Any = "auto",
        fields: Mapping[str, Field] | None = None,
        n_step: int | None = None,
        gamma: float = 0.99,
        generator: torch.Generator | None = None,
    ) -> None:
        if length < 1 or burn_in < 0:
            raise BufferOptionError(f"length is from 1 on and burn_in from 0, not {length} and {burn_in}")
        unknown = sorted(set(first_only) - set(fields or ()))
        if unknown:
            raise BufferOptionError(f"first_only names {unknown}, which are none of the fields {sorted(fields or ())}")
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
        self.length, self.burn_in, self.boundary = length, burn_in, boundary
        self._first_only, self._has_next = tuple(first_only), next_observations or n_step is not None
        try:
            self._windows = Windows(self._ring, burn_in + length, boundary)
        except ValueError as error:
            raise BufferOptionError(f"burn_in + length, {burn_in + length}, and boundary: {error}") from error

    @property
    def window_count(self) -> int:
        """Returns how many windows there are to draw from."""
        return self._windows.count

    def get(self, batch_size: int) -> SequenceBatch:  # type: ignore[override]  # windows, not transitions
        """Returns windows, drawn with replacement.

        Args:
            batch_size: How many.
        """
        with self._lock.held():
            return self._batch(self._draw(self._words(batch_size)))

    def sample(self, batch_size: int) -> SequenceBatch:  # type: ignore[override]  # as above
        """Returns what `get` returns.

        Args:
            batch_size: How many windows.
        """
        return self.get(batch_size)

    def update(self, indices: Any, **fields: Any) -> int:
        """Writes fields back after training, such as latents computed again, and returns for how many steps.

        Steps that were written over since the batch was drawn are left out, and so is what was padding.

        Args:
            indices: The `indices` of the batch, or some of them.
            fields: Values for each of the indices, (*indices.shape, *shape).
        """
        numbers = as_host(as_tensor(indices))
        values = {}
        for name, value in fields.items():
            if name not in self._extras:
                raise StepError(f"only the buffer's own fields can be updated, {sorted(self._extras)}, not {name!r}")
            kind, tensor = self._storage.kind(name), as_tensor(value)
            if tuple(tensor.shape) != (*numbers.shape, *kind.shape):
                raise StepError(f"{name} is of shape {tuple(tensor.shape)}, not {(*numbers.shape, *kind.shape)}")
            values[name] = kind.cast(tensor).reshape(-1, *kind.shape)
        with self._lock.held():
            return self._update(numbers.reshape(-1), values)

    def _update(self, numbers: Any, values: Mapping[str, torch.Tensor]) -> int:
        """Writes values to those of the steps that are held, and returns to how many."""
        held = np.flatnonzero(self._ring.is_held(numbers))
        if not len(held):
            return 0
        # One value for each step: what a window shows twice, or two windows show, is written once, the last time.
        which, last = np.unique(numbers[held][::-1], return_index=True)
        places = torch.from_numpy(held[::-1][last])
        positions = torch.from_numpy(self._ring.positions(which)).to(self.store_device)
        kept = {name: value[places.to(value.device)] for name, value in values.items()}
        self._changes += 1  # first: a `Prefetcher` has to notice even an interrupted update
        self._storage.update(positions, kept)
        return len(which)

    def memory_usage(self) -> MemoryUsage:
        """Returns how much memory is held now, and how much a buffer that compresses nothing would hold."""
        usage = super().memory_usage()
        return replace(usage, rest=usage.rest + self._windows.nbytes)

    def _empty(self) -> None:
        super()._empty()
        self._windows.clear()

    def _add(self, step: Prepared) -> None:
        self._windows.append(as_host(step.ended), begins=self._begins)
        super()._add(step)

    def _count_steps(self, first: int, ended: Mask) -> None:
        for has_ended in ended[self._ring.steps - first :]:
            self._windows.append(has_ended, begins=self._begins if self._ring.steps == first else None)
            self._ring.advance()

    def _draw(self, words: torch.Tensor) -> DrawnWindows:  # type: ignore[override]  # as above
        return DrawnWindows(self._windows.draw(words.cpu().numpy()), self._ring.steps, self._changes)

    def _is_unchanged(self, then: DrawnWindows, now: DrawnWindows) -> bool:  # type: ignore[override]  # as above
        return (then.steps, then.changes) == (now.steps, now.changes)

    def _batch(self, drawn: DrawnWindows) -> SequenceBatch:  # type: ignore[override]  # as above
        windows = drawn.windows
        positions = torch.from_numpy(windows.positions).to(self.store_device)
        returns: dict[str, torch.Tensor] = {}
        after: Any = None
        if self._has_next:
            others = None
            if self.n_step is not None:
                others, returns = self._returns(positions)
            observations, after = self._storage.both(positions, others)
            last = self._storage.next_observations(positions[:, -1])
        else:
            observations, last = self._storage.both(positions, positions[:, -1])
        fields = self._storage.fields(positions, without=self._first_only) | returns
        firsts = {name: self._storage.field(name, positions[:, 0]) for name in self._first_only}
        is_valid, is_first = (torch.from_numpy(mask).to(self.device) for mask in (windows.is_valid, windows.is_first))
        parts = {"observations": observations, "next_observations": after, **fields}
        numbers = windows.numbers
        if self.boundary == "pad" and not windows.is_valid.all():
            padding = ~is_valid
            for part in parts.values():
                _clear(part, padding)
            numbers = np.where(windows.is_valid, numbers, -1)
        learning = is_valid.clone()
        if self.burn_in:
            learning[:, : self.burn_in] = False
        extras = {name: parts.pop(name) for name in self._extras if name not in firsts}
        return SequenceBatch(
            **parts,
            extras=extras | firsts,
            last_observations=last,
            is_first=is_first,
            is_valid=is_valid,
            learning_mask=learning,
            indices=torch.from_numpy(numbers),
        )

    def _state(self) -> dict[str, Any]:
        windows = {name: torch.from_numpy(part) for name, part in self._windows.state_dict().items()}
        return super()._state() | {"windows": windows}

    def _prepare_load(self, state: Mapping[str, Any]) -> list[Callable[[], Any]]:
        ready, windows = super()._prepare_load(state), state.get("windows")
        trial = Windows(Ring(self._ring.capacity, self._ring.lanes), self._windows.length, self.boundary)
        try:
            arrays = {name: part.cpu().numpy() for name, part in (windows or {}).items()}
            trial.load_state_dict(arrays)
        except (AttributeError, LookupError, ValueError) as error:
            raise BufferStateError(f"the state is damaged: {error}") from error
        return [*ready, lambda: self._windows.load_state_dict(arrays)]


def _clear(part: Any, padding: torch.Tensor) -> None:
    """Makes everything zero where there is no step."""
    if isinstance(part, Mapping):
        for leaf in part.values():
            _clear(leaf, padding)
    elif part is not None:
        as_bits(part)[padding] = 0
