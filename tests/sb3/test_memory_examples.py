"""The tables of memory by codec are printed, small, in 80 columns, and a buffer that lies or loses is found out."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tqdm")
ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "as_module"),
    [
        ("eval_memory_saving", False),
        ("eval_memory_loading", True),
        pytest.param("eval_memory_saving", True, marks=pytest.mark.slow),
        pytest.param("eval_memory_loading", False, marks=pytest.mark.slow),
    ],
)
def test_a_table_is_printed(name: str, as_module: bool, tmp_path: Path) -> None:
    program = ["-m", f"examples.{name}"] if as_module else [str(ROOT / "examples" / f"{name}.py")]
    command = [sys.executable, "-W", "error", *program, "--smoke"]
    done = subprocess.run(command, cwd=ROOT if as_module else tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[3:-1]] == ["SB3", "zstd-3", "auto"]
    stock, _, auto = ([float(word) for word in line.split("|")[0].split()[1:]] for line in lines[3:-1])
    assert stock[0] == 28.2  # 1,000 stacks of 4 frames
    assert auto[0] < stock[0] / 20
    assert "bit for bit" in lines[-1]
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_fails() -> None:
    spec = importlib.util.spec_from_file_location("saving", ROOT / "examples" / "eval_memory_saving.py")
    assert spec is not None
    assert spec.loader is not None
    saving: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(saving)
    nothing = saving.Cost(math.nan, math.nan, math.nan)

    def rows(auto: float, really: float) -> Any:
        zstd = ("zstd3", saving.Cost(50e6, 52e6, 1.0), saving.Cost(40e6, 80e6, 1.0))
        return [("SB3", saving.Cost(1e9, 1e9, 1.0), nothing), zstd, ("auto", saving.Cost(auto, really, 1.0), nothing)]

    saving.check(rows(30e6, 32e6))
    with pytest.raises(AssertionError, match="more than another codec"):
        saving.check(rows(45e6, 45e6))
    with pytest.raises(AssertionError, match="auto says 30,000,000 and takes 40,000,000"):
        saving.check(rows(30e6, 40e6))
