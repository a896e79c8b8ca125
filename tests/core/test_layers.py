"""Imports go down only: `_cli`, `recording`, `torch | _array`, `_stores`, `codecs | _heap`, `_runtime`, `errors`.

Siblings do not know each other. Imports inside functions and kernels that are loaded by name count as any others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import compressed_array

PACKAGE = Path(compressed_array.__file__).parent
# What stands on one level; the public modules beside codecs are part of that level.
LAYERS = {
    "errors": 0,
    "_version": 0,
    "_runtime": 1,
    **dict.fromkeys(("codecs", "abc", "registry", "dtypes", "sampling", "testing"), 2),
    "_heap": 2,
    "_stores": 3,
    **dict.fromkeys(("_array", "torch", "usage"), 4),
    "__init__": 5,
    "recording": 5,
    "_cli": 6,
    "__main__": 7,
}
CODECS = {"codecs", "abc", "registry", "dtypes", "sampling", "testing"}


def imported(file: Path) -> Iterator[str]:
    """The modules of this package that a file names, from the package on."""
    modules = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "compressed_array":
            inside = node.module.removeprefix("compressed_array").lstrip(".")  # type: ignore[union-attr]  # seen above
            yield from (inside or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name.partition(".")[2] for a in node.names if a.name.startswith("compressed_array."))
        elif isinstance(node, ast.Constant) and node.value in modules - {"errors", "abc", "registry", "testing"}:
            yield node.value  # what `native` is given


def test_imports_go_down_only() -> None:
    breaches = []
    for file in sorted(PACKAGE.rglob("*.py")):
        here = file.relative_to(PACKAGE).with_suffix("").parts[0]
        for module in imported(file):
            there = module.partition(".")[0]
            sideways = LAYERS[there] == LAYERS[here] and there != here and not {here, there} <= CODECS
            if LAYERS[there] > LAYERS[here] or sideways:
                breaches.append(f"{file.relative_to(PACKAGE)} imports {module}")
    assert not breaches


def test_every_module_has_a_layer_and_is_looked_at() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert {file.relative_to(PACKAGE).with_suffix("").parts[0] for file in files} == set(LAYERS)
    assert "_stores.frames.kernels.write" in set(imported(PACKAGE / "_stores/frames/engine_native.py"))
    assert "_runtime.loading" in set(imported(PACKAGE / "_runtime/epochs.py"))
