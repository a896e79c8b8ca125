"""Readers beside the writer of a ring, and children beside their parent: what is read is what was written, whole."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import _heap
from compressed_array._runtime import threads as _parallel
from compressed_array._stores.frames import engine_native
from compressed_array._stores.frames.groups import ADDRESS_MASK, FIRST_PACKED, TAG_BITS
from compressed_array.errors import CorruptPayloadError
from core_helpers import streams
from core_helpers.arrays import assert_same
from core_helpers.codecs import CODECS
from core_helpers.streams import FRAME_CODECS, Screens, Stacked, check_store, pair

pytestmark = pytest.mark.long

RING, LANES, VERSIONS = 48, 2, 600
NAMES = [*FRAME_CODECS, "delta/1"] + (["delta-zstd/2"] if "delta-zstd" in CODECS else [])


def steps_of(depth: int, kind: str) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Observations and next observations of some hundred steps, to be written over and over."""
    stream = Stacked(LANES, depth, (1, 20, 20) if depth > 1 else (20, 20), kind, episode=13)
    return [(step.obs, step.next_obs) for step in stream.steps(VERSIONS)]


@pytest.mark.parametrize("seconds", [0.4, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize(("depth", "kind"), [(4, "calm"), (1, "busy"), (4, "noise")])
def test_pairs_are_read_beside_a_ring_writer(
    codec: str, depth: int, kind: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each item of a cell is one of those that were written to it; nothing is torn, freed or moved under a reader."""
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", 16 * 1024)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", 64 * 1024)
    steps = steps_of(depth, kind)
    items = steps[0][0]
    arrays = pair((RING, *items.shape), codec, items.ndim - 1)
    written = [[{bytes(items.nbytes // LANES)} for _ in range(LANES)] for _ in range(RING)]
    for t, step in enumerate(steps):
        for lane in range(LANES):
            written[t % RING][lane] |= {step[0][lane].tobytes(), step[1][lane].tobytes()}
    for t in range(RING):
        arrays[0][t], arrays[1][t] = steps[t]
    stop, failures, reads = threading.Event(), [], [0] * 4

    def read(number: int) -> None:
        rng = np.random.default_rng(number)
        while not stop.is_set() and not failures:
            rows, lanes = rng.integers(0, RING, 16), rng.integers(0, LANES, 16)
            try:
                both = ca.read_pair(*arrays, (rows, lanes))
            except Exception as error:
                failures.append(repr(error))
                return
            for got in both:
                for row, lane, item in zip(rows.tolist(), lanes.tolist(), got, strict=True):
                    if item.tobytes() not in written[row][lane]:
                        failures.append(f"cell {row}, {lane} never was that")
            reads[number] += 1

    readers = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for reader in readers:
        reader.start()
    t, deadline = 0, time.monotonic() + seconds
    while (time.monotonic() < deadline or min(reads) == 0) and not failures:
        step = steps[t % VERSIONS]
        at = t % VERSIONS % RING  # where `written` has it
        arrays[0][at], arrays[1][at] = step
        t += 1
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures, failures[0]
    check_store(*arrays)


def test_single_reads_of_the_open_group_are_consistent() -> None:
    """The item written last is read again and again while the writer appends to the same group."""
    array = ca.zeros((400, 32, 32), np.uint8, codec="delta/64")
    frames = np.zeros((400, 32, 32), np.uint8)
    frames[:] = np.arange(400).astype(np.uint8)[:, None, None]
    frames[:, 0, 0] = np.arange(400) // 256
    newest, stop, failures = [0], threading.Event(), []
    array[0] = frames[0]

    def read() -> None:
        while not stop.is_set():
            t = newest[0]
            if not np.array_equal(array.read(t), frames[t]):
                failures.append(t)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for t in range(1, 400):
        array[t] = frames[t]
        newest[0] = t
        if t % 20 == 0:
            time.sleep(0.002)
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert_same(array, frames)


def test_writers_of_two_arrays_on_one_store_take_turns() -> None:
    arrays = pair((200, 1, 20, 20), "delta", 2)
    plains = [np.concatenate([s.obs for s in Stacked(1, 1, (20, 20), seed=k).steps(200)])[:, None] for k in range(2)]

    def write(which: int) -> None:
        for t in range(200):
            arrays[which][t] = plains[which][t]

    threads = [threading.Thread(target=write, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for array, plain in zip(arrays, plains, strict=True):
        assert_same(array, plain)
    check_store(*arrays)


FORK = """
import os, sys, threading
import numpy as np
sys.path[:0] = [sys.argv[2]]
import compressed_array as ca
from core_helpers.streams import Stacked, check_store, pair

stream = Stacked(2, 4, (1, 20, 20), episode=9)
steps = list(stream.steps(400))
obs, next_obs = pair((100, 2, 4, 20, 20), sys.argv[1], 3)
plain = np.zeros(obs.shape, np.uint8), np.zeros(obs.shape, np.uint8)

def write(t, at):
    for which, array in enumerate((obs, next_obs)):
        array[at] = steps[t][which]
        plain[which][at] = steps[t][which]

for t in range(150):
    write(t, t % 100)
np.testing.assert_array_equal(obs.read(), plain[0])  # kernels compiled, threads started
stop = threading.Event()

def read():
    while not stop.is_set():
        ca.read_pair(obs, next_obs, np.arange(100))

readers = [threading.Thread(target=read) for _ in range(2)]
for reader in readers:
    reader.start()
children = []
for t in range(150, 250):
    write(t, t % 100)
    if t % 25 == 0:
        child = os.fork()
        if child:
            children.append(child)
        else:
            status = 1
            try:
                for got, expected in zip(ca.read_pair(obs, next_obs), plain):
                    np.testing.assert_array_equal(got, expected)
                for more in range(250, 400):
                    write(more, more % 100)
                for got, expected in zip(ca.read_pair(obs, next_obs), plain):
                    np.testing.assert_array_equal(got, expected)
                check_store(obs, next_obs)
                status = 0
            finally:
                os._exit(status)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
for reader in readers:
    reader.join()
for got, expected in zip(ca.read_pair(obs, next_obs), plain):
    np.testing.assert_array_equal(got, expected)
check_store(obs, next_obs)
assert codes == [0] * 4, codes
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no fork here")
@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_a_forked_child_goes_its_own_way(codec: str) -> None:
    """It reads what was there at the fork and writes on, while the parent does, and neither sees the other's."""
    import subprocess
    from pathlib import Path

    helpers = str(Path(streams.__file__).parents[1])
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, codec, helpers], check=True, timeout=120)


@pytest.mark.parametrize("codec", NAMES)
def test_threads_that_read_a_batch_together(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes first takes the next items, and the batch is whole whoever ends last."""
    if not ca.has_numba():
        pytest.skip("there are no kernels here")
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "4")
    monkeypatch.setattr(_parallel, "_pool", _parallel.Pool())
    monkeypatch.setattr(engine_native, "WORTH_A_THREAD", 1)
    stream = Stacked(2, 4, (1, 20, 20))
    obs, next_obs = pair((300, *stream.items().shape), codec, 3)
    steps = list(stream.steps(300))
    for t, step in enumerate(steps):
        obs[t], next_obs[t] = step.obs, step.next_obs
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 31, 200):
        rows, lanes = rng.integers(0, 300, count), rng.integers(0, 2, count)
        got = ca.read_pair(obs, next_obs, (rows, lanes))
        assert_same(got[0], np.stack([steps[t].obs[lane] for t, lane in zip(rows, lanes, strict=True)]))
        assert_same(got[1], np.stack([steps[t].next_obs[lane] for t, lane in zip(rows, lanes, strict=True)]))


@pytest.mark.skipif(not ca.has_numba(), reason="there are no kernels here")
def test_reads_are_shared_only_where_threads_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "2")
    monkeypatch.setattr(engine_native.NativeEngine, "_keep_pace", lambda engine, pace: None)
    shared = []

    def nobody_comes(work: Any, shares: int, is_done: Any) -> None:
        shared.append(shares)
        work()

    monkeypatch.setattr(engine_native, "together", nobody_comes)
    array = ca.zeros((400, 84, 84), np.uint8, codec="delta")
    array[:] = np.arange(400, dtype=np.uint8)[:, None, None]
    for _ in range(20):
        assert_same(array.read()[:, 0, 0], np.arange(400, dtype=np.uint8))
    tried = len(shared)
    assert 2 < tried < 10
    array.read()
    assert len(shared) == tried
    for _ in range(50):
        array.store._engine._keep_worth(is_worth_it=True)
    array.read()
    assert len(shared) == tried + 1


@pytest.mark.skipif(not ca.has_numba(), reason="there are no kernels here")
def test_an_item_that_fails_is_named_whoever_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "3")
    monkeypatch.setattr(_parallel, "_pool", _parallel.Pool())
    monkeypatch.setattr(engine_native, "WORTH_A_THREAD", 1)
    pytest.importorskip("zstandard")
    screens = Screens(1, (32, 32), "busy")
    plain = np.stack([screens.next() for _ in range(400)])
    array = ca.zeros(plain.shape, np.uint8, codec="delta-zstd/4")
    for low in range(0, 400, 4):
        array[low : low + 4] = plain[low : low + 4]
    table, frames = array.store._frames.groups.table, array.store._frames
    packed = np.flatnonzero(table["where"] >> TAG_BITS >= FIRST_PACKED)
    where = int(table["where"][packed[3]]) & ADDRESS_MASK
    frames.heap.segment(where >> _heap.OFFSET_BITS)[where & _heap.OFFSET_MASK] ^= 0xFF
    for _ in range(20):
        with pytest.raises(CorruptPayloadError, match="item"):
            array.read()
    after = int(packed[3]) * 4 + 40
    assert_same(array[after:], plain[after:])
