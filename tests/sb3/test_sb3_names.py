"""Every public module says what is public in it."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import pytest

import compressed_array_sb3 as cab
from core_helpers.docstrings import public_modules

PUBLIC = [
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
    "CompressedMaskableDictRolloutBuffer",
    "CompressedMaskableRolloutBuffer",
    "CompressedNStepReplayBuffer",
    "CompressedPrioritizedDictNStepReplayBuffer",
    "CompressedPrioritizedDictReplayBuffer",
    "CompressedPrioritizedNStepReplayBuffer",
    "CompressedPrioritizedReplayBuffer",
    "CompressedRecurrentDictRolloutBuffer",
    "CompressedRecurrentPPO",
    "CompressedRecurrentRolloutBuffer",
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
    "PrioritizedQRDQN",
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


def test_the_public_names_are_these() -> None:
    assert sorted(cab.__all__) == PUBLIC
    modules = {name.split(".")[1] for name in MODULES if "." in name}
    assert {name for name in dir(cab) if not name.startswith("_")} - modules == set(PUBLIC) - {"__version__"}
    assert [name for name in PUBLIC if not getattr(cab, name).__doc__] == []


MODULES = public_modules(cab)


def test_there_are_modules() -> None:
    assert {"compressed_array_sb3.contrib", "compressed_array_sb3.compressed.base"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_star_brings_all_that_is_public_and_nothing_else(name: str) -> None:
    module, brought = importlib.import_module(name), dict[str, Any]()
    exec(f"from {name} import *", brought)
    del brought["__builtins__"]
    assert sorted(brought) == sorted(module.__all__)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    defined = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and inspect.getmodule(value) is module and not isinstance(value, ModuleType)
    }
    helpers = {
        "compressed_array_sb3.prioritized_dqn": {"buffer_class"},
        "compressed_array_sb3.replay": {"KeyedArrays"},
        "compressed_array_sb3.compressed.compression_methods.compression_methods": {"Compress", "Decompress", "pair"},
    }
    assert defined - set(module.__all__) == helpers.get(name, set())


def test_contrib_is_among_the_names_where_it_is_installed() -> None:
    contrib = importlib.import_module("compressed_array_sb3.contrib")
    assert set(contrib.__all__) <= set(cab.__all__)
