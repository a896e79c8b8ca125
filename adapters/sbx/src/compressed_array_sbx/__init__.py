"""SBX's buffers with compressed observations, and batches for your own loops in JAX.

>>> from sbx import DQN
>>> from compressed_array_sbx import CompressedReplayBuffer
>>> model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=CompressedReplayBuffer)
"""

from compressed_array.usage import KeyUsage, MemoryUsage
from compressed_array_sb3 import (
    BufferClassError,
    BufferEmptyError,
    BufferNotFullError,
    BufferOptionError,
    BufferStatsCallback,
    MemoryForecastWarning,
    ObservationError,
    load_replay_buffer,
)
from compressed_array_sbx._version import __version__
from compressed_array_sbx.batches import JaxReplaySamples
from compressed_array_sbx.gpu import (
    GpuDictNStepReplayBuffer,
    GpuDictReplayBuffer,
    GpuDictRolloutBuffer,
    GpuNStepReplayBuffer,
    GpuReplayBuffer,
    GpuRolloutBuffer,
)
from compressed_array_sbx.replay import (
    CompressedDictNStepReplayBuffer,
    CompressedDictReplayBuffer,
    CompressedHerReplayBuffer,
    CompressedNStepReplayBuffer,
    CompressedReplayBuffer,
)
from compressed_array_sbx.rollout import CompressedDictRolloutBuffer, CompressedRolloutBuffer

__all__ = [
    "BufferClassError",
    "BufferEmptyError",
    "BufferNotFullError",
    "BufferOptionError",
    "BufferStatsCallback",
    "CompressedDictNStepReplayBuffer",
    "CompressedDictReplayBuffer",
    "CompressedDictRolloutBuffer",
    "CompressedHerReplayBuffer",
    "CompressedNStepReplayBuffer",
    "CompressedReplayBuffer",
    "CompressedRolloutBuffer",
    "GpuDictNStepReplayBuffer",
    "GpuDictReplayBuffer",
    "GpuDictRolloutBuffer",
    "GpuNStepReplayBuffer",
    "GpuReplayBuffer",
    "GpuRolloutBuffer",
    "JaxReplaySamples",
    "KeyUsage",
    "MemoryForecastWarning",
    "MemoryUsage",
    "ObservationError",
    "__version__",
    "load_replay_buffer",
]
