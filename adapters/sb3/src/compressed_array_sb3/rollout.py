"""SB3's rollout buffers, compressed."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer

from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.errors import BufferNotFullError

__all__ = ["CompressedDictRolloutBuffer", "CompressedRollout", "CompressedRolloutBuffer"]


class CompressedRollout(CompressedBuffer):
    """What the rollout buffers share: one array for each observation, emptied at every reset.

    It takes all arguments of `CompressedBuffer`.
    """

    observation_fields: ClassVar[tuple[str, ...]] = ("observations",)

    def add(self, obs: Any, *args: Any, **kwargs: Any) -> None:
        if self.adds_unchecked:
            super().add(obs, *args, **kwargs)
            return
        super().add(*self._for_stock_add(self._checked(obs)), *args, **kwargs)
        self.adds_unchecked = self._may_skip_checks()
        if self.full:
            self._compact()

    def get(self, batch_size: int | None = None) -> Any:
        """Returns an iterator over all steps of a full rollout, in random order.

        Args:
            batch_size: How many steps a batch has; all of them by default.
        """
        if not self.full:
            raise BufferNotFullError(f"{self.pos} of {self.buffer_size} steps are collected; a rollout is read whole")
        return super().get(batch_size)  # type: ignore[misc]  # of the buffer that comes after this one

    def reconstruct_obs(self, idx: int) -> Any:
        """Returns one observation as a tensor.

        Args:
            idx: Its index in the rollout, in which all steps of one environment come before those of the next.
        """
        buffer: Any = self  # SB3's buffers have these attributes
        where = (idx,) if buffer.generator_ready else (idx % self.buffer_size, idx // self.buffer_size)
        item = self._copy_of(buffer.observations, *where)
        is_dict = isinstance(item, dict)
        return {key: self.to_torch(part) for key, part in item.items()} if is_dict else self.to_torch(item)


class CompressedRolloutBuffer(CompressedRollout, RolloutBuffer):
    """`RolloutBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.

    >>> import numpy as np, torch
    >>> from gymnasium.spaces import Box, Discrete
    >>> buffer = CompressedRolloutBuffer(8, Box(0, 255, (84, 84), "uint8"), Discrete(4), device="cpu")
    >>> obs, zeros = np.full((1, 84, 84), 7, np.uint8), np.zeros(1)
    >>> while not buffer.full:
    ...     buffer.add(obs, zeros, zeros, zeros, torch.zeros(1), torch.zeros(1))
    >>> [batch.observations.shape[0] for batch in buffer.get(batch_size=6)]
    [6, 2]
    """


class CompressedDictRolloutBuffer(CompressedRollout, DictRolloutBuffer):
    """`DictRolloutBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """
