"""What all tests share: how many examples hypothesis tries, and which modules a session may leave out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shared or busy machine is slow now and then; how long an example takes is nothing these tests are about.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("quick", settings.get_profile("default"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Modules by their names. Of the same code whether numba and the libraries of codecs are there or not:
SAME_EVERYWHERE = {
    "test_dtypes",
    "test_errors",
    "test_functions",
    "test_keys",
    "test_law5_honest_bytes",
    "test_lending",
    "test_methods",
    "test_predecessor",
}
# Of processes, threads, signals, trainings, or of very many steps:
LONG = {
    "test_dictionary",
    "test_device_hostile",
    "test_device_signals",
    "test_examples",
    "test_file",
    "test_frames_files",
    "test_frames_machine",
    "test_frames_threads",
    "test_freeing",
    "test_guard_pages",
    "test_interrupts",
    "test_kernels",
    "test_law5_honest_bytes",
    "test_law8_bounded",
    "test_lz4",
    "test_native",
    "test_overwrite",
    "test_processes",
    "test_sb3_interrupts",
    "test_sbx_documents",
    "test_sbx_own",
    "test_sbx_training",
    "test_seed_samples",
    "test_signals",
    "test_state_machine",
    "test_threads",
    "test_torch_documents",
    "test_torch_examples",
    "test_training",
    "test_training_utils",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        module = Path(item.path).stem
        if module in SAME_EVERYWHERE:
            item.add_marker(pytest.mark.same_everywhere)
        if module in LONG:
            item.add_marker(pytest.mark.long)
