"""The code in the adapter's README runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

README = Path(__file__).parents[2] / "adapters" / "torch" / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1].strip()[:40])
def test_a_block_runs(block: str, tmp_path: Path) -> None:
    if "torchrl" in block:
        pytest.importorskip("torchrl")
    program = tmp_path / "program.py"  # a file, which processes that are spawned import
    program.write_text(block)
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 2
