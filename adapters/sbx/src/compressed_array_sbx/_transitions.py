"""Transitions by the numbers of their steps: what `sample_jax` gathers, where SB3 would draw environments itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.buffers import NStepReplayBuffer

import compressed_array as ca
from compressed_array.sampling import Ring, n_step
from compressed_array_sbx._memory import lend

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


class SmallFields(NamedTuple):
    """All of a batch but its observations, and the numbers that a ring has for the steps of these observations."""

    first: Ints
    last: Ints  # whose next observations are wanted: `first`, except for n-step returns
    actions: Array
    dones: Array
    rewards: Array
    discounts: Array | None


def small_fields(buffer: Any, ring: Ring, positions: Ints, env: Any) -> SmallFields:
    """Returns the fields of transitions at these positions that are cheap to gather."""
    rows, lanes = divmod(positions, ring.lanes)
    numbers, actions = ring.number_at(positions), buffer.actions[rows, lanes]
    if not isinstance(buffer, NStepReplayBuffer):
        dones = buffer.dones[rows, lanes] * (1 - buffer.timeouts[rows, lanes])
        rewards = buffer._normalize_reward(buffer.rewards[rows, lanes], env)
        return SmallFields(numbers, numbers, actions, dones, rewards, None)
    later = ring.following(numbers, np.arange(buffer.n_steps))
    is_held, (rows, lanes) = ring.is_held(later), divmod(ring.positions(later), ring.lanes)
    ends, cut = buffer.dones[rows, lanes] > 0, buffer.timeouts[rows, lanes] > 0
    rewards = buffer._normalize_reward(buffer.rewards[rows, lanes], env)
    # What follows a truncated episode counts in a target; where an episode terminates, `dones` is 1, as in SB3.
    returns, _, lengths = n_step(rewards, ends & ~cut, cut, buffer.gamma, is_held)
    which = (np.arange(len(numbers)), lengths - 1)
    dones = (ends & ~cut)[which].astype(np.float32)
    discounts = buffer.gamma ** lengths.astype(np.float32)
    return SmallFields(numbers, later[which], actions, dones, returns, discounts)


def read_observations(obs: Any, after: Any, ring: Ring, first: Ints, last: Ints) -> tuple[Any, Any]:
    """Returns observations of steps, and next observations of steps, by numbers; dicts if they have keys."""
    here, there = (divmod(ring.positions(numbers), ring.lanes) for numbers in (first, last))
    if not isinstance(obs, dict):
        return read_both(obs, after, here, there)
    parts = {key: read_both(obs[key], after[key], here, there) for key in obs}
    return {key: part[0] for key, part in parts.items()}, {key: part[1] for key, part in parts.items()}


def read_both(obs: Any, after: Any, here: tuple[Ints, Ints], there: tuple[Ints, Ints]) -> tuple[Any, Any]:
    if not isinstance(obs, ca.CompressedArray):  # plain, or on a device
        return obs[here], after[there]
    shape = (len(here[0]), *obs.item_shape)
    out = lend(shape, obs.dtype), lend(shape, obs.dtype)
    if all(np.array_equal(a, b) for a, b in zip(here, there, strict=True)):
        return ca.read_pair(obs, after, here, out)
    return obs.read(here, out[0]), after.read(there, out[1])


def replace_rows(into: Any, which: Array, parts: Any) -> None:
    """Replaces some rows of observations."""
    if isinstance(into, dict):
        for key, part in parts.items():
            replace_rows(into[key], which, part)
    else:
        into[which] = parts
