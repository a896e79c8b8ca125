"""A row of a buffer written in one native call, beside the same rows written step by step."""

from __future__ import annotations

import gc
import itertools
import pickle
import signal
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import has_numba
from compressed_array._runtime.payloads import Payloads
from compressed_array._stores.frames.engine_native import NativeEngine
from compressed_array._stores.frames.groups import LISTED, WRITTEN, WRITTEN_WITH_DEAD
from compressed_array._stores.frames.upkeep import Upkeep
from compressed_array._stores.row_writer import RowWriter
from compressed_array.codecs import _clib
from core_helpers.streams import FRAME_CODECS, Stacked, check_store, pair

pytestmark = pytest.mark.long

needs_kernels = pytest.mark.skipif(not has_numba(), reason="without kernels every row is written step by step")
# Of so many lanes more groups could die in one call than there is room for in their list; and more than that has room.
MANY_LANES = LISTED // 3 + 1, LISTED + 44


class Calls:
    """What rows written in one call answered: how many items are done, or that all are and have been put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[int] = []
        write_row = NativeEngine.write_row

        def watched(*given: Any) -> int:
            self.answers.append(write_row(*given))
            return self.answers[-1]

        monkeypatch.setattr(NativeEngine, "write_row", watched)


def write_rings(codec: str, lanes: int, kind: str, depth: int, steps: int = 400, rows: int = 60) -> Any:
    stream = Stacked(lanes, depth, (20, 20), kind, episode=23)
    arrays = pair((rows, lanes, *stream.items().shape[1:]), codec, item_ndim=2)
    plain = [np.zeros(arrays[0].shape, np.uint8) for _ in range(2)]
    for at, step in enumerate(stream.steps(steps)):
        for array, copy, items in zip(arrays, plain, step, strict=False):
            array[at % rows] = copy[at % rows] = items
    for array, copy in zip(arrays, plain, strict=True):
        np.testing.assert_array_equal(array.read(), copy)
    check_store(*arrays)
    return arrays


@needs_kernels
@pytest.mark.parametrize(("kind", "depth"), [("calm", 4), ("noise", 4), ("busy", 1)])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_rows_written_at_once_and_step_by_step_are_the_same_bytes(
    codec: str, lanes: int, kind: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_both_ways(monkeypatch, codec, lanes, kind, depth, steps=250, rows=60)


@needs_kernels
@pytest.mark.parametrize(
    ("kind", "depth"),
    [("noise", 4), *(pytest.param(*how, marks=pytest.mark.slow) for how in (("calm", 4), ("busy", 1)))],
)
@pytest.mark.parametrize("lanes", MANY_LANES)
@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_rows_of_many_lanes_written_at_once_and_step_by_step_are_the_same_bytes(
    codec: str, lanes: int, kind: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_both_ways(monkeypatch, codec, lanes, kind, depth, steps=56, rows=33)


def check_both_ways(
    monkeypatch: pytest.MonkeyPatch, codec: str, lanes: int, kind: str, depth: int, **size: int
) -> None:
    at_once = write_rings(codec, lanes, kind, depth, **size)
    monkeypatch.setattr(RowWriter, "write", lambda *given: False)
    by_steps = write_rings(codec, lanes, kind, depth, **size)
    for one, other in zip(at_once, by_steps, strict=True):
        np.testing.assert_array_equal(one.cells.numbers, other.cells.numbers)
    tables = [arrays[0].store._frames.groups.table for arrays in (at_once, by_steps)]
    for field in ("where", "size", "before", "uses", "count", "layout"):
        np.testing.assert_array_equal(tables[0][field], tables[1][field], err_msg=field)
    assert at_once[0].store.nbytes == by_steps[0].store.nbytes


@needs_kernels
def test_most_rows_of_a_ring_take_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    write_rings("delta", 4, "calm", 4)
    put = [answer for answer in calls.answers if answer in (WRITTEN, WRITTEN_WITH_DEAD)]
    assert len(put) > 0.8 * 2 * 400
    assert {WRITTEN, WRITTEN_WITH_DEAD} == set(put), "groups died, and were buried"
    assert max(calls.answers) >= 0, "and some rows had to wait for memory, or for full groups"


@needs_kernels
def test_small_items_take_one_call_though_nobody_knows_whether_they_are_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    rng = np.random.default_rng(0)
    for length in (17, 24):  # of which the one cannot be a stack, and the other might
        calls.answers.clear()
        array = ca.CompressedArray((100, 4, length), np.float32, item_ndim=1)
        rows = rng.random((1000, 4, length), np.float32)
        for at, row in enumerate(rows):
            array[at % 100] = row
        np.testing.assert_array_equal(array.read(), rows[-100:])
        assert np.count_nonzero(np.array(calls.answers) < 0) > 0.9 * len(rows)
        check_store(array)


@pytest.mark.parametrize("codec", FRAME_CODECS)
def test_a_row_for_which_there_is_no_memory_leaves_the_old_one(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stacked(4, 4, (20, 20), "noise")
    obs, next_obs = pair((60, 4, 80, 20), codec, item_ndim=2)
    plain = np.zeros(obs.shape, np.uint8)
    steps = list(stream.steps(500))
    for at, step in enumerate(steps[:100]):
        obs[at % 60] = plain[at % 60] = step.obs

    def no_memory(*_: Any) -> None:
        raise MemoryError("no segment")

    failed = 0
    with monkeypatch.context() as patch:
        patch.setattr(Upkeep, "make_room", no_memory)
        for at, step in enumerate(steps[100:], 100):
            try:
                obs[at % 60] = step.obs
            except MemoryError:
                failed += 1
            else:
                plain[at % 60] = step.obs
            np.testing.assert_array_equal(obs.read(), plain)
    assert failed
    check_store(obs, next_obs)
    obs[7] = plain[7] = steps[0].obs
    np.testing.assert_array_equal(obs.read(), plain)


def test_rows_of_views_are_the_cells_they_show() -> None:
    rng = np.random.default_rng(1)
    array = ca.CompressedArray((6, 6, 300), np.uint8, item_ndim=1, codec="delta")
    plain = np.zeros(array.shape, np.uint8)
    for view, dense in (
        (array, plain),
        (array.transpose(1, 0, 2), plain.transpose(1, 0, 2)),
        (array[::-1], plain[::-1]),
        (array[:, ::-1], plain[:, ::-1]),
        (array[2:5], plain[2:5]),
        (array[:, 1:3], plain[:, 1:3]),
        (array.reshape(12, 3, 300), plain.reshape(12, 3, 300)),
    ):
        for at in (0, 2, -1):
            view[at] = dense[at] = rng.integers(0, 256, dense.shape[1:], np.uint8)
            np.testing.assert_array_equal(array.read(), plain)
    check_store(array)
    with pytest.raises(IndexError, match="out of bounds"):
        array[6] = plain[0]


def test_a_read_only_array_is_writable_again_when_it_is_told_so() -> None:
    array = ca.CompressedArray((4, 2, 300), np.uint8, item_ndim=1)
    array.setflags(write=False)
    row = np.ones((2, 300), np.uint8)
    assert not array.read().any()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = row
    array.setflags(write=True)
    array[0] = row
    np.testing.assert_array_equal(array.read(0), row)


def test_an_array_that_nobody_has_any_more_goes_at_once() -> None:
    gc.disable()
    try:
        array = ca.CompressedArray((4, 2, 300), np.uint8, item_ndim=1, codec="delta")
        array[0] = np.ones((2, 300), np.uint8)
        view = array[1:]
        view[0] = array.read(0)
        gone = [weakref.ref(array._table), weakref.ref(view)]
        del view
        assert gone[1]() is None
        del array
        assert gone[0]() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_signals_handler_may_read_while_its_thread_reads() -> None:
    rng = np.random.default_rng(0)
    array = ca.CompressedArray((64, 4, 30), np.uint8, item_ndim=1, codec="delta")
    plain = rng.integers(0, 256, array.shape, np.uint8)
    for row, items in enumerate(plain):
        array[row] = items
    handled: list[bool] = []
    done = False

    def read(*_: Any) -> None:
        handled.append(np.array_equal(array.read((np.arange(64), 0)), plain[:, 0]))
        if not done:  # or the last alarm would come when nobody handles it any more
            signal.setitimer(signal.ITIMER_REAL, 2e-4)  # only now: without kernels, a read takes longer than that

    before = signal.signal(signal.SIGALRM, read)
    signal.setitimer(signal.ITIMER_REAL, 2e-4)
    try:
        for turn in range(20_000):
            np.testing.assert_array_equal(array.read([turn % 64]), plain[[turn % 64]])
    finally:
        done = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled
    assert all(handled)


@needs_kernels
def test_rows_that_come_in_other_ways_each_time() -> None:
    """Other strides, a list, a view, another dtype, a key from behind: each is written, and the next plain row too."""
    rng = np.random.default_rng(2)
    array = ca.CompressedArray((9, 3, 1, 20, 20), np.uint8, item_ndim=3, codec="delta")
    plain = np.zeros(array.shape, np.uint8)
    for at in range(300):
        row = rng.integers(0, 256, array.shape[1:], np.uint8)
        holes = np.repeat(row, 2, 3)[..., ::2]
        ways = row, np.asfortranarray(row), row[::-1], row.tolist(), row.astype(np.int64), holes
        key = at % 9 if at % 7 else at % 9 - 9
        array[key] = ways[at % len(ways)]
        plain[key] = ways[at % len(ways)]
        if at % 11 == 0:
            array[at % 9, 1] = plain[at % 9, 1] = 7
            assert array.nbytes_stored > 0  # which sees to all that was put off
        np.testing.assert_array_equal(array.read(), plain)
    check_store(array)


def busy_ring() -> tuple[Stacked, Any, Any]:
    """Frames that zstd's records are best for, an array for them, and its plain twin."""
    array = ca.CompressedArray((30, 2, 20, 20), np.uint8, item_ndim=2, codec="delta")
    return Stacked(2, 1, (20, 20), "busy"), array, np.zeros(array.shape, np.uint8)


