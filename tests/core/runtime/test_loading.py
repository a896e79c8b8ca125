"""Kernels are loaded in one place: safe beside a fork, and done without where numba is missing, broken or told off."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import compressed_array
from compressed_array import available_codecs, get_codec, has_numba
from compressed_array._runtime import loading

pytestmark = pytest.mark.long

PACKAGE = Path(compressed_array.__file__).parent


def run(code: str, *arguments: str, timeout: float = 120, **env: str) -> str:
    """What `code` prints in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", loading.kernel_modules())
def test_every_kernel_compiles(module: str) -> None:
    """`native` takes whatever is wrong with a kernel for a numba that does not work; this does not."""
    pytest.importorskip("numba")
    assert importlib.import_module(f"compressed_array.{module}") is loading.native(module)


def is_kernel(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(ast.unparse(decorator).startswith(("jit(", "helper", "part")) for decorator in decorators)


def test_a_kernel_takes_no_address_of_an_array_of_its_own() -> None:
    """numba frees such an array after its last use by name, and its memory is used by the address after that."""
    trees = [ast.parse(file.read_text()) for file in PACKAGE.rglob("*.py")]
    kernels = [node for tree in trees for node in ast.walk(tree) if is_kernel(node)]
    assert len(kernels) > 40
    for kernel in kernels:
        arguments = {argument.arg for argument in kernel.args.args}
        taken = [node.value for node in ast.walk(kernel) if isinstance(node, ast.Attribute) and node.attr == "ctypes"]
        assert {ast.unparse(array) for array in taken} <= arguments, kernel.name


SHARED_MEMORY = """
import sys, threading, time
import numpy as np
import compressed_array as ca

codec, nbytes = ca.get_codec(sys.argv[1]), 12000
rows = np.repeat(np.random.default_rng(0).integers(0, 256, (4, nbytes // 8), np.uint8), 8, axis=1)
expected = [bytes(codec.encode_batch(rows)[i]) for i in range(4)]
stop = threading.Event()

def others():
    while not stop.is_set():
        for size in (nbytes // 2, nbytes, 2**15, 3 * nbytes + 96):
            np.full(size, 255, np.uint8)

threads = [threading.Thread(target=others) for _ in range(2)]
for thread in threads:
    thread.start()
end, wrong = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    payloads = codec.encode_batch(rows)
    wrong += sum(bytes(payloads[i]) != expected[i] for i in range(4))
stop.set()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""


@pytest.mark.parametrize("seconds", [0.5, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["rle-jit", "lz4-block", "zstd"])
def test_what_a_kernel_works_with_is_not_given_to_another_thread(name: str, seconds: float) -> None:
    """In a process whose threads share one arena, so that what one of them frees another gets."""
    if name not in available_codecs() or not has_numba():
        pytest.skip("a library is not installed")
    run(SHARED_MEMORY, name, str(seconds), MALLOC_ARENA_MAX="1", GLIBC_TUNABLES="glibc.malloc.tcache_count=0")


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
        ("rle-jit", "_rle_encode_kernels"),
        ("zstd", "zstandard"),
        pytest.param("lz4-block", "_lz4_kernels", marks=pytest.mark.slow),
        pytest.param("zstd", "_zstd_kernels", marks=pytest.mark.slow),
        pytest.param("gzip", "compressed_array._runtime.numba_tools", marks=pytest.mark.slow),
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

    monkeypatch.setattr(loading, "_found", {})
    monkeypatch.setattr("importlib.import_module", import_module)
    assert [loading.native("_runtime.numba_tools") for _ in range(3)] == [None] * 3
    assert len(asked) == 1


USE = """
import sys
import compressed_array as ca
from compressed_array._runtime import loading
data = bytes(400)
plain, jitted = (bytes(ca.get_codec(name).encode(data)) for name in ("rle", "rle-jit"))
assert plain == jitted
assert loading.native("codecs._rle_encode_kernels") is not None
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
