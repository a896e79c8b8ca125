"""SB3's replay buffers, compressed."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3._reads import Reads
from compressed_array_sb3._usage import available_memory, size
from compressed_array_sb3.errors import MemoryForecastWarning

FORECAST_AFTER = 1000  # steps


class CompressedReplay(CompressedBuffer):
    """What the replay buffers share: two arrays for each observation, on one store."""

    observation_fields: ClassVar[tuple[str, ...]] = ("observations", "next_observations")
    _forecast_at = FORECAST_AFTER

    def add(self, obs: Any, next_obs: Any, *args: Any, **kwargs: Any) -> None:
        super().add(self._checked(obs), self._checked(next_obs), *args, **kwargs)
        if self.pos == self._forecast_at and not self.full:
            self._forecast_at *= 2  # what a stream costs may grow while it is learnt
            self._forecast()

    def _forecast(self) -> None:
        # Tables and plain arrays have their full size from the beginning; what grows is what the stores hold.
        stored = sum(first.store.nbytes for first, _ in self._pairs())
        held, capacity, free = self.pos * self.n_envs, self.buffer_size * self.n_envs, available_memory()
        whole = stored / held * capacity
        if free is not None and whole - stored > free:
            warnings.warn(
                f"after {held:,} transitions, which take {size(stored)}, this buffer is on its way to {size(whole)} "
                f"when it holds {capacity:,}, and {size(free)} are free; a smaller buffer_size fits, or "
                "codec='delta-zstd' may",
                MemoryForecastWarning,
                stacklevel=4,
            )


class CompressedReplayBuffer(CompressedReplay, ReplayBuffer):
    """`ReplayBuffer` in a fraction of the memory."""


class CompressedDictReplayBuffer(CompressedReplay, DictReplayBuffer):
    """`DictReplayBuffer` in a fraction of the memory."""


class CompressedNStepReplayBuffer(CompressedReplay, NStepReplayBuffer):
    """`NStepReplayBuffer` in a fraction of the memory."""


class CompressedDictNStepReplayBuffer(CompressedReplay, NStepReplayBuffer, DictReplayBuffer):
    """n-step returns for Dict observations, which SB3 does not have: its n-step code, run on all keys at once."""

    def _dict_of(self, arrays: dict[str, Any]) -> dict[str, Any]:
        return KeyedArrays(arrays)

    def to_torch(self, array: Any, copy: bool = True) -> Any:
        if isinstance(array, dict):
            return {key: self.to_torch(part, copy) for key, part in array.items()}
        return super().to_torch(array, copy)

    def _get_samples(self, *args: Any, **kwargs: Any) -> Any:
        return DictReplayBufferSamples(*super()._get_samples(*args, **kwargs))


class CompressedHerReplayBuffer(CompressedReplay, HerReplayBuffer):
    """`HerReplayBuffer` in a fraction of the memory."""

    def sample(self, *args: Any, **kwargs: Any) -> Any:  # which does not go by _get_samples
        with Reads(self._pairs(), self.device):
            samples = super().sample(*args, **kwargs)
        return self._converted(samples)


class KeyedArrays(dict[str, Any]):
    """Arrays by name; a key that is no name picks the same part of each."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else {name: part[key] for name, part in self.items()}
