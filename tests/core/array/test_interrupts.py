"""Ctrl-C, and handlers that use arrays, at any point of reading and making arrays: nothing hangs, leaks or is wrong."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._runtime import epochs as _epochs
from compressed_array._runtime import threads
from compressed_array._runtime.epochs import Epochs
from compressed_array._runtime.output_pool import LARGEST, SMALLEST, OutputPool
from compressed_array._runtime.threads import Pool
from core_helpers.codecs import CODECS
from core_helpers.interruptions import Interruption

pytestmark = pytest.mark.long

CELLS, LENGTH = 24, 4096
SHARED = [name for name in ("delta", "zstd", "gzip") if name in CODECS]
SHARED += [pytest.param(name, marks=pytest.mark.slow) for name in ("lz4-block", "rle-jit", "none") if name in CODECS]


def item(cell: int, version: int) -> Any:
    values = np.full(LENGTH, cell, np.uint8)
    values[:: 3 + version % 7] = version % 256
    return values


@pytest.fixture
def _every_read_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "3")
    monkeypatch.setattr(threads, "MIN_BYTES_PER_THREAD", 1)
    monkeypatch.setattr(threads, "_pool", Pool())


def filled(codec: str) -> tuple[Any, Any]:
    plain = np.stack([item(cell, 0) for cell in range(CELLS)])
    return ca.compress(plain, item_ndim=1, codec=codec), plain


def interrupt() -> None:
    raise KeyboardInterrupt


def is_tidy(array: Any) -> bool:
    """Whether nothing waits for readers that are long gone."""
    with array.store.epochs.writing:
        array.store.epochs.collect()
        return len(array.store.epochs._generations) == 1


@pytest.mark.usefixtures("_every_read_is_shared")
@pytest.mark.parametrize("codec", SHARED)
def test_an_interrupt_at_any_point_of_a_read_leaves_an_array_that_works(codec: str) -> None:
    array, plain = filled(codec)
    errors = []
    for nth in range(1, 600):
        out = np.full(plain.shape, 255, np.uint8)
        try:
            with Interruption(nth, interrupt) as interruption:
                array.read(..., out)
        except KeyboardInterrupt as error:
            errors = [error]  # with its traceback, as an interactive session keeps it
            before = out.copy()
            array[nth % CELLS] = plain[nth % CELLS] = item(nth % CELLS, nth)
            assert is_tidy(array), interruption.where
            np.testing.assert_array_equal(out, before)  # nobody writes there any more
        if nth % 5 == 0:
            np.testing.assert_array_equal(array.read(), plain)
        if interruption.left > 0:
            break
    np.testing.assert_array_equal(array.read(), plain)
    assert errors
    assert nth > 40


@pytest.mark.usefixtures("_every_read_is_shared")
@pytest.mark.parametrize("codec", SHARED)
@pytest.mark.parametrize("during", ["read", "write"])
def test_a_handler_reads_at_any_point(codec: str, during: str) -> None:
    array, plain = filled(codec)
    handled = 0

    def handler() -> None:
        nonlocal handled
        got = array.read()
        for cell in range(CELLS):  # what is being written is there or not
            assert np.array_equal(got[cell], plain[cell]) or (cell < 8 and np.array_equal(got[cell], written[cell]))
        handled += 1

    for nth in range(1, 600):
        written = np.stack([item(cell, nth) for cell in range(8)])
        with Interruption(nth, handler) as interruption:
            if during == "read":
                got = array.read()
            else:
                array[:8] = written
        if during == "read":
            np.testing.assert_array_equal(got, plain)
        else:
            plain[:8] = written
        if interruption.left > 0:
            break
    np.testing.assert_array_equal(array.read(), plain)
    assert handled > 40


@pytest.mark.parametrize("does", ["make", "unpickle", "load"])
def test_a_handler_makes_arrays_at_any_point_of_making_one(does: str, tmp_path: Path) -> None:
    array, plain = filled("gzip")
    pickled = pickle.dumps(array)
    ca.save(tmp_path / "array.ca", array)
    handled = 0

    def handler() -> None:
        nonlocal handled
        makes = {
            "make": lambda: ca.compress(plain, item_ndim=1, codec="gzip"),
            "unpickle": lambda: pickle.loads(pickled),
            "load": lambda: ca.load(tmp_path / "array.ca"),
        }
        np.testing.assert_array_equal(makes[does]().read(), plain)
        handled += 1

    for nth in range(1, 400):
        with Interruption(nth, handler) as interruption:
            made = ca.zeros((4, 8), np.uint8, codec="gzip")
        made[1] = 7
        assert (made.read() == np.array([[0], [7], [0], [0]])).all()
        if interruption.left > 0:
            break
    assert handled > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is what is tried
def test_a_handler_makes_arrays_and_forks_at_any_point_of_a_fork() -> None:
    """The hooks that are called around a fork are Python's to interrupt, too."""
    kept = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            kept[-1][0] = 1
            os._exit(int(kept[-1][0]) - 1)
        assert os.waitpid(child, 0)[1] == 0

    def handler() -> None:
        kept.append(ca.zeros(3, np.uint8, item_ndim=0, codec="none"))
        fork()

    for nth in range(1, 200):
        kept[:] = [ca.zeros(3, np.uint8, item_ndim=0, codec="none")]
        with Interruption(nth, handler) as interruption:
            _epochs._before_fork()
            _epochs._after_fork_in_parent()
        assert not _epochs._held
        kept[0][1] = 5
        if interruption.left > 0:
            break
    assert nth > 5


