"""The code in the documents runs, the example says what it claims, and the names are those that are promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import compressed_array_sb3 as cab
import compressed_array_sbx as cax
from document_helpers.code_blocks import ROOT, document_id, documents_of, run_blocks

pytestmark = pytest.mark.long

DOCUMENTS = documents_of("sbx")
# What SBX imports warns of things that JAX is about to take back.
QUIET = ("-W", "error", "-W", "ignore::DeprecationWarning")


def test_the_code_in_the_documents_runs(tmp_path: Path) -> None:
    run_blocks("sbx", DOCUMENTS, tmp_path, options=QUIET)


def test_there_is_code() -> None:
    assert "adapters/sbx/README.md" in {document_id(document) for document in DOCUMENTS}


@pytest.mark.slow
def test_the_example_runs() -> None:
    command = [sys.executable, *QUIET, "-m", "examples.train_sbx", "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "x smaller" in done.stdout


def test_every_buffer_of_the_sb3_adapter_has_its_namesake() -> None:
    names = [name for name in dir(cax) if name.endswith("Buffer")]
    assert sorted(names) == [
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
    ]
    for name in names:
        # Of the SB3 adapter's for a GPU none have n steps.
        theirs = name if hasattr(cab, name) else name.replace("Gpu", "Compressed")
        assert issubclass(getattr(cax, name), getattr(cab, theirs))
        assert name in cax.__all__


def test_all_names_are_there() -> None:
    assert all(hasattr(cax, name) for name in cax.__all__)
    assert cax.__all__ == sorted(cax.__all__)
