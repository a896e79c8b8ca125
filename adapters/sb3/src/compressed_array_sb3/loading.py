"""Loading a replay buffer that was saved before its model had a compressed one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from compressed_array_sb3._mixin import CompressedBuffer

__all__ = ["load_replay_buffer"]


def load_replay_buffer(
    model: OffPolicyAlgorithm, path: str | Path | io.BufferedIOBase, truncate_last_traj: bool = True
) -> None:
    """Loads a replay buffer into a model, and compresses it if the model's `replay_buffer_class` is a compressed one.

    SB3's own method gives the model the buffer from the file, so a stock buffer stays one. Here it is turned into a
    compressed one with the model's `replay_buffer_kwargs`; meanwhile both are in memory. A compressed buffer from the
    file is not changed, and keeps the codec that it was saved with, unless it lacks what the model's class has: a
    buffer without priorities becomes one in which all transitions have the same, and one of SB3's adapter one for SBX.

    Args:
        model: The model that gets the buffer.
        path: What `model.save_replay_buffer` wrote: a path, or an open file.
        truncate_last_traj: Whether HER's last episode ends here, as in SB3's method.

    >>> import io
    >>> from stable_baselines3 import DQN
    >>> from compressed_array_sb3 import CompressedReplayBuffer, load_replay_buffer
    >>> before, file = DQN("MlpPolicy", "CartPole-v1", buffer_size=100, device="cpu").learn(20), io.BytesIO()
    >>> before.save_replay_buffer(file)
    >>> file = io.BytesIO(file.getvalue())
    >>> model = DQN("MlpPolicy", "CartPole-v1", 1e-4, 100, replay_buffer_class=CompressedReplayBuffer, device="cpu")
    >>> load_replay_buffer(model, file)
    >>> type(model.replay_buffer).__name__, model.replay_buffer.size()
    ('CompressedReplayBuffer', 20)
    """
    before, wanted = model.replay_buffer, cast("Any", model.replay_buffer_class)
    model.load_replay_buffer(path, truncate_last_traj)
    loaded = model.replay_buffer
    if loaded is None or wanted is None or not issubclass(wanted, CompressedBuffer):
        return
    if isinstance(loaded, CompressedBuffer) and wanted._has_all_of(loaded, model.replay_buffer_kwargs):
        return
    try:
        model.replay_buffer = wanted.from_buffer(loaded, **model.replay_buffer_kwargs)
    except BaseException:
        model.replay_buffer = before
        raise
