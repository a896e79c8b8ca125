"""Stable-Baselines3's buffers with compressed observations: one line changes, and not a bit of any sample.

>>> from stable_baselines3 import DQN
>>> from compressed_array_sb3 import CompressedReplayBuffer
>>> model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=CompressedReplayBuffer)

Programs that were written for sb3-extra-buffers run when they change the name of the package. `_extra_buffers` lists
the modules, arguments and methods that are here for that.
"""

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from compressed_array import (
    CompressedArray,
    find_buffer_dtypes,
    find_smallest_dtype,
    has_igzip,
    has_lz4,
    has_numba,
    has_zstd,
    init_jit,
)
from compressed_array.usage import KeyUsage, MemoryUsage
from compressed_array_sb3._extra_buffers import DummyCls, sb3_version
from compressed_array_sb3._version import __version__
from compressed_array_sb3.callbacks import BufferStatsCallback
from compressed_array_sb3.errors import (
    BufferClassError,
    BufferEmptyError,
    BufferNotFullError,
    BufferOptionError,
    CodecLevelWarning,
    MemoryForecastWarning,
    ObservationError,
    PrioritiesWarning,
    UnweightedLossError,
)
from compressed_array_sb3.gpu import GpuDictReplayBuffer, GpuDictRolloutBuffer, GpuReplayBuffer, GpuRolloutBuffer
from compressed_array_sb3.loading import load_replay_buffer
from compressed_array_sb3.prioritized import (
    CompressedPrioritizedDictNStepReplayBuffer,
    CompressedPrioritizedDictReplayBuffer,
    CompressedPrioritizedNStepReplayBuffer,
    CompressedPrioritizedReplayBuffer,
    PrioritizedReplayBufferSamples,
)
from compressed_array_sb3.prioritized_dqn import PrioritizedDQN
from compressed_array_sb3.replay import (
    CompressedDictNStepReplayBuffer,
    CompressedDictReplayBuffer,
    CompressedHerReplayBuffer,
    CompressedNStepReplayBuffer,
    CompressedReplayBuffer,
)
from compressed_array_sb3.rollout import CompressedDictRolloutBuffer, CompressedRolloutBuffer

if _TYPE_CHECKING:
    from compressed_array_sb3.contrib import (
        CompressedMaskableDictRolloutBuffer,
        CompressedMaskableRolloutBuffer,
        CompressedRecurrentDictRolloutBuffer,
        CompressedRecurrentPPO,
        CompressedRecurrentRolloutBuffer,
        PrioritizedQRDQN,
    )

__all__ = [
    "BufferClassError",
    "BufferEmptyError",
    "BufferNotFullError",
    "BufferOptionError",
    "BufferStatsCallback",
    "CodecLevelWarning",
    "CompressedArray",
    "CompressedDictNStepReplayBuffer",
    "CompressedDictReplayBuffer",
    "CompressedDictRolloutBuffer",
    "CompressedHerReplayBuffer",
    "CompressedNStepReplayBuffer",
    "CompressedPrioritizedDictNStepReplayBuffer",
    "CompressedPrioritizedDictReplayBuffer",
    "CompressedPrioritizedNStepReplayBuffer",
    "CompressedPrioritizedReplayBuffer",
    "CompressedReplayBuffer",
    "CompressedRolloutBuffer",
    "DummyCls",
    "GpuDictReplayBuffer",
    "GpuDictRolloutBuffer",
    "GpuReplayBuffer",
    "GpuRolloutBuffer",
    "KeyUsage",
    "MemoryForecastWarning",
    "MemoryUsage",
    "ObservationError",
    "PrioritiesWarning",
    "PrioritizedDQN",
    "PrioritizedReplayBufferSamples",
    "UnweightedLossError",
    "__version__",
    "find_buffer_dtypes",
    "find_smallest_dtype",
    "has_igzip",
    "has_lz4",
    "has_numba",
    "has_zstd",
    "init_jit",
    "load_replay_buffer",
    "sb3_version",
]
_CONTRIB = (
    "CompressedMaskableDictRolloutBuffer",
    "CompressedMaskableRolloutBuffer",
    "CompressedRecurrentDictRolloutBuffer",
    "CompressedRecurrentPPO",
    "CompressedRecurrentRolloutBuffer",
    "PrioritizedQRDQN",
)
if _find_spec("sb3_contrib") is not None:  # or `from compressed_array_sb3 import *` would fail without it
    __all__ += [
        "CompressedMaskableDictRolloutBuffer",
        "CompressedMaskableRolloutBuffer",
        "CompressedRecurrentDictRolloutBuffer",
        "CompressedRecurrentPPO",
        "CompressedRecurrentRolloutBuffer",
        "PrioritizedQRDQN",
    ]


def __getattr__(name: str) -> _Any:
    # sb3-contrib is an extra, so what needs it is imported when somebody asks for it.
    if name not in _CONTRIB:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from compressed_array_sb3 import contrib
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sb3_contrib"):
            raise
        raise ImportError(f"{name} needs sb3-contrib: pip install 'compressed-array-sb3[contrib]'") from error
    return getattr(contrib, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_CONTRIB])
