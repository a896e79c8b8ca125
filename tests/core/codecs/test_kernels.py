"""Kernels are loaded in one place: safe beside a fork, and done without where numba is missing, broken or told off."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import compressed_array
from compressed_array import _kernels, available_codecs, get_codec, has_numba
from compressed_array.dtypes import KERNEL_MODULES

PACKAGE = Path(compressed_array.__file__).parent


def run(code: str, *arguments: str, timeout: float = 120, **env: str) -> str:
    """What `code` prints in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", KERNEL_MODULES)
def test_every_kernel_compiles(module: str) -> None:
    """`native` takes whatever is wrong with a kernel for a numba that does not work; this does not."""
    pytest.importorskip("numba")
    assert importlib.import_module(f"compressed_array.{module}") is _kernels.native(module)


FORK = """
import os, signal, sys, threading, time
import numpy as np
import compressed_array as ca

name, watched = sys.argv[1:]
records = np.ones((40, 5000), np.uint8)
inside = threading.Event()

class Watch:
    def find_spec(self, module, path=None, target=None):
        if module.endswith(watched):
            inside.set()
            time.sleep(0.5)

def use():
    codec, out = ca.get_codec(name), np.zeros_like(records)
    codec.decode_batch(codec.encode_batch(records), out)
    assert out.all()
    array = ca.zeros(records.shape, records.dtype, item_ndim=1, codec=name)
    array[:] = records
    assert array[np.arange(40)].all()

sys.meta_path.insert(0, Watch())
thread = threading.Thread(target=use)
thread.start()
assert inside.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    use()
    os._exit(0)
thread.join()
assert os.waitpid(child, 0)[1] == 0, "the child hung"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(
    ("name", "watched"),
    [
        ("rle-jit", "numba"),
        ("rle-jit", "_rle_encode"),
        ("lz4-block", "_lz4_kernels"),
        ("zstd", "_zstd_kernels"),
        ("zstd", "zstandard"),
        ("gzip", "compressed_array._native"),
    ],
)
def test_fork_waits_for_a_first_use(name: str, watched: str) -> None:
    """A child forked while another thread imports or compiles does not wait for ever for that thread's locks."""
    if not available_codecs()[name].available or not has_numba():
        pytest.skip("a library is not installed")
    run(FORK, name, watched)


WITHOUT = """
import numpy as np, compressed_array as ca
assert not ca.has_numba()
info = ca.available_codecs()
assert not info["rle-jit"].available and info["gzip"].available
items = np.repeat(np.arange(100, dtype=np.uint8)[:, None], 500, axis=1)
for name in ("auto", *(name for name in info if info[name].available)):
    array = ca.compress(items, item_ndim=1, codec=name)
    assert (array[np.arange(100)] == items).all()
try:
    ca.get_codec("rle-jit")
except ca.CodecUnavailableError as error:
    assert error.__cause__ is not None
else:
    raise AssertionError("rle-jit without numba")
try:
    ca.init_jit()
except ca.CodecUnavailableError:
    pass
else:
    raise AssertionError("init_jit without numba")
"""


@pytest.mark.parametrize("broken", ["ImportError('needs an older numpy')", "AttributeError('no such attribute')"])
def test_numba_that_does_not_import(broken: str, tmp_path: Path) -> None:
    """It is as if it were not installed."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(f"raise {broken}\n")
    run(WITHOUT, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def test_numba_that_is_told_not_to_compile() -> None:
    pytest.importorskip("numba")
    run(WITHOUT, NUMBA_DISABLE_JIT="1")


def test_missing_numba_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at every batch: looking for it goes through all of `sys.path`."""
    asked = []

    def import_module(name: str) -> None:
        asked.append(name)
        raise ImportError(name)

    monkeypatch.setattr(_kernels, "_found", {})
    monkeypatch.setattr("importlib.import_module", import_module)
    assert [_kernels.native("_native") for _ in range(3)] == [None] * 3
    assert len(asked) == 1


USE = """
import sys
import compressed_array as ca
from compressed_array import _kernels
data = bytes(400)
plain, jitted = (bytes(ca.get_codec(name).encode(data)) for name in ("rle", "rle-jit"))
assert plain == jitted
assert _kernels.native("codecs._rle_encode") is not None
print(len(plain))
"""


def test_cut_off_cache(tmp_path: Path) -> None:
    """A file of numba's cache that was cut short is not used, and nobody need delete it."""
    pytest.importorskip("numba")
    run(USE, NUMBA_CACHE_DIR=str(tmp_path))
    files = [path for path in tmp_path.rglob("*.nb?") if "encode_rows" in path.name]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for suffix in (".nbc", ".nbi"):
        for path in files:
            if path.suffix == suffix:
                path.write_bytes(path.read_bytes()[:40])
        run(USE, NUMBA_CACHE_DIR=str(tmp_path))


def test_cache_knows_of_every_file(tmp_path: Path) -> None:
    """A constant that a kernel has from another file is compiled into it; numba's cache looks at one file alone."""
    pytest.importorskip("numba")
    shutil.copytree(PACKAGE, tmp_path / "compressed_array", ignore=shutil.ignore_patterns("__pycache__"))
    env = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    before = int(run(USE, **env))
    formula = tmp_path / "compressed_array" / "codecs" / "_rle_formula.py"
    text = formula.read_text()
    assert "+ 1 + 255" in text
    formula.write_text(text.replace("+ 1 + 255", "+ 1 + 100"))
    assert int(run(USE, **env)) > before


LOUD = "import logging; logging.basicConfig(level=logging.INFO, stream=__import__('sys').stdout)\n"
NOWHERE = "import numba.core.caching; numba.core.caching.CacheImpl._locator_classes = []\n"


def test_a_first_compile_is_said_once_and_a_cache_that_cannot_be_had_too(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    assert run(LOUD + USE, NUMBA_CACHE_DIR=str(tmp_path)).count("compiling kernels") == 1
    assert "compiling kernels" not in run(LOUD + USE, NUMBA_CACHE_DIR=str(tmp_path))
    assert run(LOUD + NOWHERE + USE).count("NUMBA_CACHE_DIR") == 1


def test_the_cache_knows_every_file_of_constants() -> None:
    """Whatever a module of kernels imports from this package may be compiled into it."""
    text = (PACKAGE / "_native.py").read_text()
    for file in PACKAGE.glob("_*_kernels.py"):
        for name in re.findall(r"^from compressed_array\._(\w+) import", file.read_text(), re.MULTILINE):
            assert name == "native" or name.endswith("_kernels") or f'"{name}"' in text, (file.name, name)


def test_libraries_that_do_not_import(tmp_path: Path) -> None:
    """What is installed and broken is not available, and says so like what is missing."""
    for library in ("zstandard", "lz4", "isal"):
        (tmp_path / library).mkdir()
        (tmp_path / library / "__init__.py").write_text("raise OSError('libsomething.so: cannot open')\n")
    code = """
import compressed_array as ca
info = ca.available_codecs()
for name in ("zstd", "lz4-block", "lz4-frame", "igzip"):
    assert not info[name].available
    try:
        ca.get_codec(name)
    except ca.CodecUnavailableError:
        continue
    raise AssertionError(name)
assert not ca.has_zstd() and not ca.has_lz4() and not ca.has_igzip()
"""
    run(code, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def test_available_is_what_can_be_made() -> None:
    for name, info in available_codecs().items():
        if info.available:
            get_codec(name)
