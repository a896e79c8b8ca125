"""Docstrings of `compressed_array.torch`: what public names take, and examples that are right."""

from __future__ import annotations

import pytest

import compressed_array as ca
from compressed_array.torch import DeviceArray
from core_helpers.docstrings import check_examples, docstring, gaps, modules_with_examples

MODULES = [name for name in modules_with_examples(ca) if name.startswith("compressed_array.torch")]


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_right(module: str) -> None:
    check_examples(module)


def test_public_names_say_what_they_take() -> None:
    assert gaps("compressed_array.torch") == []
    assert ">>>" in docstring(DeviceArray)
