"""The examples in docstrings are right."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import compressed_array as ca

PACKAGE = Path(str(ca.__file__)).parent
# Of `torch/`, other tests run what is said.
FILES = [
    f for f in sorted(PACKAGE.rglob("*.py")) if ">>>" in f.read_text() and "torch" not in f.relative_to(PACKAGE).parts
]
MODULES = [".".join(("compressed_array", *file.relative_to(PACKAGE).with_suffix("").parts)) for file in FILES]


@pytest.mark.parametrize("module", [name.removesuffix(".__init__") for name in MODULES])
def test_examples_are_right(module: str) -> None:
    if module.endswith(".gymnasium"):
        pytest.importorskip("gymnasium")  # the one library that a module of the core cannot be imported without
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed


def test_there_are_examples() -> None:
    assert len(MODULES) >= 8
