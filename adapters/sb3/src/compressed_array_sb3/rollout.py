"""SB3's rollout buffers, compressed."""

from __future__ import annotations

from typing import Any, ClassVar

from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer

from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.errors import BufferNotFullError


class CompressedRollout(CompressedBuffer):
    """What the rollout buffers share: one array for each observation, emptied at every reset."""

    observation_fields: ClassVar[tuple[str, ...]] = ("observations",)

    def add(self, obs: Any, *args: Any, **kwargs: Any) -> None:
        super().add(self._checked(obs), *args, **kwargs)
        if self.full:
            self._rest()

    def get(self, batch_size: int | None = None) -> Any:
        if not self.full:
            raise BufferNotFullError(f"{self.pos} of {self.buffer_size} steps are collected; a rollout is read whole")
        return super().get(batch_size)  # type: ignore[misc]  # of the buffer that comes after this one


class CompressedRolloutBuffer(CompressedRollout, RolloutBuffer):
    """`RolloutBuffer` in a fraction of the memory."""


class CompressedDictRolloutBuffer(CompressedRollout, DictRolloutBuffer):
    """`DictRolloutBuffer` in a fraction of the memory."""
