"""Reading a buffer in chosen environments by SB3's own code, which would draw the environments itself.

SB3's `_get_samples` is given rows, and draws for each which of `n_envs` environments it is read in. It is run on a twin
of the buffer that has one environment to draw from, and whose arrays read the chosen one in the place of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer

Envs = npt.NDArray[np.int64]
B = TypeVar("B", bound=BaseBuffer)


class ChosenEnvs:
    """An array of rows and environments, in which row `i` of a batch is read in environment `envs[i]`."""

    def __init__(self, array: Any, envs: Envs) -> None:
        self.array, self.envs = array, envs

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not tuple:  # rows of all environments, in which SB3 marks the last step
            return self.array[key]
        envs = self.envs if key[1].ndim == 1 else self.envs.reshape(key[1].shape)
        return self.array[(key[0], envs, *key[2:])]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[key] = value


def per_step_fields(buffer: BaseBuffer) -> tuple[str, ...]:
    """Returns the attributes that have an item for each step of each environment: arrays, and dicts of these."""
    shape = (buffer.buffer_size, buffer.n_envs)

    def is_per_step(value: Any) -> bool:
        if isinstance(value, dict) and value:
            return all(map(is_per_step, value.values()))
        return not isinstance(value, spaces.Space) and getattr(value, "shape", ())[:2] == shape

    return tuple(name for name, value in vars(buffer).items() if is_per_step(value))


def twin_in_envs(buffer: B, fields: Iterable[str], envs: Envs | None, **others: Any) -> B:
    """Returns a buffer with the same arrays, in whose `fields` row `i` of a batch is that of environment `envs[i]`.

    Args:
        buffer: Whose twin is made.
        fields: The names of its attributes that `per_step_fields` found.
        envs: The environment of each row of a batch. None if the twin is to have one environment with the rows of all,
            those of a step one after the other: for plain arrays, and for SB3's buffers that take what belongs to a row
            from no other row.
        others: Other attributes that the twin has in the place of the buffer's.
    """
    twin = object.__new__(type(buffer))
    own = twin.__dict__
    own.update(vars(buffer))
    own.update(others)
    if buffer.n_envs > 1:
        twin.n_envs = 1
        for name in fields:
            value = own[name]
            if isinstance(value, dict):
                own[name] = type(value)({key: _in_one_env(part, envs) for key, part in value.items()})
            else:
                own[name] = _in_one_env(value, envs)
    return twin


def _in_one_env(array: Any, envs: Envs | None) -> Any:
    return array.reshape(-1, 1, *array.shape[2:]) if envs is None else ChosenEnvs(array, envs)
