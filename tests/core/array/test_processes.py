"""Children made by fork and by spawn read and write, whatever the parent did before."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.arrays import assert_same
from core_helpers.children import PLAIN, child
from core_helpers.codecs import CODECS

pytestmark = pytest.mark.long

METHODS = ["spawn", "fork"] if sys.platform == "linux" else ["spawn"]


def run_child(method: str, arrays: list[Any]) -> Any:
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(arrays, theirs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what is tested here
        process.start()
    theirs.close()
    assert ours.poll(120), "the child hangs"
    answer = ours.recv()
    process.join(60)
    assert process.exitcode == 0
    return answer


@pytest.mark.parametrize("method", METHODS)
def test_a_child_reads_and_writes_after_the_parent_did(method: str) -> None:
    """With every codec, in one child: it takes longer to start than all that it does."""
    arrays = [ca.compress(PLAIN, codec=codec) for codec in CODECS]
    for array in arrays:
        assert_same(array[np.arange(600)], PLAIN)  # kernels compiled, threads started
    for array, (right, back) in zip(arrays, run_child(method, arrays), strict=True):
        assert right, array.codec
        assert_same(pickle.loads(back)[::2], PLAIN[:10:2] + 1)
        assert_same(pickle.loads(back)[1::2], PLAIN[1:10:2])
        assert_same(array, PLAIN)  # the child's writes are its own


@pytest.mark.skipif("fork" not in METHODS, reason="no fork here")
def test_a_fork_and_a_function_with_two_outs_do_not_wait_for_each_other() -> None:
    """Both need the locks of several arrays."""
    code = """
import os, sys, threading
import numpy as np
import compressed_array as ca

sys.setswitchinterval(1e-6)
arrays, x, stop = [ca.zeros((2, 4), codec="none") for _ in range(8)], np.ones((2, 4)), threading.Event()

def write():
    while not stop.is_set():
        for i in range(0, 8, 2):
            np.modf(x, out=(arrays[i], arrays[i + 1]))

writer = threading.Thread(target=write)
writer.start()
for _ in range(200):
    os.fork() or os._exit(0)
    os.wait()
stop.set()
writer.join()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif("fork" not in METHODS, reason="no fork here")
def test_a_fork_in_the_middle_of_other_threads_reads_and_writes(codec: str) -> None:
    array = ca.compress(PLAIN, codec=codec)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            array[np.arange(100)]

    def write() -> None:
        while not stop.is_set():
            array[100:110] = PLAIN[100:110]

    threads = [threading.Thread(target=work) for work in (read, read, write)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            ((right, _),) = run_child("fork", [array])
            assert right
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert_same(array, PLAIN)
