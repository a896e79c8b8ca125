"""`DummyVecRolloutBuffer`: passes each call on to several rollout buffers, to compare them on the same steps.

Each method returns a list of the buffers' results, so no algorithm can learn from it. It keeps no steps itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, RolloutBuffer

__all__ = ["DummyVecRolloutBuffer"]


class DummyVecRolloutBuffer(RolloutBuffer):
    """Passes every call on to some buffers, and returns a list of their results.

    Args:
        buffer_size: Steps of each environment, as in `RolloutBuffer`.
        observation_space: Likewise.
        action_space: Likewise.
        device: Likewise.
        n_envs: Likewise.
        use_threads: Whether each buffer is called in a thread of its own.
        buffers: The buffers that calls are passed on to.
        kwargs: What else `RolloutBuffer` takes: gae_lambda and gamma.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        use_threads: bool = False,
        buffers: Iterable[BaseBuffer] | None = None,
        **kwargs: Any,
    ) -> None:
        self._buffers: list[BaseBuffer] = []  # none yet: SB3's constructor calls reset, and those given may hold steps
        self._executor: ThreadPoolExecutor | None = None
        super().__init__(buffer_size, observation_space, action_space, device, n_envs=n_envs, **kwargs)
        self._buffers = list(buffers or ())
        if use_threads and self._buffers:
            self._executor = ThreadPoolExecutor(max_workers=len(self._buffers))

    def __del__(self) -> None:
        if getattr(self, "_executor", None) is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)  # type: ignore[union-attr]  # seen above

    @property
    def full(self) -> bool:
        """Whether every buffer is full."""
        return all(buffer.full for buffer in self._buffers)

    @full.setter
    def full(self, value: bool) -> None:
        pass

    def _each(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._executor is None:
            return [getattr(buffer, name)(*args, **kwargs) for buffer in self._buffers]
        tasks = [self._executor.submit(getattr(buffer, name), *args, **kwargs) for buffer in self._buffers]
        return [task.result() for task in tasks]


def _passed_on(name: str) -> Any:
    def method(self: DummyVecRolloutBuffer, *args: Any, **kwargs: Any) -> Any:
        return self._each(name, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"Returns what `{name}` of each buffer returns, as a list."
    return method


for _name in (
    "add",
    "compute_returns_and_advantage",
    "extend",
    "get",
    "reset",
    "sample",
    "size",
    "swap_and_flatten",
    "to_torch",
):
    setattr(DummyVecRolloutBuffer, _name, _passed_on(_name))
