"""Stable-Baselines3's buffers with compressed observations: one line changes, and not a bit of any sample.

>>> from stable_baselines3 import DQN
>>> from compressed_array_sb3 import CompressedReplayBuffer
>>> model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=CompressedReplayBuffer)
"""

from typing import TYPE_CHECKING, Any

from compressed_array import CompressedArray as CompressedArray
from compressed_array import find_buffer_dtypes as find_buffer_dtypes
from compressed_array import find_smallest_dtype as find_smallest_dtype
from compressed_array import has_igzip as has_igzip
from compressed_array import has_lz4 as has_lz4
from compressed_array import has_numba as has_numba
from compressed_array import has_zstd as has_zstd
from compressed_array import init_jit as init_jit
from compressed_array_sb3._dummy import DummyCls as DummyCls
from compressed_array_sb3._usage import KeyUsage as KeyUsage
from compressed_array_sb3._usage import MemoryUsage as MemoryUsage
from compressed_array_sb3._version import __version__ as __version__
from compressed_array_sb3.callbacks import BufferStatsCallback as BufferStatsCallback
from compressed_array_sb3.errors import BufferNotFullError as BufferNotFullError
from compressed_array_sb3.errors import BufferOptionError as BufferOptionError
from compressed_array_sb3.errors import MemoryForecastWarning as MemoryForecastWarning
from compressed_array_sb3.errors import ObservationError as ObservationError
from compressed_array_sb3.gpu import GpuDictReplayBuffer as GpuDictReplayBuffer
from compressed_array_sb3.gpu import GpuDictRolloutBuffer as GpuDictRolloutBuffer
from compressed_array_sb3.gpu import GpuReplayBuffer as GpuReplayBuffer
from compressed_array_sb3.gpu import GpuRolloutBuffer as GpuRolloutBuffer
from compressed_array_sb3.replay import CompressedDictNStepReplayBuffer as CompressedDictNStepReplayBuffer
from compressed_array_sb3.replay import CompressedDictReplayBuffer as CompressedDictReplayBuffer
from compressed_array_sb3.replay import CompressedHerReplayBuffer as CompressedHerReplayBuffer
from compressed_array_sb3.replay import CompressedNStepReplayBuffer as CompressedNStepReplayBuffer
from compressed_array_sb3.replay import CompressedReplayBuffer as CompressedReplayBuffer
from compressed_array_sb3.rollout import CompressedDictRolloutBuffer as CompressedDictRolloutBuffer
from compressed_array_sb3.rollout import CompressedRolloutBuffer as CompressedRolloutBuffer

if TYPE_CHECKING:
    from compressed_array_sb3.contrib import CompressedMaskableDictRolloutBuffer as CompressedMaskableDictRolloutBuffer
    from compressed_array_sb3.contrib import CompressedMaskableRolloutBuffer as CompressedMaskableRolloutBuffer
    from compressed_array_sb3.contrib import (
        CompressedRecurrentDictRolloutBuffer as CompressedRecurrentDictRolloutBuffer,
    )
    from compressed_array_sb3.contrib import CompressedRecurrentPPO as CompressedRecurrentPPO
    from compressed_array_sb3.contrib import CompressedRecurrentRolloutBuffer as CompressedRecurrentRolloutBuffer

_CONTRIB = (
    "CompressedMaskableDictRolloutBuffer",
    "CompressedMaskableRolloutBuffer",
    "CompressedRecurrentDictRolloutBuffer",
    "CompressedRecurrentPPO",
    "CompressedRecurrentRolloutBuffer",
)


def __getattr__(name: str) -> Any:
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
