"""The examples and the code in the documents run, and what they claim of themselves holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
# Run by the tests of the packages that they are about.
OF_ADAPTERS = (
    "demo.py",
    "record_episode.py",
    "torch_dqn_atari.py",
    "torch_dreamer_storage.py",
    "torch_r2d2_memory.py",
    "torch_sac.py",
    "train_gpu_replay.py",
    "train_prioritized.py",
    "train_sbx.py",
)
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("[!_]*.py") if path.name not in OF_ADAPTERS)
DOCUMENTS = [ROOT / "README.md", ROOT / "packages/compressed-array/README.md"]


def run(folder: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    run(tmp_path, str(path))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.parent.name)
def test_the_code_in_a_document_runs(path: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    # The rest belongs to the tests of the adapter, and of what needs torch.
    ours = [block for block in blocks if "_sb3" not in block and "import torch" not in block]
    assert ours
    for block in ours:
        run(tmp_path, "-c", block)
