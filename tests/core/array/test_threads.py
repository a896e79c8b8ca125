"""Many readers beside a writer: every item that is read is one that was written, whole."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array import _heap
from compressed_array._runtime.epochs import Epochs
from core_helpers.arrays import assert_same

pytestmark = pytest.mark.long

CELLS, LENGTH = 48, 6000


def item(cell: int, version: int) -> np.ndarray[Any, Any]:
    """Says in its first number which cell it is for and which version it is; the rest follows from that."""
    values = np.full(LENGTH, version * CELLS + cell, np.uint16)
    values[3 :: 2 + version % 5] = cell * 7
    return values


@pytest.mark.parametrize("seconds", [0.5, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("segment", [4096, 1 << 20])
def test_eight_readers_beside_one_writer(
    codec: str, segment: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_heap, "SMALLEST_SEGMENT", segment)
    monkeypatch.setattr(_heap, "LARGEST_SEGMENT", segment)
    array = ca.zeros((CELLS, LENGTH), np.uint16, codec=codec)
    array[...] = np.stack([item(cell, 0) for cell in range(CELLS)])
    stop, failures, reads = threading.Event(), [], [0] * 8

    def read(number: int) -> None:
        rng = np.random.default_rng(number)
        view = array[::-1]
        while not stop.is_set():
            cells = rng.integers(0, CELLS, 6)
            items = array[cells] if number % 2 else view[CELLS - 1 - cells]
            for cell, got in zip(cells.tolist(), items, strict=True):
                version, of = divmod(int(got[0]), CELLS)
                if of != cell:
                    failures.append(f"asked for cell {cell}, got one of {of}")
                elif not np.array_equal(item(cell, version), got):
                    failures.append(f"torn item in cell {cell}")
            reads[number] += 1

    readers = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for reader in readers:
        reader.start()
    rng, version = np.random.default_rng(99), 0
    deadline = time.monotonic() + seconds
    while (time.monotonic() < deadline or min(reads) == 0) and not failures:
        version = min(version + 1, 40)
        cells = rng.permutation(CELLS)[: rng.integers(1, 10)]
        array[cells] = np.stack([item(int(cell), int(rng.integers(0, version + 1))) for cell in cells])
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert min(reads) > 0


@pytest.fixture
def _impatient() -> Iterator[None]:
    """Threads that take turns often, and so at more points."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("seconds", [0.5, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("_impatient")
def test_whole_arrays_are_read_beside_a_writer(codec: str, seconds: float) -> None:
    """By slices, cells, reductions and iteration, which look at the table itself while it changes."""
    array = ca.zeros((CELLS, 2, 500), np.uint16, item_ndim=1, codec=codec)
    stop, failures, rounds = threading.Event(), [], [0]

    def read() -> None:
        try:
            while not stop.is_set():
                seen = [array.read(), array[3:40:2].read(), array[rounds[0] % CELLS, 1], array[..., 5:9]]
                seen += [array.max(axis=-1), array[:9].min(), next(iter(array)).read()]
                seen += ca.read_pair(array, array[::-1], slice(4, 30))
                for got in seen:
                    # Every item is made of one number, which says nothing of where it belongs.
                    if got.ndim and got.shape[-1] > 2 and (got != got[..., :1]).any():
                        failures.append("a torn item")
                rounds[0] += 1
        except BaseException as error:
            failures.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    rng, deadline = np.random.default_rng(5), time.monotonic() + seconds
    while (time.monotonic() < deadline or not rounds[0]) and not failures:
        rows = rng.permutation(CELLS)[:8]
        array[rows] = np.repeat(rng.integers(0, 60000, (8, 2, 1), np.uint16), 500, axis=2)
    stop.set()
    reader.join()
    assert not failures


def test_writers_take_turns(codec: str) -> None:
    """Four threads that each add one to their own items and to a shared one, through partial writes."""
    array = ca.zeros((5, 100), np.int64, codec=codec)

    def work(number: int) -> None:
        for _ in range(50):
            np.add.at(array, (4, slice(None)), 1)
            array[number, number:] = array[number, number:] + 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = np.zeros((5, 100), np.int64)
    expected[4] = 200
    for number in range(4):
        expected[number, number:] = 50
    assert_same(array, expected)


def test_two_arrays_written_from_each_other_do_not_wait_for_each_other() -> None:
    one, two = (ca.full((200, 6), value, np.int64, codec="none") for value in (1, 2))

    def work(target: Any, source: Any) -> None:
        for _ in range(300):
            np.copyto(target, source)
            np.add(source, 0, out=target)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((one, two), (two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_an_out_that_is_filled_in_part_loses_no_other_writers_data() -> None:
    array, row = ca.zeros((4, 5), np.int64, codec="none"), np.zeros((4, 5), bool)
    row[0] = True
    writer = threading.Thread(target=lambda: array.__setitem__(3, 7))

    class Slow:
        """An operand that lets another thread try to write before it is ready."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            writer.start()
            writer.join(0.2)
            return np.ones((4, 5), np.int64)

    np.add(array, Slow(), out=array, where=row)
    writer.join(60)
    assert (array[0] == 1).all()
    assert (array[3] == 7).all()


def test_nothing_is_reclaimed_while_a_reader_might_see_it() -> None:
    epochs, log = Epochs(), []
    with epochs.writing:
        with epochs.reading():
            epochs.retire(lambda: log.append("first"))
            epochs.collect()
            epochs.retire(lambda: log.append("second"))
            epochs.collect()
            epochs.collect()
            assert log == []
        epochs.collect()
        assert log == ["first", "second"]


def test_a_stream_of_overlapping_readers_does_not_keep_everything_for_ever() -> None:
    epochs, log = Epochs(), []
    with epochs.writing:
        readers = []
        for step in range(20):
            reader = epochs.reading()
            reader.__enter__()
            readers.append(reader)
            epochs.retire(lambda step=step: log.append(step))
            epochs.collect()
            if step >= 1:
                readers.pop(0).__exit__(None, None, None)
    assert len(log) > 10
    assert log == sorted(log)


def test_readers_do_not_wait_for_each_other_or_for_the_writer() -> None:
    array = ca.full((4, 10), 3, np.uint8, codec="rle")
    done = threading.Event()
    with array.store.epochs.writing, array.store.epochs.reading():
        thread = threading.Thread(target=lambda: (array[[0, 1]], array + 1, np.sort(array), array.sum(), done.set()))
        thread.start()
        assert done.wait(10)
        thread.join()
