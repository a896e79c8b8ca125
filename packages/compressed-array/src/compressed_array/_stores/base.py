"""`BaseStore`: what both kinds of store do alike with numbers that are released later, and with snapshots."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from compressed_array._runtime.epochs import Epochs
from compressed_array._stores.protocol import RecordNumbers

# How bytes are coded, a tag, and where they are in the heap are one word, which a reader fetches in one piece while a
# writer changes it.
TAG_BITS = 56
ADDRESS_MASK = (1 << TAG_BITS) - 1


class Versioned(Protocol):
    """A snapshot that tells if the store has changed since."""

    @property
    def version(self) -> tuple[int, ...]: ...


SnapshotT = TypeVar("SnapshotT", bound=Versioned)


class BaseStore(ABC, Generic[SnapshotT]):
    """A store's locks, the numbers that are to be released with the next write, and its last snapshot."""

    def __init__(self) -> None:
        self.epochs = Epochs()
        self._released_later: deque[RecordNumbers] = deque()
        self._version = 0  # counts the changes, for snapshots
        self._snapshot: Callable[[], SnapshotT | None] = lambda: None

    @abstractmethod
    def release(self, numbers: RecordNumbers) -> None: ...

    def release_later(self, numbers: RecordNumbers) -> None:
        self._released_later.append(numbers)

    def release_listed(self) -> None:
        while self._released_later:
            self.release(self._released_later.popleft())

    def _latest_snapshot(self, version: tuple[int, ...], take: Callable[[tuple[Any, ...]], SnapshotT]) -> SnapshotT:
        """Returns the snapshot that others still have of this version, or takes one."""
        # One that a signal's handler takes during a change is good for that moment alone.
        version = (*version, self.epochs.guard.count if self.epochs.guard.is_taken else 0)
        snapshot = self._snapshot()
        if snapshot is None or snapshot.version != version:
            snapshot = take(version)
            self._snapshot = weakref.ref(snapshot)
        return snapshot
