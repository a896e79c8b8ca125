"""What a buffer holds, in SB3's logger."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from compressed_array.usage import MemoryUsage
from compressed_array_sb3._mixin import CompressedBuffer
from compressed_array_sb3.errors import BufferOptionError

__all__ = ["BufferStatsCallback"]


class BufferStatsCallback(BaseCallback):
    """Records the memory of the model's compressed buffer under `buffer/`, wherever the logger writes to.

    A rollout buffer is looked at after each rollout, any other every `log_freq` steps, and both when training ends.

    Args:
        log_freq: Steps between two looks, of all environments together, as SB3 counts `total_timesteps`. A look takes a
            pass over the buffer's table; 0 for a look at the end only.
        verbose: As in all callbacks of SB3.
    """

    _next = 0

    def __init__(self, log_freq: int = 10_000, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.log_freq = log_freq

    def _init_callback(self) -> None:
        self._buffer()

    def _on_training_start(self) -> None:
        self._next = self.num_timesteps + self.log_freq

    def _on_step(self) -> bool:
        if self.log_freq and self.num_timesteps >= self._next:
            self._next = self.num_timesteps + self.log_freq
            self._record()
        return True

    def _on_rollout_end(self) -> None:
        if getattr(self.model, "replay_buffer", None) is None:
            self._record()

    def _on_training_end(self) -> None:
        self._record()
        # SB3 writes nothing that is recorded after the last step. Like SB3, this adds the step, except for TensorBoard.
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _buffer(self) -> CompressedBuffer:
        buffer = getattr(self.model, "replay_buffer", None)
        if buffer is None:
            buffer = getattr(self.model, "rollout_buffer", None)
        if not isinstance(buffer, CompressedBuffer):
            raise BufferOptionError(
                f"BufferStatsCallback is for compressed buffers, and the model has a {type(buffer).__name__}; one that "
                "was loaded from a file is compressed by compressed_array_sb3.load_replay_buffer(model, path)"
            )
        return buffer

    def _record(self) -> None:
        usage: MemoryUsage = self._buffer().memory_usage()
        record = self.logger.record
        record("buffer/transitions", usage.transitions)
        record("buffer/raw_mb", usage.raw / 1e6)
        record("buffer/stored_mb", usage.stored / 1e6)
        record("buffer/ratio", usage.ratio)
        record("buffer/shared", usage.shared)
        for name, key in usage.keys.items():
            if name:  # not to outputs in which SB3 truncates names, and raises if two become equal
                record(f"buffer/{name}/stored_mb", key.stored / 1e6, exclude=("stdout", "log"))
                record(f"buffer/{name}/ratio", key.ratio, exclude=("stdout", "log"))
