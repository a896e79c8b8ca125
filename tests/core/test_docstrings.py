"""Docstrings: what public names take, examples that are right, and one voice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import compressed_array as ca
import compressed_array.recording
import compressed_array.sampling
from core_helpers.docstrings import check_examples, docstring, gaps, modules_with_examples, public_modules
from document_helpers.code_blocks import ROOT

# `tests/device` looks at what needs torch. The others need libraries that may be missing here.
MODULES = [name for name in modules_with_examples(ca) if not name.startswith("compressed_array.torch")]
OPTIONAL = {"compressed_array.recording.gymnasium": "gymnasium"}
EXCEPTIONS = {
    "CompressedArray.on_table": "how the package makes an array, which nobody else can",
    "CompressedArray.seen_as": "likewise a view",
    "init_jit": "an example would compile for seconds",
}
MAIN = (
    ca.Codec,
    ca.CompressedArray,
    ca.TransitionReader,
    ca.recording.CompressedRecordBuffer,
    ca.recording.RecordBuffer,
    ca.sampling.PriorityTree,
    ca.sampling.Ring,
    ca.sampling.Windows,
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_right(module: str) -> None:
    if module in OPTIONAL:
        pytest.importorskip(OPTIONAL[module])
    check_examples(module)


@pytest.mark.parametrize("module", [name for name in public_modules(ca) if name != "compressed_array.torch"])
def test_public_names_say_what_they_take(module: str) -> None:
    if module in OPTIONAL:
        pytest.importorskip(OPTIONAL[module])
    assert gaps(module, EXCEPTIONS) == []


def test_main_classes_have_examples() -> None:
    assert [kind.__name__ for kind in MAIN if ">>>" not in docstring(kind)] == []


def test_exceptions_are_needed() -> None:
    found = {
        gap.partition(":")[0] for module in ("compressed_array", "compressed_array.dtypes") for gap in gaps(module)
    }
    assert found == set(EXCEPTIONS)


def functions(file: Path) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Yields functions with their docstrings; without properties, which are named, and tests, which hold."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("test_"):
            continue
        doc = ast.get_docstring(node)
        if doc and "property" not in map(ast.unparse, node.decorator_list):
            yield node, doc


def test_docstrings_of_functions_are_in_the_third_person() -> None:
    others, seen = [], 0
    for source in [*ROOT.glob("packages/*/src"), *ROOT.glob("adapters/*/src")]:
        for file in sorted(source.rglob("*.py")):
            where = file.relative_to(source).as_posix()
            for function, doc in functions(file):
                seen += 1
                word = doc.split()[0].rstrip(",.:;")
                if word != "Whether" and not word.endswith("s"):
                    others.append(f"{where}:{function.lineno}: {doc.splitlines()[0]}")
    assert others == []
    assert seen > 1000
