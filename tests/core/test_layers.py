"""Imports go down only: `_cli`, `recording`, `torch | _array`, `_stores`, `codecs | _heap`, `_runtime`, `errors`.

Siblings do not know each other, faces know but a few modules of stores, and adapters know public names alone. Imports
inside functions and kernels that are loaded by name count as any others.
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
# What is known of stores by modules that are not of them.
KNOWN_OF_STORES = {
    "_array": {"protocol", "exports", "selection"},
    "_cli": {"exports"},
    # A device has a store of its own, for which items divide into frames, and lanes remember them, as on the host.
    "torch": {
        "protocol",
        *("frames.layouts", "frames.lanes", "frames.stacks", "frames.kernels.new_frames_for_device"),
    },
}
ADAPTERS = Path(__file__).parents[2] / "adapters"


def imported(source: str) -> Iterator[str]:
    """The modules of this package that source code names, from the package on."""
    modules = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "compressed_array":
            inside = node.module.removeprefix("compressed_array").lstrip(".")  # type: ignore[union-attr]  # seen above
            for alias in node.names:
                name = f"{inside}.{alias.name}".lstrip(".")  # of a module in a package, or of something in a module
                is_module = name in modules or f"{name}.__init__" in modules
                yield name if is_module else inside or "__init__"
        elif isinstance(node, ast.Import):
            whole = (a.name for a in node.names if a.name.partition(".")[0] == "compressed_array")
            yield from (name.partition(".")[2] or "__init__" for name in whole)
        elif isinstance(node, ast.Constant) and node.value in modules - {"errors", "abc", "registry", "testing"}:
            yield node.value  # what `native` is given


def test_imports_go_down_only() -> None:
    breaches = []
    for file in sorted(PACKAGE.rglob("*.py")):
        here = file.relative_to(PACKAGE).with_suffix("").parts[0]
        for module in imported(file.read_text()):
            there = module.partition(".")[0]
            sideways = LAYERS[there] == LAYERS[here] and there != here and not {here, there} <= CODECS
            if LAYERS[there] > LAYERS[here] or sideways:
                breaches.append(f"{file.relative_to(PACKAGE)} imports {module}")
    assert not breaches


def test_every_module_has_a_layer_and_is_looked_at() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert {file.relative_to(PACKAGE).with_suffix("").parts[0] for file in files} == set(LAYERS)
    assert "_stores.frames.kernels.write" in imported((PACKAGE / "_stores/frames/engine_native.py").read_text())
    assert "_runtime.loading" in imported((PACKAGE / "_runtime/epochs.py").read_text())
    assert "__init__" in imported((PACKAGE / "_cli/composition.py").read_text())
    assert list(imported("from compressed_array._stores import cells, frames")) == ["_stores.cells", "_stores.frames"]
    assert list(imported("from compressed_array import _stores, zeros")) == ["_stores", "__init__"]
    assert set(KNOWN_OF_STORES) <= set(LAYERS)


def test_faces_know_but_a_few_modules_of_stores() -> None:
    breaches = []
    for file in sorted(PACKAGE.rglob("*.py")):
        here = file.relative_to(PACKAGE).with_suffix("").parts[0]
        known = {f"_stores.{module}" for module in KNOWN_OF_STORES.get(here, ())}
        unknown = {m for m in imported(file.read_text()) if m.partition(".")[0] == "_stores"} - known
        breaches += [f"{file.relative_to(PACKAGE)} imports {module}" for module in unknown if here != "_stores"]
    assert not breaches


def test_adapters_use_public_names_only() -> None:
    breaches, files = [], sorted(ADAPTERS.glob("*/src/**/*.py"))
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            breaches += [
                f"{file.name}: {name}" for name in names if name.startswith("compressed_array.") and "._" in name
            ]
    assert files
    assert not breaches
