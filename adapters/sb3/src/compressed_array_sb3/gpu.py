"""SB3's buffers with observations that lie compressed on a torch device, from when they are added until sampled."""

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
    """`CompressedBuffer` with observations on `buffer_device`, which need not be the device of samples.

    Args:
        buffer_device: Where observations are kept; by default on `device`, where samples go.
        heap_bytes: How many bytes the observations of one key may take there; without a limit by default.
        max_slot_bytes: Deprecated; such a limit per observation.

    Beside these it takes all arguments of `CompressedBuffer`.
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
    """`ReplayBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer` and `GpuBuffer`.

    >>> from gymnasium.spaces import Box, Discrete
    >>> buffer = GpuReplayBuffer(1000, Box(0, 255, (84, 84), "uint8"), Discrete(4), device="cpu")
    >>> obs, action, zeros = np.full((1, 84, 84), 7, np.uint8), np.zeros((1, 1)), np.zeros(1)
    >>> buffer.add(obs, obs, action, zeros, zeros, [{}])
    >>> buffer.sample(16).observations.shape
    torch.Size([16, 84, 84])
    """


class GpuDictReplayBuffer(GpuBuffer, CompressedReplay, DictReplayBuffer):
    """`DictReplayBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer` and `GpuBuffer`.
    """


class GpuRolloutBuffer(GpuBuffer, CompressedRollout, RolloutBuffer):
    """`RolloutBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer` and `GpuBuffer`.
    """


class GpuDictRolloutBuffer(GpuBuffer, CompressedRollout, DictRolloutBuffer):
    """`DictRolloutBuffer` with compressed observations on a device.

    It takes all arguments of `CompressedBuffer` and `GpuBuffer`.
    """
