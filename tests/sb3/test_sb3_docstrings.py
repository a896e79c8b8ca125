"""The examples in docstrings are right."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import compressed_array_sb3

PACKAGE = Path(str(compressed_array_sb3.__file__)).parent
FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if ">>>" in file.read_text()]
MODULES = [".".join(("compressed_array_sb3", *file.relative_to(PACKAGE).with_suffix("").parts)) for file in FILES]


@pytest.mark.parametrize("module", [name.removesuffix(".__init__") for name in MODULES])
def test_examples_are_right(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed
