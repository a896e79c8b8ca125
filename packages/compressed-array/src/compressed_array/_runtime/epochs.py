"""`Epochs`: one writer at a time, readers that never wait, and nothing freed under a reader's eyes.

A writer makes new data where no reader looks, publishes it with single aligned stores, and *retires* what it replaced.
A reader marks its stay with `reading()`. What was retired is reclaimed once every reader has left that might have seen
it: each holds a view of the page that was current when it came, and a page that is no longer current is gone with its
last view. There is no count of readers that could go wrong: a view ends with its `with`, in C, or, if an interrupt
prevents that, with the frame of its reader.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import compressed_array._runtime.loading  # noqa: F401 - registers its fork hook first: a writer takes our lock, then that one
from compressed_array.errors import BusyStoreError

Reclaim = Callable[[], None]


class ReentryGuard:
    """Refuses a signal's handler that would change a store while its own thread is changing it.

    A thread takes it together with the lock that keeps other threads out, and which lets the same thread in again.
    """

    def __init__(self) -> None:
        # The frame that took the guard; it counts only while it runs, since an interrupt may skip `__exit__`.
        self._taken_by: FrameType | None = None
        self.count = 0  # how often it was taken

    @property
    def is_taken(self) -> bool:
        """Whether the caller is running in the middle of a change by its own thread, as a signal's handler may."""
        return self._taken_by is not None and self._is_running(sys._getframe(1))

    def __enter__(self) -> None:
        taker = sys._getframe(1)
        if self._taken_by is not None and self._is_running(taker.f_back):
            raise BusyStoreError
        self.count += 1
        self._taken_by = taker

    def __exit__(self, *_: object) -> None:
        self._taken_by = None

    def when_free(self, do: Callable[[], None]) -> None:
        """Does something now, or not at all if a signal's handler asks for it during a change."""
        if not self.is_taken:
            with self:
                do()

    def _is_running(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self._taken_by:
            frame = frame.f_back
        return frame is not None


class Exclusive:
    """The lock of what one thread uses at a time, such as a store, and its reentry guard. A fork waits for the lock."""

    def __init__(self) -> None:
        self.serial = next(_serials)  # a thread that needs several locks takes them in this order
        self.writing, self.guard = threading.RLock(), ReentryGuard()
        # A dict, of which each change is one step: a handler may make a store while its thread makes another. `pop` is
        # also given the dead reference, as what to return if there is nothing: no Python that could be interrupted.
        _all[self.serial] = weakref.ref(self, partial(_all.pop, self.serial))

    def after_fork(self) -> None:
        """Renews the lock in a forked child, which does not have the parent's threads that may have held it."""
        self.writing, self.guard = threading.RLock(), ReentryGuard()


class Generation:
    """What was retired while a page was current. It is kept while there are views of that page, or of earlier ones."""

    __slots__ = ("page", "retired")

    def __init__(self, page: array[int]) -> None:
        self.page: weakref.ref[array[int]] | None = weakref.ref(page)
        self.retired: deque[Reclaim] = deque()

    @property
    def is_over(self) -> bool:
        return self.page is None or self.page() is None


class Epochs(Exclusive):
    """Keeps one store's writer from freeing what its readers may see."""

    def __init__(self) -> None:
        self._page = _new_page()
        self._generations = deque([Generation(self._page)])  # the last is the page's
        super().__init__()

    def reading(self) -> memoryview:
        """Returns a context in which all that was published when it began stays readable: `with epochs.reading():`."""
        return memoryview(self._page)

    def retire(self, reclaim: Reclaim) -> None:
        """Has `reclaim` called when no reader can see what was just unpublished any more. While `writing` is held."""
        self._generations[-1].retired.append(reclaim)

    def collect(self) -> None:
        """Reclaims what no reader can see any more. Only while `writing` is held."""
        generations = self._generations
        if generations[-1].retired or generations[-1].is_over:
            # In this order: if an interrupt comes in between, what is retired waits for readers of the old page, too.
            page = _new_page()
            generations.append(Generation(page))
            self._page = page
        while len(generations) > 1 and generations[0].is_over:
            retired = generations[0].retired
            while retired:  # of which none is called twice, even if an interrupt comes in between
                retired.popleft()()
            generations.popleft()

    def after_fork(self) -> None:
        super().after_fork()
        # The views of the parent's other threads are still there in the child, and nobody will ever let go of them.
        for generation in self._generations:
            generation.page = None
        self._page = _new_page()
        self._generations.append(Generation(self._page))


def _new_page() -> array[int]:
    return array("B", b"\0")


_serials = itertools.count()
_all: dict[int, weakref.ref[Exclusive]] = {}
_forking = threading.RLock()  # two threads that fork at once do so one after the other
_held: list[list[Any]] = []  # of each fork under way: a handler may fork during another


def _before_fork() -> None:
    _forking.acquire()
    _held.append([])
    # A child forked in the middle of another thread's write would inherit a half-published store.
    for locked in _living():
        _held[-1].append(locked.writing)
        locked.writing.acquire()


def _after_fork_in_parent() -> None:
    for lock in _held.pop() if _held else ():
        with suppress(RuntimeError):  # if an interrupt came before it was taken
            lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    _forking = threading.RLock()
    _held.clear()
    for locked in _living():
        locked.after_fork()


def _living() -> list[Exclusive]:
    found = (_all[serial]() for serial in sorted(_all.copy()) if serial in _all)
    return [exclusive for exclusive in found if exclusive is not None]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
