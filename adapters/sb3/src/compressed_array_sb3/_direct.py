"""`DirectSampler`: samples of `ReplayBuffer`, with all parts of each read at once.

SB3 reads, reshapes and copies each field by itself. Between two updates of a network, when the processor's caches no
longer hold any of these fields, that takes longer than decoding the observations. Environments are drawn as SB3 draws
them, so samples equal those of SB3's own method, which is called wherever this one does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
Allocator = Callable[[tuple[int, ...], np.dtype[Any]], Array]
OURS = ("compressed_array_sb3", "compressed_array_sbx")
FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
# The methods that make up SB3's sampling, with the class that defines each. If a class overrides one, that is called.
STOCK = {
    "_get_samples": ReplayBuffer,
    "_normalize_obs": BaseBuffer,
    "_normalize_reward": BaseBuffer,
    "to_torch": BaseBuffer,
}


class PlainReader:
    """Does for plain arrays what `TransitionReader` does for compressed ones.

    Args:
        first: An array with a row for each cell, in C order.
        second: Another such array.
        columns: More of them.
    """

    def __init__(self, first: Array, second: Array, columns: Sequence[Array]) -> None:
        self._tables = [array.reshape(-1, *array.shape[2:]) for array in (first, second, *columns)]

    def read(self, positions: Array) -> tuple[Array, Array, list[Array]]:
        first, second, *columns = [table.take(positions, 0) for table in self._tables]
        return first, second, columns


class DirectSampler:
    """Reads samples of a buffer, as long as the buffer has the arrays that it had when this was made.

    Args:
        buffer: The buffer that is sampled.
        memory: Makes the arrays that observations are decoded into.
    """

    def __init__(self, buffer: Any, memory: Allocator) -> None:
        self._arrays = [getattr(buffer, name) for name in FIELDS]
        self._device, self._rows = buffer.device, buffer.buffer_size
        obs, after, actions, *numbers = self._arrays
        columns = [actions, *(field[..., None] for field in numbers)]
        self._reader: PlainReader | ca.TransitionReader
        if type(obs) is np.ndarray:
            self._reader = PlainReader(obs, after, columns)
        else:
            self._reader = ca.TransitionReader(obs, after, columns, memory)

    @classmethod
    def of(cls, buffer: Any, memory: Allocator) -> DirectSampler | None:
        """Returns a sampler for a buffer, or None if the buffer has to be sampled by SB3's methods or by its own."""
        made_as: type[BaseBuffer] = type(buffer)
        if not samples_as_sb3(made_as) or has_own_methods(buffer) or torch.device(buffer.device).type != "cpu":
            return None
        arrays = [getattr(buffer, name) for name in FIELDS]
        obs, after, actions, *numbers = arrays
        shape = (buffer.buffer_size, buffer.n_envs)
        if type(obs) is ObservationArray and type(after) is ObservationArray:
            if obs.store is not after.store:  # as with some codecs after unpickling
                return None
            plain = [actions, *numbers]
        else:
            plain = arrays
        are_plain = all(
            type(array) is np.ndarray and array.flags.c_contiguous and array.shape[:2] == shape for array in plain
        )
        return cls(buffer, memory) if are_plain and all(array.shape == shape for array in numbers) else None

    def is_for(self, buffer: Any) -> bool:
        """Whether a buffer still has the arrays and the device that are used here, and no methods of its own."""
        return (
            buffer.device is self._device
            and all(getattr(buffer, name) is array for name, array in zip(FIELDS, self._arrays, strict=True))
            and not has_own_methods(buffer)
        )

    def samples(self, rows: Array, envs: int) -> ReplayBufferSamples:
        """Returns what SB3's `_get_samples` would return for these rows, an array of int64."""
        drawn: Any = 0  # with one environment, `randint` would consume no randomness
        if envs > 1:
            drawn = np.random.randint(0, high=envs, size=(len(rows),))  # noqa: NPY002 - as SB3 draws
        try:
            return self.samples_at(rows * envs + drawn)
        except IndexError:  # negative rows count from the end, as in SB3; rows that do not exist raise again
            return self.samples_at(np.arange(self._rows)[rows] * envs + drawn)

    def samples_at(self, positions: Array) -> ReplayBufferSamples:
        """Returns the transitions at these positions, which count the environments of each row one after the other."""
        obs, after, (actions, rewards, dones, timeouts) = self._reader.read(positions)
        dones = dones * (1 - timeouts)
        return ReplayBufferSamples(*map(torch.from_numpy, (obs, actions, after, dones, rewards)))

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a copy of the buffer has other arrays, and makes a sampler for those


def has_own_methods(buffer: Any) -> bool:
    """Whether one of the methods that make up SB3's sampling was replaced on this very object."""
    return not vars(buffer).keys().isdisjoint(STOCK)


@cache
def samples_as_sb3(buffer: type[BaseBuffer]) -> bool:
    """Whether a class samples by the methods of SB3's own `ReplayBuffer`, which nothing but our adapters overrides."""
    return all(origin(buffer, name) is stock for name, stock in STOCK.items())


@cache
def is_made_by_sb3(buffer: type[BaseBuffer], names: tuple[str, ...] = tuple(STOCK)) -> bool:
    """Whether methods of a class are those of any classes of SB3, which nothing but our adapters overrides."""
    return all(origin(buffer, name).__module__.partition(".")[0] == "stable_baselines3" for name in names)


def origin(buffer: type[BaseBuffer], name: str) -> type:
    """Returns the class that defines a method, apart from those of our adapters, whose methods call that one."""
    theirs = (base for base in buffer.__mro__ if base.__module__.partition(".")[0] not in OURS)
    return next(base for base in theirs if name in base.__dict__)
