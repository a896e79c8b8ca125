"""Replay buffers for SBX's off-policy algorithms and for your own loops in JAX."""

from __future__ import annotations

from typing import Any

import compressed_array_sb3 as cab
from compressed_array_sb3.replay import CompressedReplay
from compressed_array_sbx._joined_keys import join_keys
from compressed_array_sbx._mixin import ForSbx
from compressed_array_sbx._sampling import JaxSampling
from compressed_array_sbx._to_jax import to_jax
from compressed_array_sbx.batches import JaxReplaySamples

__all__ = [
    "CompressedDictNStepReplayBuffer",
    "CompressedDictReplayBuffer",
    "CompressedHerReplayBuffer",
    "CompressedNStepReplayBuffer",
    "CompressedReplayBuffer",
]


class CompressedReplayBuffer(JaxSampling, ForSbx, cab.CompressedReplayBuffer):
    """`ReplayBuffer` in a fraction of the memory, sampled without copies.

    It takes all arguments of `CompressedBuffer` and `JaxSampling`.

    >>> import numpy as np
    >>> from gymnasium.spaces import Box, Discrete
    >>> buffer = CompressedReplayBuffer(1000, Box(0, 255, (84, 84), "uint8"), Discrete(4), alpha=0.6)
    >>> obs, action, zeros = np.full((1, 84, 84), 7, np.uint8), np.zeros((1, 1)), np.zeros(1)
    >>> buffer.add(obs, obs, action, zeros, zeros, [{}])
    >>> batch = buffer.sample_jax(16)
    >>> buffer.update_priorities(batch.indices, td_errors=batch.weights)
    >>> batch.observations.shape, int(batch.observations.min())
    ((16, 84, 84), 7)
    """


class CompressedNStepReplayBuffer(JaxSampling, ForSbx, cab.CompressedNStepReplayBuffer):
    """`NStepReplayBuffer` in a fraction of the memory, sampled without copies.

    It takes all arguments of `CompressedBuffer` and `JaxSampling`.
    """


class JoinedKeys(CompressedReplay):
    """Keeps small vectors of one dtype side by side, as SBX joins them."""

    def _dict_of(self, arrays: dict[str, Any]) -> dict[str, Any]:
        side_by_side = join_keys(arrays)
        return super()._dict_of(arrays) if side_by_side is None else side_by_side


class CompressedDictReplayBuffer(JaxSampling, ForSbx, JoinedKeys, cab.CompressedDictReplayBuffer):
    """`DictReplayBuffer` in a fraction of the memory, sampled without copies.

    It takes all arguments of `CompressedBuffer` and `JaxSampling`.
    """


class CompressedDictNStepReplayBuffer(JaxSampling, ForSbx, JoinedKeys, cab.CompressedDictNStepReplayBuffer):
    """n-step returns for Dict observations, which SB3 and SBX do not have, sampled without copies.

    It takes all arguments of `CompressedBuffer` and `JaxSampling`.
    """


class CompressedHerReplayBuffer(ForSbx, cab.CompressedHerReplayBuffer):
    """`HerReplayBuffer` in a fraction of the memory, sampled without copies.

    It takes all arguments of `CompressedBuffer`.
    """

    def sample_jax(self, batch_size: int, env: Any = None, *, device: Any = None) -> JaxReplaySamples:
        """Returns what `sample` returns, as JAX arrays. Goals are drawn with each sample, so none can be decoded ahead.

        Args:
            batch_size: How many transitions.
            env: The `VecNormalize` to normalize observations and rewards with.
            device: The device of JAX that they go to; by default JAX's default device.
        """
        samples = self.sample(batch_size, env=env)
        return JaxReplaySamples(
            observations=to_jax(samples.observations, device),
            actions=to_jax(samples.actions, device),
            next_observations=to_jax(samples.next_observations, device),
            dones=to_jax(samples.dones.reshape(-1), device),
            rewards=to_jax(samples.rewards.reshape(-1), device),
        )