@needs_kernels
def test_rows_written_by_one_thread_after_another() -> None:
    """zstd's contexts belong to threads, and a thread that is gone has taken its own along."""
    pytest.importorskip("zstandard")
    stream, array, plain = busy_ring()
    steps = iter(enumerate(stream.steps(400)))

    def write() -> None:
        for at, step in itertools.islice(steps, 10):
            array[at % 30] = plain[at % 30] = step.obs

    for _ in range(40):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        np.testing.assert_array_equal(array.read(), plain)
    check_store(array)


@needs_kernels
def test_rows_of_a_thread_that_uses_many_levels_of_zstd() -> None:
    """A thread keeps a few contexts; one that has to make room must not be used any more."""
    pytest.importorskip("zstandard")
    stream, array, plain = busy_ring()
    for at, step in enumerate(stream.steps(300)):
        array[at % 30] = plain[at % 30] = step.obs
        in_use = array.store._policy.settings.zstd.level
        for level in (2, 4, 5, 7, 8):  # none that a store uses by itself
            ca.get_codec(f"zstd/{level}").encode_parts(Payloads.from_parts([step.obs.reshape(-1)]))
        assert in_use not in _clib._contexts._compressors
    np.testing.assert_array_equal(array.read(), plain)
    check_store(array)


def test_a_snapshot_is_taken_anew_after_a_row() -> None:
    array = ca.CompressedArray((8, 2, 300), np.uint8, item_ndim=1, codec="delta")
    row = np.arange(600, dtype=np.uint16).astype(np.uint8).reshape(2, 300)
    for at in range(40):
        array[at % 8] = row + np.uint8(at)
        copy = pickle.loads(pickle.dumps(array))
        np.testing.assert_array_equal(copy.read(), array.read())
