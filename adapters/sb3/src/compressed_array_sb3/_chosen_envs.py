"""Reading a buffer in chosen environments by SB3's own code, which would draw the environments itself.

SB3's `_get_samples` is given rows, and draws for each of them which of `n_envs` environments is read. Here it runs on a
twin of the buffer that has only one environment to draw, and whose arrays read the chosen environments instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, NStepReplayBuffer

from compressed_array_sb3._direct import has_own_methods, is_made_by_sb3
from compressed_array_sb3._mixin import CompressedBuffer

Ints = npt.NDArray[np.int64]
B = TypeVar("B", bound=BaseBuffer)


class ChosenEnvs:
    """An array of rows and environments, in which row `i` of a batch is read in environment `envs[i]`."""

    def __init__(self, array: Any, envs: Ints) -> None:
        self.array, self.envs = array, envs

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not tuple:  # rows of all environments, in which SB3 marks the last step
            return self.array[key]
        envs = self.envs if key[1].ndim == 1 else self.envs.reshape(key[1].shape)
        return self.array[(key[0], envs, *key[2:])]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[key] = value


def per_step_fields(buffer: BaseBuffer) -> tuple[str, ...]:
    """Returns the names of attributes with an item for each step of each environment: arrays, and dicts of these."""
    shape = (buffer.buffer_size, buffer.n_envs)

    def is_per_step(value: Any) -> bool:
        if isinstance(value, dict) and value:
            return all(map(is_per_step, value.values()))
        return not isinstance(value, spaces.Space) and getattr(value, "shape", ())[:2] == shape

    return tuple(name for name, value in vars(buffer).items() if is_per_step(value))


def samples_at(buffer: Any, fields: Iterable[str], places: Ints, env: Any) -> Any:
    """Returns what `_get_samples` of a buffer gives for transitions, read by SB3's own code or by a subclass's.

    Args:
        buffer: The buffer that is sampled.
        fields: The names of its attributes that `per_step_fields` found.
        places: The positions of transitions, which count the environments of each row one after the other.
        env: A VecNormalize to normalize them by, as in SB3.
    """
    made_as: type[BaseBuffer] = type(buffer)
    is_stock = is_made_by_sb3(made_as) and not has_own_methods(buffer)
    if buffer.n_envs == 1 and not is_stock:
        return buffer._get_samples(places, env=env)
    # A method that also looks at other rows would find rows of other environments there.
    stays_in_row = is_stock and not isinstance(buffer, NStepReplayBuffer)
    rows, envs = places, None
    if buffer.n_envs > 1 and not (buffer.is_plain and stays_in_row):
        rows = places // buffer.n_envs
        envs = places - rows * buffer.n_envs
    if is_stock:
        twin = twin_in_envs(buffer, fields, envs, _pairs=buffer._pairs, to_torch=taking_over(buffer))
        return twin._get_samples(rows, env=env)
    twin = twin_in_envs(buffer, fields, envs, _pairs=buffer._pairs)
    before = dict(vars(twin))
    samples = twin._get_samples(rows, env=env)
    for name, value in vars(twin).items():
        if name not in fields and (name not in before or before[name] is not value):
            setattr(buffer, name, value)  # what the method has counted or kept
    return samples


def taking_over(buffer: CompressedBuffer) -> Callable[[Any], Any]:
    """Returns a `to_torch` without copies, for arrays that SB3's own code has just made and nothing else refers to."""
    own: Any = buffer.to_torch
    if buffer.device.type == "cpu" and own.__func__ is CompressedBuffer.to_torch:
        return torch.from_numpy
    return partial(own, copy=False)


def twin_in_envs(buffer: B, fields: Iterable[str], envs: Ints | None, **others: Any) -> B:
    """Returns a buffer with the same arrays, in whose `fields` row `i` of a batch is that of environment `envs[i]`.

    Args:
        buffer: The buffer of which a twin is made.
        fields: The names of its attributes that `per_step_fields` found.
        envs: The environment of each row of a batch. None for a twin whose one environment has the rows of all, those
            of a step one after the other: for plain arrays, in buffers of SB3 that never look at a neighbouring row.
        others: Attributes that the twin has instead of the buffer's own.
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


def _in_one_env(array: Any, envs: Ints | None) -> Any:
    return array.reshape(-1, 1, *array.shape[2:]) if envs is None else ChosenEnvs(array, envs)
