"""SB3's buffers with observations that lie compressed on a torch device, from the step they are added to the sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import (
    BaseBuffer,
    DictReplayBuffer,
    DictRolloutBuffer,
    ReplayBuffer,
    RolloutBuffer,
)
from stable_baselines3.common.utils import get_device

from compressed_array.torch import DeviceArray
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.replay import CompressedReplay
from compressed_array_sb3.rollout import CompressedRollout

__all__ = ["GpuBuffer", "GpuDictReplayBuffer", "GpuDictRolloutBuffer", "GpuReplayBuffer", "GpuRolloutBuffer"]


class GpuBuffer(CompressedBuffer):
    """`CompressedBuffer` with observations on `buffer_device`, which need not be where samples go.

    Args:
        buffer_device: Where observations are kept; `device`, the one for samples, if nothing else is said.
        heap_bytes: What the observations of one key may take there at the most; without it, what there is.
        max_slot_bytes: The same for one observation; deprecated.
    """

    def __init__(
        self,
        *args: Any,
        buffer_device: torch.device | str | None = None,
        heap_bytes: int | None = None,
        max_slot_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        for_samples = args[3] if len(args) > 3 else kwargs.get("device", "auto")
        self.buffer_device = get_device(for_samples if buffer_device is None else buffer_device)
        self._heap_bytes, self._max_slot_bytes = heap_bytes, max_slot_bytes
        super().__init__(*args, **kwargs)

    def to_torch(self, array: Any, copy: bool = True) -> torch.Tensor:
        return array.to(self.device) if isinstance(array, torch.Tensor) else super().to_torch(array, copy)

    @staticmethod
    def _normalize_obs(obs: Any, env: Any = None) -> Any:
        if env is None:
            return obs
        on_host = {key: part.cpu().numpy() for key, part in obs.items()} if isinstance(obs, dict) else obs.cpu().numpy()
        return BaseBuffer._normalize_obs(on_host, env)

    def _new_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], item_ndim: int, codec: Any, store: Any) -> Any:
        if store is not None:
            return DeviceArray(shape, dtype, item_ndim=item_ndim, device=self.buffer_device, store=store)
        return DeviceArray(
            shape,
            dtype,
            item_ndim=item_ndim,
            device=self.buffer_device,
            codec="none" if codec is None else codec,
            heap_bytes=self._heap_bytes,
            max_slot_bytes=self._max_slot_bytes,
        )

    def _free_memory(self) -> int | None:
        if self.buffer_device.type == "cuda":
            return int(torch.cuda.mem_get_info(self.buffer_device)[0])
        return super()._free_memory()  # type: ignore[misc, no-any-return]  # of the replay buffer that comes after this


class GpuReplayBuffer(GpuBuffer, CompressedReplay, ReplayBuffer):
    """`ReplayBuffer` with compressed observations on a device."""


class GpuDictReplayBuffer(GpuBuffer, CompressedReplay, DictReplayBuffer):
    """`DictReplayBuffer` with compressed observations on a device."""


class GpuRolloutBuffer(GpuBuffer, CompressedRollout, RolloutBuffer):
    """`RolloutBuffer` with compressed observations on a device."""


class GpuDictRolloutBuffer(GpuBuffer, CompressedRollout, DictRolloutBuffer):
    """`DictRolloutBuffer` with compressed observations on a device."""
