"""The program as its users run it: in a process of its own, in a terminal of 80 columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

WIDTH = 80


def run_program(*arguments: Any, columns: int = WIDTH) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "compressed_array", *map(str, arguments)]
    env = os.environ | {"COLUMNS": str(columns)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def invoke(*arguments: Any) -> Any:
    """The same in this process, which is faster."""
    from typer.testing import CliRunner

    from compressed_array._cli.app import app

    return CliRunner(env={"COLUMNS": str(WIDTH)}).invoke(app, [str(word) for word in arguments])


def answer(*arguments: Any) -> Any:
    """What a command says in JSON."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def text(*arguments: Any) -> str:
    """What a command says to people, all of it as wide as a terminal at most."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines()), default=0) <= WIDTH
    assert "\x1b" not in result.stdout
    return str(result.stdout)


def complaint(*arguments: Any, code: int) -> str:
    """What is wrong, in one line on the standard error, with this exit code."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    return str(result.stderr).strip()
