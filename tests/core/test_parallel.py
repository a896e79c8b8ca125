"""Rows shared among threads: all of them, once each, and nothing is written any more when the call is over."""

from __future__ import annotations

import threading
import time

import pytest

from compressed_array import _parallel
from compressed_array._parallel import MIN_BYTES_PER_THREAD, over_rows, together

PLENTY = 64 * MIN_BYTES_PER_THREAD


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "3")
    monkeypatch.setattr(_parallel, "_pool", None)


def test_each_row_once() -> None:
    for rows in (0, 1, 2, 7, 100):
        seen: list[int] = []
        over_rows(lambda low, high, seen=seen: seen.extend(range(low, high)), rows, PLENTY)
        assert sorted(seen) == list(range(rows))


def test_an_error_of_a_thread_is_raised() -> None:
    caller = threading.get_ident()

    def work(low: int, high: int) -> None:
        time.sleep(0.01)  # so that every thread gets a range
        if threading.get_ident() != caller:
            raise KeyError(low)

    with pytest.raises(KeyError):
        over_rows(work, 12, PLENTY)


def test_no_new_range_after_an_error() -> None:
    """What is left when one range has failed is no longer wanted."""
    done: list[int] = []

    def work(low: int, high: int) -> None:
        if low == 0:
            raise ValueError("the first range")
        time.sleep(0.05)
        done.append(low)

    with pytest.raises(ValueError, match="the first range"):
        over_rows(work, 120, PLENTY)
    assert len(done) <= 4


def test_an_interrupt_waits_for_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting is raised when no thread writes into the caller's memory any more, and not before."""
    caller, running, interrupts = threading.get_ident(), [0], [0]
    counting, begun = threading.Lock(), threading.Event()
    real = _parallel.wait

    def interrupted(jobs: object) -> None:
        interrupts[0] += 1
        if interrupts[0] <= 2:
            raise KeyboardInterrupt
        real(jobs)

    def work(low: int, high: int) -> None:
        if threading.get_ident() == caller:
            begun.wait(30)
            return
        with counting:
            running[0] += 1
        begun.set()
        time.sleep(0.3)
        with counting:
            running[0] -= 1

    monkeypatch.setattr(_parallel, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        over_rows(work, 12, PLENTY)
    assert running == [0]
    assert interrupts == [3]


def test_who_comes_late_is_not_waited_for() -> None:
    """This thread has done all there was: the others may end when they like, since they have nothing to write."""
    late, ended = threading.Event(), threading.Event()
    caller = threading.get_ident()

    def work() -> None:
        if threading.get_ident() != caller:
            late.wait(30)
            ended.set()

    together(work, 2, lambda: True)
    assert not ended.is_set()
    late.set()


@pytest.mark.parametrize("fails", [False, True])
def test_who_still_works_is_waited_for(fails: bool) -> None:
    """Whether this thread found that they are not done, or did not get so far."""
    caller, begun, ended = threading.get_ident(), threading.Event(), []

    def work() -> None:
        if threading.get_ident() != caller:
            begun.set()
            time.sleep(0.1)
            ended.append(1)
        else:
            begun.wait(30)
            if fails:
                raise MemoryError("here")

    if fails:
        with pytest.raises(MemoryError, match="here"):
            together(work, 2, lambda: True)
    else:
        together(work, 2, lambda: bool(ended))
    assert ended == [1]


def test_what_another_thread_took_on_is_waited_for() -> None:
    """Whoever does it, and whether or not there is a future for it: the caller's memory is whole when it is over."""
    looks = [0]

    def is_done() -> bool:
        looks[0] += 1
        return looks[0] == 3

    together(lambda: None, 2, is_done)
    assert looks == [3]


@pytest.mark.parametrize("asked", ["0", "-1", "many", ""])
def test_thread_count_is_a_number(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", asked)
    with pytest.raises(ValueError, match="COMPRESSED_ARRAY_THREADS"):
        _parallel.thread_count()
