"""An interrupt amid the import of a library ends what asked for it, and leaves the library to be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compressed_array._runtime import loading
from core_helpers.interruptions import Interruption

USE = """
import faulthandler, signal, sys, threading, time
import numpy as np
import compressed_array as ca
from compressed_array._runtime import loading

faulthandler.dump_traceback_later(240, exit=True)
watched, raises = sys.argv[1], {"Ctrl-C": KeyboardInterrupt, "a time limit": TimeoutError}[sys.argv[2]]

def handler(*_):
    raise raises

class Watch:
    done = False
    def find_spec(self, module, path=None, target=None):
        if module == watched and not self.done:
            self.done = True
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
            time.sleep(0.2)  # in which it is handled, if this is the main thread or that one waits

def use():
    items = np.repeat(np.arange(100, dtype=np.uint8)[:, None], 500, axis=1)
    array = ca.compress(items, item_ndim=1, codec=sys.argv[3])
    assert (array[np.arange(100)] == items).all()

signal.signal(signal.SIGALRM, handler)
sys.meta_path.insert(0, Watch())
try:
    use()
except raises:
    print("interrupted")
use()
assert loading.native("_runtime.numba_tools") is not None and ca.has_zstd()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no signals to a thread")
@pytest.mark.parametrize(
    ("watched", "codec", "raises"),
    [
        ("numba.core.types", "delta", "Ctrl-C"),
        ("compressed_array._runtime.numba_tools", "gzip", "a time limit"),
        pytest.param("zstandard.backend_c", "zstd", "a time limit", marks=pytest.mark.slow),
    ],
)
def test_a_library_whose_import_is_interrupted_is_used_later(watched: str, codec: str, raises: str) -> None:
    pytest.importorskip("numba")
    pytest.importorskip("zstandard")
    command = [sys.executable, "-c", USE, watched, raises, codec]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "interrupted\n"


def test_interrupts_and_handlers_at_any_point_of_finding_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = loading.native("_runtime.numba_tools")

    def interrupt() -> None:
        raise KeyboardInterrupt

    def handler() -> None:
        assert loading.native("_runtime.numba_tools") in (expected, None)  # None: it came too early to say
        assert loading.load("wave").__name__ == "wave"

    for handles in (interrupt, handler):
        for nth in range(1, 200):
            monkeypatch.setattr(loading, "_found", {})
            monkeypatch.delitem(sys.modules, "wave", raising=False)
            try:
                with Interruption(nth, handles) as interruption:
                    loading.native("_runtime.numba_tools")
                    loading.load("wave")
            except KeyboardInterrupt:
                pass
            assert loading.native("_runtime.numba_tools") is expected, interruption.where
            assert loading.load("wave").open
            if interruption.left > 0:
                break
        assert nth > 20


AMID = """
import signal, sys
import numpy as np
import compressed_array as ca

class Watch:  # a signal's handler that uses an array, amid its own thread's import of numba
    done = False
    def find_spec(self, module, path=None, target=None):
        if module == "numba.core.types" and not self.done:
            self.done = True
            signal.raise_signal(signal.SIGALRM)

def handler(*_):
    array[1] = 7
    assert (array.read() == [[[0]], [[7]], [[0]]]).all()

array = ca.zeros((3, 2, 5), np.uint8, item_ndim=1, codec="delta")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_VIRTUAL, 200)  # a hang is the end of this process
sys.meta_path.insert(0, Watch())
import numba
array[2] = 9
assert (array.read() == [[[0]], [[7]], [[9]]]).all()
assert ca.has_numba()
assert type(array.store.engine).__name__ == "NativeEngine"
print("ok")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no such timers")
def test_a_handler_amid_the_import_of_numba_does_without_kernels() -> None:
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-c", AMID], capture_output=True, text=True, timeout=240)
    assert done.stdout == "ok\n", done.stderr[-3000:]


def test_numba_that_raises_something_odd_is_told_of(tmp_path: Path) -> None:
    """Once, since everything is slower without it."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise AttributeError('no such attribute')\n")
    code = "import compressed_array as ca; print(ca.has_numba()); ca.compress([[1, 2]], codec='delta').read()"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env)
    assert done.stdout == "False\n"
    assert done.stderr.count("no such attribute") == 1
