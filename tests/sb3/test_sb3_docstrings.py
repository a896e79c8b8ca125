"""Docstrings of the SB3 adapter: what public names take, and examples that are right."""

from __future__ import annotations

import pytest

import compressed_array_sb3 as cab
from core_helpers.docstrings import check_examples, docstring, gaps, modules_with_examples, public_modules

MAIN = (
    cab.CompressedPrioritizedReplayBuffer,
    cab.CompressedReplayBuffer,
    cab.CompressedRolloutBuffer,
    cab.GpuReplayBuffer,
    cab.PrioritizedDQN,
)


@pytest.mark.parametrize("module", modules_with_examples(cab))
def test_examples_are_right(module: str) -> None:
    check_examples(module)


@pytest.mark.parametrize("module", public_modules(cab))
def test_public_names_say_what_they_take(module: str) -> None:
    assert gaps(module) == []


def test_main_classes_have_examples() -> None:
    assert [kind.__name__ for kind in MAIN if ">>>" not in docstring(kind)] == []