def test_a_reader_that_an_interrupt_ended_is_not_waited_for() -> None:
    epochs, log = Epochs(), []

    def read() -> None:
        with epochs.reading():
            list(map(str, range(3)))

    errors = []
    for nth in range(1, 50):
        try:
            with Interruption(nth, interrupt, sources=(__file__, _epochs.__file__)) as interruption:
                read()
        except KeyboardInterrupt as error:
            errors.append(error)  # and whatever frames its traceback keeps
        with epochs.writing:
            epochs.retire(lambda nth=nth: log.append(nth))
            epochs.collect()
            assert log[-1:] == [nth], interruption.where
        if interruption.left > 0:
            break
    assert len(errors) > 3


@pytest.mark.parametrize("size", [SMALLEST, LARGEST])
def test_memory_is_lent_after_interrupts_at_any_point(size: int) -> None:
    lender = OutputPool()
    for nth in range(1, 200):
        try:
            with Interruption(nth, interrupt) as interruption:
                lender.lend((size,), np.dtype(np.uint8))
        except KeyboardInterrupt:
            pass
        if interruption.left > 0:
            break
    answer = lender.lend((size,), np.dtype(np.uint8))
    was = answer.__array_interface__["data"][0]
    del answer
    assert lender.lend((size,), np.dtype(np.uint8)).__array_interface__["data"][0] == was
    assert nth > 8


REAL = """
import faulthandler, random, signal, sys, time
import numpy as np
import compressed_array as ca
from compressed_array._runtime import threads

faulthandler.dump_traceback_later(240, exit=True)
codec, wanted, handles = sys.argv[1], int(sys.argv[2]), sys.argv[3]
threads.MIN_BYTES_PER_THREAD = 1024
rng = np.random.default_rng(0)
plain = rng.integers(0, 4, (64, 3, 20000), np.uint8)
array = ca.compress(plain, item_ndim=1, codec=codec)
others = ca.compress(plain, item_ndim=1, codec=codec)
array.read(), others.read()
interrupts = 0

def handler(_, frame):
    global interrupts
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("compressed_array"):
        frame = frame.f_back
    if frame is not None:  # amid something of ours
        interrupts += 1
        if handles == "read":
            assert np.array_equal(others.read(), plain0)
        elif handles == "make":
            ca.zeros((3, 5), codec="gzip")[1] = 3
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004))
    if frame is not None and handles == "raise":
        raise KeyboardInterrupt

plain0 = plain.copy()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001)
out = np.empty_like(plain)
while interrupts < wanted:
    try:
        row = random.randrange(64)
        value = rng.integers(0, 4, (3, 20000), np.uint8)
        array[row] = value
        plain[row] = value
        array.read(..., out)
        assert np.array_equal(out, plain)
    except KeyboardInterrupt:
        got = None
        while got is None:
            try:
                got = array.read(row)
            except KeyboardInterrupt:
                pass
        assert np.array_equal(got, value) or np.array_equal(got, plain[row])  # the write is there or not
        plain[row] = got
signal.setitimer(signal.ITIMER_REAL, 0)
assert np.array_equal(array.read(), plain)
for row in range(64):
    array[row] = plain[row]
with array.store.epochs.writing:
    array.store.epochs.collect()
    assert len(array.store.epochs._generations) == 1
assert np.array_equal(array.read(), plain)
print("ok", interrupts)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no timers that signal")
@pytest.mark.parametrize(
    ("codec", "handles", "wanted"),
    [
        *[("delta", "raise", 150), ("delta", "read", 150), ("zstd", "raise", 150), ("zstd", "make", 150)],
        *[
            pytest.param(codec, handles, 5000, marks=pytest.mark.slow)
            for codec in ("delta", "zstd", "rle-jit", "gzip")
            for handles in ("raise", "read", "make")
        ],
    ],
)
def test_real_signals_while_threads_read_together(codec: str, handles: str, wanted: int) -> None:
    """In a process of its own: what this is about has ended in segmentation faults and in waiting for ever."""
    if codec not in CODECS:
        pytest.skip("a library is not installed")
    if codec == "delta" and not ca.has_numba():
        pytest.skip("without kernels, a frame is written in many steps, between which an interrupt may come")
    env = {**os.environ, "COMPRESSED_ARRAY_THREADS": "3"}
    command = [sys.executable, "-c", REAL, codec, str(wanted), handles]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("ok")
