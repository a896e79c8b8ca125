"""Loading a replay buffer that was saved before its model had a compressed one."""

from __future__ import annotations

import io
from pathlib import Path

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from compressed_array_sb3._mixin import CompressedBuffer

__all__ = ["load_replay_buffer"]


def load_replay_buffer(
    model: OffPolicyAlgorithm, path: str | Path | io.BufferedIOBase, truncate_last_traj: bool = True
) -> None:
    """Loads a replay buffer into a model, and compresses it if the model's `replay_buffer_class` is a compressed one.

    SB3's own method takes whatever lies in the file, so that a stock buffer stays one. Here it is turned into a
    compressed one with the model's `replay_buffer_kwargs`; meanwhile both are in memory. A compressed buffer in the
    file is taken as it is, with the codec that it was saved with.

    Args:
        model: What gets the buffer.
        path: What `model.save_replay_buffer` wrote: a path, or an open file.
        truncate_last_traj: Whether HER's last episode ends here, as in SB3's method.
    """
    before, wanted = model.replay_buffer, model.replay_buffer_class
    model.load_replay_buffer(path, truncate_last_traj)
    loaded = model.replay_buffer
    if loaded is None or isinstance(loaded, CompressedBuffer):
        return
    if wanted is None or not issubclass(wanted, CompressedBuffer):
        return
    try:
        model.replay_buffer = wanted.from_buffer(loaded, **model.replay_buffer_kwargs)
    except BaseException:
        model.replay_buffer = before
        raise
