"""`DirectSampler`: a sample of `ReplayBuffer`, of which all parts are read at once.

SB3 reads, reshapes and copies each field by itself. Between two updates of a network, when nothing of that is left in
the processor's caches, this takes longer than to decode the observations. Environments are drawn as SB3 draws them, so
samples are those of SB3's own method, which is asked wherever this one is not for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples

import compressed_array as ca
from compressed_array_sb3._reads import ObservationArray

Array = npt.NDArray[Any]
Memory = Callable[[tuple[int, ...], np.dtype[Any]], Array]
OURS = ("compressed_array_sb3", "compressed_array_sbx")
FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
# The methods that SB3's sample consists of, and whose they are; a class that has one of its own is asked for that.
STOCK = {
    "_get_samples": ReplayBuffer,
    "_normalize_obs": BaseBuffer,
    "_normalize_reward": BaseBuffer,
    "to_torch": BaseBuffer,
}


class DirectSampler:
    """Reads samples of a buffer, as long as its arrays are those that it was made with.

    Args:
        buffer: What is sampled.
        memory: What makes the arrays that observations are decoded into.
    """

    def __init__(self, buffer: Any, memory: Memory) -> None:
        self._arrays = [getattr(buffer, name) for name in FIELDS]
        self._device, self._rows = buffer.device, buffer.buffer_size
        obs, after, actions, *numbers = self._arrays
        self._reader = ca.TransitionReader(obs, after, [actions, *(field[..., None] for field in numbers)], memory)

    @classmethod
    def of(cls, buffer: Any, memory: Memory) -> DirectSampler | None:
        """Returns what samples a buffer, or None if that is to do so in SB3's way, or in its own."""
        made_as: type[BaseBuffer] = type(buffer)
        is_here = torch.device(buffer.device).type == "cpu" and samples_as_sb3(made_as)
        if STOCK.keys() & vars(buffer).keys():  # somebody has given this very buffer a method of its own
            return None
        if not is_here or any(type(getattr(buffer, name)) is not ObservationArray for name in FIELDS[:2]):
            return None
        if buffer.observations.store is not buffer.next_observations.store:  # as after a pickle, with some codecs
            return None
        fields = [getattr(buffer, name) for name in FIELDS[2:]]
        shape = (buffer.buffer_size, buffer.n_envs)
        are_plain = all(type(field) is np.ndarray and field.flags.c_contiguous for field in fields)
        is_known = are_plain and all(field.shape == shape for field in fields[1:])
        return cls(buffer, memory) if is_known else None

    def is_for(self, buffer: Any) -> bool:
        """Whether a buffer still has the arrays that are read here, and its samples go where they went."""
        return buffer.device is self._device and all(
            getattr(buffer, name) is array for name, array in zip(FIELDS, self._arrays, strict=True)
        )

    def samples(self, rows: Array, envs: int) -> ReplayBufferSamples:
        """Returns what SB3's `_get_samples` does for these rows, which are of int64."""
        drawn: Any = 0  # as numpy draws of one environment, too, without a random number
        if envs > 1:
            drawn = np.random.randint(0, high=envs, size=(len(rows),))  # noqa: NPY002 - as SB3 draws
        try:
            return self.samples_at(rows * envs + drawn)
        except IndexError:  # of rows that are counted from the end, as numpy lets SB3 do; or of some that are not there
            return self.samples_at(np.arange(self._rows)[rows] * envs + drawn)

    def samples_at(self, positions: Array) -> ReplayBufferSamples:
        """Returns transitions, of which those of a row's environments are one after the other."""
        obs, after, (actions, rewards, dones, timeouts) = self._reader.read(positions)
        dones = dones * (1 - timeouts)
        return ReplayBufferSamples(*map(torch.from_numpy, (obs, actions, after, dones, rewards)))

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy of the buffer has arrays of its own, for which another is made


@cache
def samples_as_sb3(buffer: type[BaseBuffer]) -> bool:
    """Whether all that a class samples by is SB3's own for `ReplayBuffer`, or that of our adapters."""
    theirs = [base for base in buffer.__mro__ if base.__module__.partition(".")[0] not in OURS]
    return all(next(base for base in theirs if name in base.__dict__) is stock for name, stock in STOCK.items())
