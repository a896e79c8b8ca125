"""The command line where what it stands on is missing, and that the library does not need it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from core_helpers.command_line import run_program

EXTRA = "pip install 'compressed-array[cli]'"


@pytest.mark.skipif(importlib.util.find_spec("typer") is not None, reason="of environments without typer")
def test_without_the_extra_it_is_named() -> None:
    run = run_program("codecs")
    assert run.returncode == 2
    assert EXTRA in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("library", ["rich", "typer"])
def test_each_library_that_is_missing_is_noticed(library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; from compressed_array.__main__ import main; main()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert EXTRA in run.stderr
    assert "Traceback" not in run.stderr
