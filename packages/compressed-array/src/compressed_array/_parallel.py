"""Sharing the rows of a batch among a few threads.

Numba's own parallel layers abort the process when two Python threads enter them at once or a forked child uses them,
so kernels release the GIL and are run over ranges of rows on a plain thread pool, which a fork child makes anew.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock

# Handing work to a thread costs tens of microseconds; less than this many bytes a thread is decoded sooner than that.
MIN_BYTES_PER_THREAD = 256 * 1024
MAX_THREADS = 8
RANGES_PER_THREAD = 4

_lock = Lock()
_pool: ThreadPoolExecutor | None = None


def thread_count() -> int:
    """How many threads a large batch is shared among: the cores this process may use, at most eight.

    The environment variable COMPRESSED_ARRAY_THREADS sets another number.
    """
    asked = os.environ.get("COMPRESSED_ARRAY_THREADS")
    if asked is not None:
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"COMPRESSED_ARRAY_THREADS must be a whole number from 1, not {asked!r}")
        return int(asked)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)


def share_count(rows: int, nbytes: int) -> int:
    """Among how many threads it pays to share rows of `nbytes` in all."""
    shares = min(rows, nbytes // MIN_BYTES_PER_THREAD)
    return min(shares, thread_count()) if shares > 1 else 1


def together(work: Callable[[], None], shares: int, is_done: Callable[[], bool]) -> None:
    """Call `work` on this thread and on others, each of which does what is left, until it `is_done`.

    Those that come late have nothing to do and are not waited for. So work fails only by what this thread meets.
    """
    jobs: list[Future[None]] = []
    done = False
    try:
        jobs.extend(_submit(work) for _ in range(shares - 1))
        work()
        done = is_done()
    finally:
        if not done:
            _finish(jobs)
        for job in jobs:
            job.cancel()
    while not done:  # a job whose thread could not be started may have been taken on by another, which is no future's
        done = is_done()


def over_rows(work: Callable[[int, int], None], rows: int, nbytes: int, *, threads: bool = True) -> None:
    """Call `work(low, high)` on ranges that cover `rows`; on several threads when `nbytes` of data make that pay."""
    shares = share_count(rows, nbytes) if threads else 1
    if shares == 1:
        work(0, rows)
        return
    # Each thread takes the next range when it is done with one: a thread that starts late is not waited for.
    count = min(shares * RANGES_PER_THREAD, rows)
    ranges = deque((rows * k // count, rows * (k + 1) // count) for k in range(count))

    def take_ranges() -> None:
        try:
            while (span := _next(ranges)) is not None:
                work(*span)
        except BaseException:
            ranges.clear()  # what is left is no longer wanted
            raise

    jobs: list[Future[None]] = []
    try:
        jobs.extend(_submit(take_ranges) for _ in range(shares - 1))
        take_ranges()
    finally:
        errors = _finish(jobs)
    for error in errors:
        if error is not None:
            raise error


def _finish(jobs: list[Future[None]]) -> list[BaseException | None]:
    """Wait for jobs, whatever happens: they write into the caller's memory, which must not be returned to it before."""
    interrupt: BaseException | None = None
    while True:
        try:
            begun = [job for job in jobs if not job.cancel()]
            wait(begun)
            break
        except BaseException as error:  # Ctrl-C
            interrupt = error
    if interrupt is not None:
        raise interrupt
    return [job.exception() for job in begun]


def _next(ranges: deque[tuple[int, int]]) -> tuple[int, int] | None:
    try:
        return ranges.popleft()
    except IndexError:
        return None


def _submit(work: Callable[[], None]) -> Future[None]:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(thread_count() - 1, 1), thread_name_prefix="compressed-array")
        pool = _pool
    try:
        return pool.submit(work)
    except RuntimeError:  # the interpreter is shutting down and takes no new work; the caller's thread does it all
        done: Future[None] = Future()
        done.set_result(None)
        return done


def _forget_pool() -> None:
    global _pool, _lock
    _pool, _lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
