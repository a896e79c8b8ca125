"""`Epochs`: one writer at a time, readers that never wait, and nothing freed under a reader's eyes.

A writer makes new data where no reader looks, publishes it with single aligned stores, and *retires* what it replaced.
A reader marks its stay with `reading()`. What was retired is reclaimed once every reader has left that might have seen
it: readers are counted by the parity of the epoch they entered in, and an epoch ends when the one before has emptied.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from types import FrameType

import compressed_array._kernels  # noqa: F401 - registers its fork hook first: a writer takes our lock, then that one
from compressed_array.errors import BusyStoreError

Reclaim = Callable[[], None]


class Turn:
    """What a thread takes, with the lock that keeps others out, while a store is not to be changed by anybody else.

    That lock lets the same thread in again. A signal's handler, which comes in the middle of anything, is refused.
    """

    def __init__(self) -> None:
        # Whoever takes it, as long as that runs: an interrupt may come just before `__exit__` would give it back.
        self._taken_by: FrameType | None = None
        self.count = 0  # how often it was taken

    @property
    def is_taken(self) -> bool:
        """Whether whoever asks came in the middle of it."""
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
        """Do something that can as well be done later, if it is a signal's handler that asks for it."""
        if not self.is_taken:
            with self:
                do()

    def _is_running(self, frame: FrameType | None) -> bool:
        while frame is not None and frame is not self._taken_by:
            frame = frame.f_back
        return frame is not None


class Reading:
    """The stay of one reader. A class, since a batch is read in less time than a generator takes to begin and end."""

    __slots__ = ("_epochs", "_parity")

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def __enter__(self) -> None:
        self._parity = self._epochs.enter()

    def __exit__(self, *_: object) -> None:
        self._epochs.leave(self._parity)


class Epochs:
    """The meeting rules of one store's readers and writers."""

    def __init__(self) -> None:
        self.serial = next(_serials)  # whoever needs the locks of several takes them in this order
        self.writing, self.turn = threading.RLock(), Turn()
        self._count = threading.RLock()  # a signal's handler may read while it is held
        self._epoch = 0
        self._readers = [0, 0]
        self._retired: list[list[Reclaim]] = [[], []]
        self._ready: deque[Reclaim] = deque()
        with _all_lock:
            _all_epochs.add(self)

    def reading(self) -> Reading:
        """Whatever is published when this begins stays readable until it ends: `with epochs.reading():`."""
        return Reading(self)

    def enter(self) -> int:
        """Count a reader in; says by which parity to count it out."""
        with self._count:
            parity = self._epoch & 1
            self._readers[parity] += 1
        return parity

    def leave(self, parity: int) -> None:
        """Count a reader out."""
        with self._count:
            self._readers[parity] -= 1

    def retire(self, reclaim: Reclaim) -> None:
        """Call `reclaim` when no reader can see any more what was just unpublished. Only while `writing` is held."""
        self._retired[self._epoch & 1].append(reclaim)

    def collect(self) -> None:
        """Reclaim what no reader can see any more. Only while `writing` is held."""
        if not self._ready and not any(self._retired):
            return
        for _ in range(2):  # with no reader about, both generations are ready at once
            with self._count:
                before = (self._epoch + 1) & 1
                if self._readers[before] > 0:
                    break
                ready, self._retired[before] = self._retired[before], []
                self._epoch += 1
                self._ready.extend(ready)
        while self._ready:  # of which none is called twice, even if an interrupt comes in between
            self._ready.popleft()()

    def _after_fork(self) -> None:
        # Readers of the parent's other threads do not exist in the child, so nobody would ever count them out.
        self._count = threading.RLock()
        self._readers = [0, 0]
        self.writing, self.turn = threading.RLock(), Turn()


_serials = itertools.count()
_all_lock = threading.Lock()
_all_epochs: weakref.WeakSet[Epochs] = weakref.WeakSet()
_forking = threading.Lock()  # two threads that fork at once do so one after the other
_held: list[Epochs] = []


def _before_fork() -> None:
    _forking.acquire()
    # A child forked in the middle of another thread's write would inherit a half-published store.
    with _all_lock:
        _held.extend(sorted(_all_epochs, key=lambda epochs: epochs.serial))
    for epochs in _held:
        epochs.writing.acquire()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().writing.release()
    _forking.release()


def _after_fork_in_child() -> None:
    global _all_lock, _forking
    _all_lock, _forking = threading.Lock(), threading.Lock()
    while _held:
        _held.pop()._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
