"""The code in the adapter's README runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

README = Path(__file__).parents[2] / "adapters/sb3/README.md"
BLOCKS = [dedent(block) for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_in_the_readme_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_is_code() -> None:
    assert len(BLOCKS) == 3
