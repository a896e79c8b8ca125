"""Checks that a buffer suits its observations and its algorithm, and finds out which observations are images."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import (
    BaseBuffer,
    DictReplayBuffer,
    DictRolloutBuffer,
    ReplayBuffer,
    RolloutBuffer,
)
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from compressed_array_sb3.errors import BufferClassError, BufferOptionError


def check_class(buffer: BaseBuffer, space: spaces.Space[Any], options: Mapping[str, Any]) -> None:
    """Refuses a class for another space, or for another kind of algorithm, which shows in the options it passes."""
    name, is_dict = type(buffer).__name__, isinstance(space, spaces.Dict)
    if isinstance(buffer, RolloutBuffer) and "optimize_memory_usage" in options:
        raise BufferClassError(
            f"{name} is the rollout_buffer_class of an on-policy algorithm such as PPO; DQN, SAC and others that learn "
            f"from a replay buffer take Compressed{'Dict' * is_dict}ReplayBuffer as their replay_buffer_class"
        )
    if isinstance(buffer, ReplayBuffer) and "gae_lambda" in options:
        raise BufferClassError(
            f"{name} is the replay_buffer_class of an off-policy algorithm such as DQN; PPO, A2C and others that learn "
            f"from rollouts take Compressed{'Dict' * is_dict}RolloutBuffer as their rollout_buffer_class"
        )
    if isinstance(buffer, HerReplayBuffer) and not is_dict:
        raise BufferClassError(
            f"{name} replays goals, so observations must be a Dict with the keys 'observation', 'achieved_goal' and "
            f"'desired_goal', and these are {space}: take CompressedReplayBuffer for them"
        )
    if is_dict != isinstance(buffer, (DictReplayBuffer, DictRolloutBuffer)):
        raise BufferClassError(
            f"{name} is not for observations of {space}; "
            "a Dict space takes a buffer with Dict in its name, any other space one without"
        )


def check_size(buffer_size: Any) -> None:
    """Refuses a size that is no positive whole number, which SB3 would take for 1, or fail with later."""
    try:
        enough = operator.index(buffer_size) >= 1
    except TypeError:
        hint = f", as in int({buffer_size!r})" if isinstance(buffer_size, float) else ""
        raise BufferOptionError(f"buffer_size is a whole number of transitions{hint}, not {buffer_size!r}") from None
    if not enough:
        raise BufferOptionError(f"buffer_size is how many transitions are kept, at least 1, not {buffer_size!r}")


def images(space: spaces.Space[Any], key: str = "") -> frozenset[str]:
    """Returns the keys whose observations go from 0 to 255, to be divided by 255; "" for a space without keys."""
    if isinstance(space, spaces.Dict):
        return frozenset().union(*(images(part, name) for name, part in space.spaces.items()))
    if space.dtype == np.uint8:
        return frozenset([key])
    if not isinstance(space, spaces.Box) or not space.low.size:
        return frozenset()
    low, high = space.low.min(), space.high.max()
    if low >= 0 and high == 255:
        return frozenset([key])
    if len(space.shape) == 3 and not (low >= -1 and high <= 1):
        raise BufferOptionError(
            f"normalize_images divides what lies between 0 and 255, and images{f' {key!r}' * bool(key)} of {space} are "
            "neither of that nor within 1 already: give the space those bounds, or divide in the environment"
        )
    return frozenset()
