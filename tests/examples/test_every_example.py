"""Every example says how it is run and is in the list of them, and those that need the core alone run here.

The others are run by the tests of the packages that they are about, and all of them by `nox -s examples`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[!_]*.py"))
SAYS = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in EXAMPLES}
CORE = "packages/compressed-array"
ALONE = [path for path in EXAMPLES if re.search(rf"^ +pip install -e {CORE}$", SAYS[path], re.MULTILINE)]


def test_there_are_examples() -> None:
    assert ALONE
    assert len(EXAMPLES) > len(ALONE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_it_is_run(path: Path) -> None:
    first, *_ = SAYS[path].splitlines()
    assert first.endswith((".", "?"))
    assert re.search(rf"^ +pip install .*{CORE}", SAYS[path], re.MULTILINE)
    commands = re.findall(r"^ +python -m examples\.(\w+)(.*)", SAYS[path], re.MULTILINE)
    assert {name for name, _ in commands} == {path.stem}
    assert any("--smoke" in options for _, options in commands)


def test_the_list_has_every_example_once() -> None:
    listed = re.findall(r"^\| \[`(\w+)`\]\((\w+)\.py\) \|", (ROOT / "examples/README.md").read_text(), re.MULTILINE)
    assert all(name == file for name, file in listed)
    assert sorted(name for name, _ in listed) == [path.stem for path in EXAMPLES]


@pytest.mark.long
@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
@pytest.mark.parametrize("as_module", [False, True])
def test_an_example_of_the_core_runs(path: Path, as_module: bool, tmp_path: Path) -> None:
    program = ["-m", f"examples.{path.stem}"] if as_module else [str(path), "--smoke"]
    folder = ROOT if as_module else tmp_path
    done = subprocess.run([sys.executable, "-W", "error", *program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
