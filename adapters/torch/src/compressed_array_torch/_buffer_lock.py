"""`BufferLock`: lets one thread at a time use a buffer, from drawing a batch to reading it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from compressed_array_torch.errors import BusyBufferError


class BufferLock:
    """A lock for one buffer: `with lock.held():` waits for other threads.

    A signal's handler that uses a buffer while its own thread is using it would find it half done, or wait for itself
    for ever, so it is refused. An interrupt may come at any point: the lock is held by the `with` statement alone.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        _all.add(self)

    def held(self) -> Any:
        """Returns the context that holds the lock; raises BusyBufferError if this thread holds it already."""
        if self._lock._is_owned():  # as `threading.Condition` asks it
            raise BusyBufferError(
                "a signal's handler came during a use of this buffer by its own thread: have the handler set a flag, "
                "and look at that flag between steps"
            )
        return self._lock

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy has a lock of its own

    def __setstate__(self, _: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]  # of this very class


def _after_fork() -> None:
    """Gives every buffer of a child a new lock: the threads of the parent that may hold the old ones are gone."""
    for lock in list(_all):
        lock._lock = threading.RLock()


_all: weakref.WeakSet[BufferLock] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)
