"""SB3's rollout buffers, compressed."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer

from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.errors import BufferNotFullError

__all__ = ["CompressedDictRolloutBuffer", "CompressedRollout", "CompressedRolloutBuffer"]


class CompressedRollout(CompressedBuffer):
    """What the rollout buffers share: one array for each observation, emptied at every reset."""

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
        if not self.full:
            raise BufferNotFullError(f"{self.pos} of {self.buffer_size} steps are collected; a rollout is read whole")
        return super().get(batch_size)  # type: ignore[misc]  # of the buffer that comes after this one

    def reconstruct_obs(self, idx: int) -> Any:
        """Returns one observation as a tensor.

        Args:
            idx: Its place in the rollout, where all steps of one environment come before those of the next.
        """
        buffer: Any = self  # of SB3's, which has these
        where = (idx,) if buffer.generator_ready else (idx % self.buffer_size, idx // self.buffer_size)
        item = self._copy_of(buffer.observations, *where)
        is_dict = isinstance(item, dict)
        return {key: self.to_torch(part) for key, part in item.items()} if is_dict else self.to_torch(item)


class CompressedRolloutBuffer(CompressedRollout, RolloutBuffer):
    """`RolloutBuffer` in a fraction of the memory."""


class CompressedDictRolloutBuffer(CompressedRollout, DictRolloutBuffer):
    """`DictRolloutBuffer` in a fraction of the memory."""
