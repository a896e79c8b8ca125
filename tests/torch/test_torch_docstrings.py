"""Docstrings of the torch adapter: what public names take, and examples that are right."""

from __future__ import annotations

import pytest

import compressed_array_torch as cat
from compressed_array_torch.torchrl import CompressedStorage
from core_helpers.docstrings import check_examples, docstring, gaps, modules_with_examples, public_modules

MAIN = (
    cat.PrioritizedReplayBuffer,
    cat.ReplayBuffer,
    cat.RolloutBuffer,
    cat.SequenceReplayBuffer,
    cat.SharedReplayBuffer,
    cat.StatsTracker,
    CompressedStorage,
)


@pytest.mark.parametrize("module", modules_with_examples(cat))
def test_examples_are_right(module: str) -> None:
    check_examples(module)


@pytest.mark.parametrize("module", public_modules(cat))
def test_public_names_say_what_they_take(module: str) -> None:
    assert gaps(module) == []


def test_main_classes_have_examples() -> None:
    assert [kind.__name__ for kind in MAIN if ">>>" not in docstring(kind)] == []
