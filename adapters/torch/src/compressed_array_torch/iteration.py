"""Batch after batch: `Prefetcher`, which has a thread decode the next ones, and `BufferDataset` for a DataLoader."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, Self

import torch
from torch.utils.data import IterableDataset, get_worker_info

from compressed_array_torch.errors import BufferOptionError

__all__ = ["BufferDataset", "Prefetcher"]


class Job:
    """A batch that is drawn and being decoded."""

    def __init__(self, words: torch.Tensor, drawn: Any) -> None:
        self.words, self.drawn = words, drawn
        self.batch: Any = None
        self.is_over = threading.Event()


class Prefetcher(Iterator[Any]):
    """The batches that `buffer.get(batch_size)` would give, one after the other, decoded ahead by a thread.

    Random numbers are drawn by the caller, in the order of the batches. What they pick is looked up again when a batch
    is handed out, and decoded again if steps that were added meanwhile have changed it: batches are the same with and
    without this. A buffer that is not full yet changes with each step, so this helps where several batches are
    drawn between steps, or once it is full.

    Args:
        buffer: The buffer that draws the batches.
        batch_size: How many transitions, or windows, a batch has.
        ahead: How many batches are decoded ahead.
    """

    def __init__(self, buffer: Any, batch_size: int, ahead: int) -> None:
        if ahead < 1:
            raise BufferOptionError(f"at least one batch is decoded ahead, not {ahead}")
        self._buffer, self._batch_size, self._ahead = buffer, batch_size, ahead
        self._waiting: deque[Job] = deque()
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        thread = threading.Thread(target=work, args=(self._buffer, self._jobs), name="prefetch", daemon=True)
        thread.start()

    def __next__(self) -> Any:
        if self._is_closed:
            raise StopIteration
        if os.getpid() != self._process:  # a forked child has no threads but its own
            self._start()
            self._waiting = deque(Job(job.words, job.drawn) for job in self._waiting)
            for job in self._waiting:
                self._jobs.put(job)
        with self._buffer._lock.held():
            while len(self._waiting) <= self._ahead:
                words = self._buffer._words(self._batch_size)
                job = Job(words, self._buffer._draw(words))
                self._waiting.append(job)
                self._jobs.put(job)
            job = self._waiting.popleft()
            job.is_over.wait()
            now = self._buffer._draw(job.words)
            if job.batch is not None and self._buffer._is_unchanged(job.drawn, now):
                return job.batch
            return self._buffer._batch(now)

    def close(self) -> None:
        """Ends the thread. Batches that were not asked for are given up, with the random numbers drawn for them."""
        self._is_closed = True
        self._jobs.put(None)
        self._waiting.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_jobs"):
            self._jobs.put(None)


def work(buffer: Any, jobs: SimpleQueue[Job | None]) -> None:
    """Decodes batches until it gets None. Not a method: a thread that refers to the prefetcher keeps it for ever."""
    while (job := jobs.get()) is not None:
        try:
            job.batch = buffer._batch(job.drawn)
        except Exception:
            job.batch = None  # `__next__` decodes it then, and raises in the caller's thread
        finally:
            job.is_over.set()
        del job


class BufferDataset(IterableDataset[Any]):
    """Batches of a buffer for a `DataLoader(dataset, batch_size=None)`.

    Args:
        buffer: The buffer that draws the batches.
        batch_size: How many transitions a batch has.
        batches: How many batches there are; without end by default.
    """

    def __init__(self, buffer: Any, batch_size: int, batches: int | None = None) -> None:
        self._buffer, self._batch_size, self._batches = buffer, batch_size, batches

    def __iter__(self) -> Iterator[Any]:
        if get_worker_info() is not None:
            raise BufferOptionError("a worker process would draw from a copy of the buffer: use num_workers=0")
        given = 0
        while self._batches is None or given < self._batches:
            yield self._buffer.get(self._batch_size)
            given += 1
