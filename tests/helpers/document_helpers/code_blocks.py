"""The Python in the documents: where it is, which environment runs it, and a process that does.

The blocks of an environment are run in one process, one after the other, each with names of its own as in a file of its
own: to import torch once for each of them would take many times as long as all of them. Nothing here needs more than
the standard library.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("adapters/*/README.md")),
    *sorted(path for path in ROOT.glob("docs/**/*.md") if {"_build", "_readme"}.isdisjoint(path.parts)),
]

# What each environment of the nox session `tests` can import, beside the standard library. The first that can import
# all that a block asks for runs it, by the tests in FILES.
_CORE = {"compressed_array", "numpy"}
_SB3 = {*_CORE, "torch", "gymnasium", "stable_baselines3", "compressed_array_sb3"}
PROVIDES = {
    "core": {*_CORE, "gymnasium"},
    "device": {*_CORE, "torch", "zarr"},
    "torch": {*_CORE, "torch", "compressed_array_torch", "tensordict", "torchrl"},
    "sb3": {*_SB3, "sb3_contrib"},
    "sbx": {*_SB3, "compressed_array_sbx", "sbx", "jax"},
}
FILES = {
    "core": ("tests/examples/test_examples.py", "tests/docs/test_docs_pages.py"),
    "device": ("tests/device/test_device_documents.py",),
    "torch": ("tests/torch/test_torch_documents.py",),
    "sb3": ("tests/sb3/test_sb3_documents.py",),
    "sbx": ("tests/sbx/test_sbx_documents.py",),
}

_FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<ticks>`{3,}|~{3,}|:{3,}) *(?P<about>[^\n`]*)\n", re.MULTILINE)
_PYTHON = re.compile(r"\b(python3?|py|pycon|ipython3?|pytb|doctest|testcode)\b")
_RUN = """
import runpy, sys, traceback
failed = 0
for program in sys.argv[1:]:
    try:
        runpy.run_path(program, run_name="__main__")
    except Exception:
        traceback.print_exc()
        failed = 1
sys.exit(failed)
"""


class Block(NamedTuple):
    """Some lines of Python, as a document has them."""

    document: Path
    line: int
    code: str

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(ROOT)}, line {self.line}"

    @property
    def imports(self) -> set[str]:
        """The packages that it imports, without those of the standard library."""
        found = set()
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
        return found - sys.stdlib_module_names

    @property
    def environment(self) -> str | None:
        """Which environment runs it; none, if none has all that it imports."""
        return next((name for name, has in PROVIDES.items() if self.imports <= has), None)


def fences(document: Path) -> list[tuple[int, str, str]]:
    """Returns the fenced blocks of a document: line, what stands behind the fence, and the text, without its indent."""
    text = document.read_text()
    found: list[tuple[int, str, str]] = []
    position = 0
    while match := _FENCE.search(text, position):
        position = match.end()
        if match["ticks"].startswith(":"):  # a container, whose text is read as any other
            continue
        end = re.compile(rf"^[ >]*{re.escape(match['ticks'])} *$", re.MULTILINE).search(text, position)
        assert end is not None, f"{document}: a fence that nothing ends: {match[0]!r}"
        line = text.count("\n", 0, match.start()) + 1
        found.append((line, match["about"].strip(), dedent(text[position : end.start()])))
        position = end.end()
    return found


def is_python(about: str) -> bool:
    """Whether a fence says that Python follows, in whatever way."""
    return _PYTHON.search(about) is not None


@cache
def blocks() -> tuple[Block, ...]:
    """Every block of Python in every document."""
    return tuple(
        Block(document, line, code)
        for document in DOCUMENTS
        for line, about, code in fences(document)
        if about == "python"
    )


def documents_of(environment: str) -> list[Path]:
    """The documents that have blocks which this environment runs."""
    return list(dict.fromkeys(block.document for block in blocks() if block.environment == environment))


def document_id(document: Path) -> str:
    return str(document.relative_to(ROOT))


def run_blocks(
    environment: str, documents: Sequence[Path], folder: Path, options: Sequence[str] = ("-W", "error")
) -> None:
    """Runs the blocks of documents that belong to an environment, in a folder, each as a program of its own."""
    programs = []
    for block in blocks():
        if block.document in documents and block.environment == environment:
            # A file, which processes that are spawned import; its name is where an error's traceback points.
            program = folder / f"{document_id(block.document).replace('/', '_')}_line_{block.line}.py"
            program.write_text(block.code)
            programs.append(str(program))
    assert programs, f"there is nothing that `{environment}` runs"
    command = [sys.executable, *options, "-c", _RUN, *programs]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
