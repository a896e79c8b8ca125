"""SB3's replay buffers, compressed."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from compressed_array.sampling import batch_memory
from compressed_array.usage import available_memory, size
from compressed_array_sb3._direct import DirectSampler
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.errors import BufferEmptyError, MemoryForecastWarning

__all__ = [
    "CompressedDictNStepReplayBuffer",
    "CompressedDictReplayBuffer",
    "CompressedHerReplayBuffer",
    "CompressedNStepReplayBuffer",
    "CompressedReplay",
    "CompressedReplayBuffer",
]

FORECAST_AFTER = 1000  # steps


class CompressedReplay(CompressedBuffer):
    """What the replay buffers share: two arrays for each observation, on one store.

    It takes all arguments of `CompressedBuffer`.
    """

    observation_fields: ClassVar[tuple[str, ...]] = ("observations", "next_observations")
    _add_plain: ClassVar[Any]  # the function that `super().add` finds
    # Makes the arrays that samples are decoded into.
    _batch_memory: ClassVar[Any] = staticmethod(batch_memory)
    _direct: DirectSampler | None = None
    _stored_at_half = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        after = cls.__mro__[cls.__mro__.index(CompressedReplay) + 1 :]
        # Looking it up by `super()` at every step would add a fifteenth to the time that SB3 takes for a plain step.
        cls._add_plain = next((base.__dict__["add"] for base in after if "add" in base.__dict__), None)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        if self.adds_unchecked:
            self._add_plain(obs, next_obs, action, reward, done, infos)
            return
        super().add(*self._for_stock_add(self._checked(obs), self._checked(next_obs)), action, reward, done, infos)
        self.adds_unchecked = self._may_skip_checks()
        if not self.full and self._is_time_to_forecast():
            self._forecast()

    def _is_time_to_forecast(self) -> bool:
        """Whether there are now just enough steps to forecast the memory of all; of plain arrays, one is enough."""
        steps = self._first_steps()
        if self.pos == steps // 2:
            self._stored_at_half = self._stored()
        return self.pos == steps

    def _first_steps(self) -> int:
        return 1 if self.is_plain else min(FORECAST_AFTER, self.buffer_size // 2)

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().sample(*args, **kwargs)
        except ValueError:
            if self.size():
                raise
        raise BufferEmptyError(
            "there is nothing to sample yet: add() transitions first, or raise the algorithm's learning_starts"
        )

    def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
        is_usual = type(batch_inds) is np.ndarray and batch_inds.dtype == np.int64 and batch_inds.ndim == 1
        direct = self._direct_sampler(env) if is_usual else None
        if direct is None:
            return super()._get_samples(batch_inds, env=env)
        return self._converted(direct.samples(batch_inds, self.n_envs))

    def _direct_sampler(self, env: Any) -> DirectSampler | None:
        """Returns a reader of all parts of a sample at once, or None where its samples could differ from SB3's."""
        if env is not None or self.is_plain:
            return None
        if self._direct is None or not self._direct.is_for(self):
            self._direct = DirectSampler.of(self, self._batch_memory)
        return self._direct

    def reconstruct_obs(self, idx: int, env_idx: int) -> Any:
        """Returns the observation of one step of one environment.

        Args:
            idx: The row of the step.
            env_idx: The environment.
        """
        return self._copy_of(self.observations, idx, env_idx)  # type: ignore[attr-defined]  # of SB3's buffer

    def reconstruct_nextobs(self, idx: int, env_idx: int) -> Any:
        """Returns the observation after one step of one environment.

        Args:
            idx: The row of the step.
            env_idx: The environment.
        """
        return self._copy_of(self.next_observations, idx, env_idx)  # type: ignore[attr-defined]  # of SB3's buffer

    def _allocate(self, before: Any = None) -> None:
        self._direct = None  # it would keep the replaced arrays alive
        super()._allocate(before)

    def _stored(self) -> int:
        stores = {id(array.store): array.store for array in self._arrays() if getattr(array, "store", None) is not None}
        return sum(store.nbytes for store in stores.values())

    def _forecast(self) -> None:
        """Warns if the steps to come will not fit into memory, judged by the second half of the first steps."""
        steps = self._first_steps()
        grown = max(self._stored() - self._stored_at_half, 0) / (steps - steps // 2)
        plain = sum(array.nbytes for array in self._arrays() if getattr(array, "store", None) is None)
        to_come = grown * (self.buffer_size - steps) + plain * (1 - steps / self.buffer_size)
        free = self._free_memory()
        if free is not None and to_come > free:
            warnings.warn(
                f"by what the first {steps:,} step(s) took, the other {self.buffer_size - steps:,} of this buffer will "
                f"take {size(to_come)} more, and {size(free)} are free; a smaller buffer_size fits, or another codec "
                "may ('delta-zstd' is the smallest)",
                MemoryForecastWarning,
                stacklevel=3,
            )

    def _free_memory(self) -> int | None:
        return available_memory()


class CompressedReplayBuffer(CompressedReplay, ReplayBuffer):
    """`ReplayBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.

    >>> from gymnasium.spaces import Box, Discrete
    >>> buffer = CompressedReplayBuffer(1000, Box(0, 255, (84, 84), "uint8"), Discrete(4), codec="delta")
    >>> obs, action, zeros = np.full((1, 84, 84), 7, np.uint8), np.zeros((1, 1)), np.zeros(1)
    >>> buffer.add(obs, obs, action, zeros, zeros, [{}])
    >>> samples = buffer.sample(16)
    >>> samples.observations.shape, int(samples.observations.min())
    (torch.Size([16, 84, 84]), 7)
    """


class CompressedDictReplayBuffer(CompressedReplay, DictReplayBuffer):
    """`DictReplayBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedNStepReplayBuffer(CompressedReplay, NStepReplayBuffer):
    """`NStepReplayBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedDictNStepReplayBuffer(CompressedReplay, NStepReplayBuffer, DictReplayBuffer):
    """n-step returns for Dict observations, which SB3 lacks: its own n-step code runs on all keys at once.

    It takes all arguments of `CompressedBuffer`.
    """

    def _dict_of(self, arrays: dict[str, Any]) -> dict[str, Any]:
        return KeyedArrays(arrays)

    def to_torch(self, array: Any, copy: bool = True) -> Any:
        if isinstance(array, dict):
            return {key: self.to_torch(part, copy) for key, part in array.items()}
        return super().to_torch(array, copy)

    def _get_samples(self, *args: Any, **kwargs: Any) -> Any:
        return DictReplayBufferSamples(*super()._get_samples(*args, **kwargs))


class CompressedHerReplayBuffer(CompressedReplay, HerReplayBuffer):
    """`HerReplayBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """

    def reset(self) -> None:
        super(CompressedBuffer, self).reset()  # without new arrays: like SB3's, it goes on sampling the episodes it has

    def sample(self, *args: Any, **kwargs: Any) -> Any:  # in SB3, this one does not call _get_samples
        reads, sample = self._reads(), super().sample
        samples = sample(*args, **kwargs) if reads is None else reads.during(sample, *args, **kwargs)
        return self._converted(samples, kwargs.get("env", *args[1:]))


class KeyedArrays(dict[str, Any]):
    """A dict of arrays by name, in which any other key picks the same part of each array."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else {name: part[key] for name, part in self.items()}
