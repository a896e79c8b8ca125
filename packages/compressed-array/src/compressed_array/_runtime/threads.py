"""Sharing the rows of a batch among a few threads.

Numba's own parallel layers abort the process when two Python threads enter them at once or a forked child uses them,
so kernels release the GIL and are run over ranges of rows on plain threads, which a forked child starts again.

A signal's handler runs in the main thread between any two steps of it, reads arrays itself, or raises, as Ctrl-C does.
So a thread that shares work takes no lock that a handler could find taken, hands the work over by calls into C, which a
handler does not divide, and leaves by such a call as well: when it is over, for whatever reason, no other thread is at
work.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from queue import SimpleQueue

# Handing work to a thread costs tens of microseconds; less than this many bytes a thread is decoded sooner than that.
MIN_BYTES_PER_THREAD = 256 * 1024
MAX_THREADS = 8
RANGES_PER_THREAD = 4

# Python's own locks under the ones it shows. A handler may run, and raise, during `Lock.acquire`; during this it waits.
_LOCK, _IF_FREE, _WAIT = ctypes.c_void_p, 0, 1
_take = ctypes.PYFUNCTYPE(ctypes.c_int, _LOCK, ctypes.c_int)(("PyThread_acquire_lock", ctypes.pythonapi))
_take_without_gil = ctypes.CFUNCTYPE(ctypes.c_int, _LOCK, ctypes.c_int)(("PyThread_acquire_lock", ctypes.pythonapi))
_give = ctypes.PYFUNCTYPE(None, _LOCK)(("PyThread_release_lock", ctypes.pythonapi))
_make = ctypes.PYFUNCTYPE(_LOCK)(("PyThread_allocate_lock", ctypes.pythonapi))


class Share:
    """A part of some work that another thread may do: taken by that thread, or withdrawn by its owner."""

    __slots__ = ("__weakref__", "lock", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work: Callable[[], None] | None = work
        self.lock: int = _free_lock()
        if not self.lock:
            raise MemoryError("no memory for a lock")
        end = _FreedLock(self, _freed.append)
        end.lock = self.lock
        _watched[self.lock] = end

    def do(self) -> None:
        """Does the work, unless another thread does it already."""
        if _take(self.lock, _IF_FREE):
            try:
                work = self.work
                if work is not None:
                    work()
            except BaseException:  # the work reports its own errors
                pass
            finally:
                _give(self.lock)

    def withdraw(self) -> None:
        """Keeps any thread from beginning it, and drops the reference to the work."""
        _take(self.lock, _IF_FREE)
        self.work = None


class _FreedLock(weakref.ref[Share]):
    """Knows the lock of a share, and is put into `_freed` when that is gone, for the next share to use the lock.

    A finaliser in Python would be a place where an interrupt gets lost.
    """

    __slots__ = ("lock",)
    lock: int


_watched: dict[int, _FreedLock] = {}
_freed: deque[_FreedLock] = deque()


def _free_lock() -> int:
    try:
        lock = _freed.popleft().lock
    except (IndexError, AttributeError):  # the latter if an interrupt came while a share was made
        return int(_make() or 0)
    _take(lock, _IF_FREE)
    _give(lock)
    return lock


class Pool:
    """Threads that do shares in the order they are offered. They are started when there are some, and never end."""

    def __init__(self) -> None:
        self.shares: SimpleQueue[Share] = SimpleQueue()  # whose `put` a handler may call during another
        self._counting = _thread.allocate_lock()  # which only they take: no handler runs there
        self._threads = 0

    def offer(self, shares: list[Share]) -> None:
        """Has shares done by as many threads, or fewer; as few as none, where no thread can be started."""
        if self._threads < len(shares):
            with suppress(RuntimeError):  # none is to be had, or the interpreter is shutting down
                _thread.start_new_thread(self._serve, (len(shares),))
        for share in shares:
            self.shares.put(share)

    def _serve(self, most: int) -> None:
        with self._counting:
            if self._threads >= most:  # others were started meanwhile
                return
            self._threads += 1
        while True:
            self.shares.get().do()


_pool = Pool()


def thread_count() -> int:
    """Returns how many threads a large batch is shared among: the cores this process may use, at most eight.

    The environment variable COMPRESSED_ARRAY_THREADS sets another number.
    """
    asked = os.environ.get("COMPRESSED_ARRAY_THREADS")
    if asked is not None:
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"COMPRESSED_ARRAY_THREADS must be a whole number from 1, not {asked!r}")
        return int(asked)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)


def share_count(rows: int, work: int, least: int = MIN_BYTES_PER_THREAD) -> int:
    """Returns among how many threads to share rows that are `work` in all, so that each has `least` of it."""
    shares = min(rows, work // least)
    return min(shares, thread_count()) if shares > 1 else 1


def together(work: Callable[[], None], shares: int, is_done: Callable[[], bool]) -> None:
    """Calls `work` on this thread and on others, each of which does what is left, until it `is_done`.

    Those that come late have nothing to do and are not waited for. So work fails only by what this thread meets.
    """
    others = [Share(work) for _ in range(shares - 1)]
    # The work of others writes into the caller's memory, which must not be returned to it before they are done. To take
    # a share's lock is to keep threads from beginning it, and to wait for one that has; `deque` does so for all of them
    # in one call.
    taking = map(_take_without_gil, [share.lock for share in others], repeat(_WAIT))
    done = False
    try:
        _pool.offer(others)
        work()
        done = is_done()
    finally:
        if not done:
            deque(taking, 0)
    for share in others:
        share.withdraw()


def over_rows(work: Callable[[int, int], None], rows: int, nbytes: int, *, threads: bool = True) -> None:
    """Calls `work(low, high)` on ranges that cover `rows`; on several threads when `nbytes` of data make that pay."""
    shares = share_count(rows, nbytes) if threads else 1
    if shares == 1:
        work(0, rows)
        return
    # Each thread takes the next range when it is done with one: a thread that starts late is not waited for.
    count = min(shares * RANGES_PER_THREAD, rows)
    ranges = deque((rows * k // count, rows * (k + 1) // count) for k in range(count))
    errors: list[BaseException] = []

    def take_ranges() -> None:
        try:
            while (span := _next(ranges)) is not None:
                work(*span)
        except BaseException as error:
            ranges.clear()  # what is left is no longer wanted
            errors.append(error)
            raise

    together(take_ranges, shares, lambda: False)
    if errors:
        error = errors[0]
        errors.clear()
        try:
            raise error
        finally:
            del error  # or this frame and the error would keep each other, and all frames that called this one


def _next(ranges: deque[tuple[int, int]]) -> tuple[int, int] | None:
    try:
        return ranges.popleft()
    except IndexError:
        return None


def _forget_pool() -> None:
    global _pool
    _pool = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
