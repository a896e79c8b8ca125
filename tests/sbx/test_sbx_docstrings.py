"""Docstrings of the SBX adapter: what public names take, and examples that are right."""

from __future__ import annotations

import pytest

import compressed_array_sbx as cax
from core_helpers.docstrings import check_examples, docstring, gaps, modules_with_examples, public_modules


@pytest.mark.parametrize("module", modules_with_examples(cax))
def test_examples_are_right(module: str) -> None:
    check_examples(module)


@pytest.mark.parametrize("module", public_modules(cax))
def test_public_names_say_what_they_take(module: str) -> None:
    assert gaps(module) == []


def test_the_replay_buffer_has_an_example() -> None:
    assert "sample_jax" in docstring(cax.CompressedReplayBuffer).partition(">>>")[2]
