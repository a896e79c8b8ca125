"""Replay buffers for SBX's off-policy algorithms and for loops of one's own in JAX."""

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
    """`ReplayBuffer` in a fraction of the memory, sampled without copies."""


class CompressedNStepReplayBuffer(JaxSampling, ForSbx, cab.CompressedNStepReplayBuffer):
    """`NStepReplayBuffer` in a fraction of the memory, sampled without copies."""


class JoinedKeys(CompressedReplay):
    """Small vectors of one dtype lie side by side, as SBX joins them."""

    def _dict_of(self, arrays: dict[str, Any]) -> dict[str, Any]:
        side_by_side = join_keys(arrays)
        return super()._dict_of(arrays) if side_by_side is None else side_by_side


class CompressedDictReplayBuffer(JaxSampling, ForSbx, JoinedKeys, cab.CompressedDictReplayBuffer):
    """`DictReplayBuffer` in a fraction of the memory, sampled without copies."""


class CompressedDictNStepReplayBuffer(JaxSampling, ForSbx, JoinedKeys, cab.CompressedDictNStepReplayBuffer):
    """n-step returns for Dict observations, which SB3 and SBX do not have, sampled without copies."""


class CompressedHerReplayBuffer(ForSbx, cab.CompressedHerReplayBuffer):
    """`HerReplayBuffer` in a fraction of the memory, sampled without copies."""

    def sample_jax(self, batch_size: int, env: Any = None, *, device: Any = None) -> JaxReplaySamples:
        """Returns what `sample` does, as JAX arrays. Goals are drawn with each sample, so none can be decoded ahead.

        Args:
            batch_size: How many transitions.
            env: The `VecNormalize` to normalize observations and rewards with.
            device: The device of JAX that they go to; its default one if nothing is said.
        """
        samples = self.sample(batch_size, env=env)
        return JaxReplaySamples(
            observations=to_jax(samples.observations, device),
            actions=to_jax(samples.actions, device),
            next_observations=to_jax(samples.next_observations, device),
            dones=to_jax(samples.dones.reshape(-1), device),
            rewards=to_jax(samples.rewards.reshape(-1), device),
        )
