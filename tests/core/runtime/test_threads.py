"""Rows shared among threads: all of them, once each, and nothing is written any more when the call is over."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from compressed_array._runtime import threads
from compressed_array._runtime.threads import MIN_BYTES_PER_THREAD, Pool, over_rows, together
from core_helpers.interruptions import Interruption

PLENTY = 64 * MIN_BYTES_PER_THREAD


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", "3")
    monkeypatch.setattr(threads, "_pool", Pool())


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


class Working:
    """Work that says whether another thread than the caller's is at it."""

    def __init__(self, seconds: float) -> None:
        self.caller, self.seconds = threading.get_ident(), seconds
        self.begun, self.running = threading.Event(), 0

    def __call__(self, low: int = 0, high: int = 0) -> None:
        if threading.get_ident() == self.caller:
            self.begun.wait(30)
            return
        self.running += 1
        self.begun.set()
        time.sleep(self.seconds)
        self.running -= 1


@pytest.fixture
def interrupted() -> Iterator[Callable[[float], None]]:
    """Has Ctrl-C come some time later, or more than once."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that signal")
@pytest.mark.parametrize("shared", ["over_rows", "together"])
def test_an_interrupt_waits_for_the_threads(shared: str, interrupted: Callable[[float], None]) -> None:
    """Ctrl-C while waiting is raised when no thread writes into the caller's memory any more, and not before."""
    work, running = Working(0.3), 1

    def share() -> None:
        nonlocal running
        try:
            interrupted(0.04)
            if shared == "over_rows":
                over_rows(work, 12, PLENTY)
            else:
                together(work, 3, lambda: False)
        finally:
            running = work.running
            signal.setitimer(signal.ITIMER_REAL, 0)

    with pytest.raises(KeyboardInterrupt):
        share()
    assert work.begun.is_set()
    assert running == 0


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_at_any_point_leaves_nobody_at_work() -> None:
    interrupts = 0
    for nth in range(1, 200):
        work = Working(0.002)
        try:
            with Interruption(nth, raise_interrupt) as interruption:
                over_rows(work, 12, PLENTY)
        except KeyboardInterrupt:
            interrupts += 1
        running = work.running
        assert running == 0, interruption.where
        test_each_row_once()  # and the next are served
        if interruption.left > 0:
            break
    assert interrupts > 30


def test_a_handler_shares_work_at_any_point_of_sharing_work() -> None:
    handled = 0

    def handler() -> None:
        nonlocal handled
        test_each_row_once()
        handled += 1

    for nth in range(1, 200):
        seen: list[int] = []
        with Interruption(nth, handler) as interruption:
            over_rows(lambda low, high, seen=seen: seen.extend(range(low, high)), 100, PLENTY)
        assert sorted(seen) == list(range(100))
        if interruption.left > 0:
            break
    assert handled > 30


def test_what_nobody_took_is_not_kept() -> None:
    """A share that waits behind another's long work does not keep the memory that it is about."""
    long, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        long.wait(30)

    occupying = threading.Thread(target=lambda: together(wait, 3, lambda: False))
    occupying.start()
    assert begun.wait(30)

    class Memory:
        def __call__(self) -> None:
            pass

    work = Memory()
    together(work, 3, lambda: True)
    gone = weakref.ref(work)
    del work
    assert gone() is None
    long.set()
    occupying.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is what is tried
def test_a_forked_child_has_threads_of_its_own() -> None:
    test_each_row_once()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        work = Working(0.01)  # which waits for another thread to begin
        over_rows(work, 12, PLENTY)
        os._exit(0 if work.begun.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0


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


@pytest.mark.parametrize("asked", ["0", "-1", "many", ""])
def test_thread_count_is_a_number(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPRESSED_ARRAY_THREADS", asked)
    with pytest.raises(ValueError, match="COMPRESSED_ARRAY_THREADS"):
        threads.thread_count()
