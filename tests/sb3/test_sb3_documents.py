"""The code in the documents that uses the adapter runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
TEXT = "".join((ROOT / name).read_text() for name in ("README.md", "adapters/sb3/README.md"))
BLOCKS = [dedent(b) for b in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "_sb3" in b]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_in_the_documents_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_is_code() -> None:
    assert len(BLOCKS) == 9
