"""`Writer`: steps of one process's environments, compressed there, and sent to the buffer of another."""

from __future__ import annotations

import os
import pickle
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.util import Finalize
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from compressed_array_torch._base import ResetStrategy
from compressed_array_torch._storage import Chunk
from compressed_array_torch._wire import Address, Sender
from compressed_array_torch.errors import WriterClosedError, WriterLostWarning
from compressed_array_torch.replay_buffer import ReplayBuffer
from compressed_array_torch.stats_tracker import StatsTracker

__all__ = ["Writer"]

# Before queues and processes of `multiprocessing` are cleaned up.
EXIT_PRIORITY = 100


class Shipment(NamedTuple):
    """What a writer sends: its next steps, in which of them episodes ended, and the statistics of these episodes."""

    serial: int  # counts the shipments of a writer
    chunk: Chunk
    ended: npt.NDArray[np.bool_]  # (steps, environments)
    episodes: list[dict[str, float]]


class Writer:
    """Adds the steps of one process's environments to the shared buffer that made it.

    It can be pickled and given to any process of the same machine; in each process it holds the steps of that process.
    Steps are compressed as they come, and sent `chunk_steps` at a time: `flush` sends those that there are, and so
    does `close`, or the end of the process unless it is killed. If the buffer does not keep up, `add` waits.

    Args:
        address: Where the shared buffer takes in messages.
        options: The arguments of a buffer for such steps.
        chunk_steps: How many steps are sent at a time.
        tracker: The arguments of a `StatsTracker` for these environments, if the buffer has one.
    """

    def __init__(
        self, address: Address, options: Mapping[str, Any], chunk_steps: int, tracker: Mapping[str, Any] | None
    ) -> None:
        self._given = address, options, chunk_steps, tracker
        self._start()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._process == os.getpid() and len(self._buffer):
            raise WriterClosedError("a writer with steps that were not sent cannot be given away: flush() it before")
        return Writer, self._given

    def _start(self) -> None:
        """Begins as a writer of this process that has nothing to send."""
        address, options, chunk_steps, tracker = self._given
        self._process, self._serial, self._is_closed = os.getpid(), 0, False
        self._is_known = False  # to the buffer
        self._unsent: tuple[int, bytes] | None = None  # the shipment whose sending has begun
        self._tracker = None if tracker is None else StatsTracker(**tracker)
        self._buffer = ReplayBuffer(
            chunk_steps, stats_tracker=self._tracker, reset_strategy=ResetStrategy.ERROR, **options
        )
        self._sender = Sender(address)
        _writers.add(self)
        # Also where a process of `multiprocessing` ends, which does without `atexit`.
        self._at_exit = Finalize(None, _close, (weakref.ref(self), self._process), exitpriority=EXIT_PRIORITY)

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        done: Any = None,
        next_obs: Any = None,
        truncated: Any = None,
        *,
        terminated: Any = None,
        infos: Mapping[str, Any] | None = None,
        done_reasons: list[str | None] | None = None,
        **fields: Any,
    ) -> None:
        """Keeps a step of all environments of this process: what they showed, what was done, and what came of it.

        Args:
            obs: What the environments showed.
            action: What was done.
            reward: The rewards for it.
            done: Instead of `terminated`, which episodes ended for one reason or the other.
            next_obs: What they showed next, the last observation of an episode where one has ended.
            truncated: Which were cut off by a limit of time, say: values behind them count.
            terminated: Which episodes ended by the rules of the environment.
            infos: Metrics for the tracker.
            done_reasons: Why episodes ended, for the tracker.
            fields: The buffer's own fields, by name.
        """
        self._check()
        with self._sending():
            self._is_known = True
            self._sender.connect()  # or the buffer would not learn of a writer that is killed before it sends anything
        if self._unsent is not None or self._buffer.full:
            self.flush()
        self._buffer.add(
            obs,
            action,
            reward,
            done,
            next_obs,
            truncated,
            terminated=terminated,
            infos=infos,
            done_reasons=done_reasons,
            **fields,
        )
        if self._buffer.full:
            self.flush()

    def flush(self) -> None:
        """Sends all steps that were added."""
        self._check()
        if self._unsent is None and len(self._buffer):
            self._unsent = self._packed()
        if self._unsent is not None:
            serial, data = self._unsent
            with self._sending():
                self._sender.send(data)
            # If this is interrupted, all of it is done again: what comes twice with one serial is taken in once.
            self._serial = serial + 1
            self._buffer.reset()
            if self._tracker is not None:
                self._tracker.ep_info_buffer.clear()
            self._unsent = None

    def _packed(self) -> tuple[int, bytes]:
        """Returns the serial of the next shipment, and the shipment as bytes."""
        episodes = [] if self._tracker is None else list(self._tracker.ep_info_buffer)
        shipment = Shipment(self._serial, *self._buffer._chunk(), episodes)
        return self._serial, pickle.dumps(shipment, 5)

    def close(self) -> None:
        """Sends what there is, and takes no more steps."""
        if not self._is_closed and self._process == os.getpid():
            self.flush()
            if self._is_known:
                with suppress(OSError):  # all that matters is sent
                    self._sender.send(b"")  # or the buffer would take this for lost
            self._is_closed = True
            self._sender.close()
            self._at_exit.cancel()

    def __del__(self) -> None:
        if hasattr(self, "_at_exit"):
            self._at_exit.cancel()
            try:
                self.close()
            except WriterClosedError as error:
                warnings.warn(str(error), WriterLostWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._process != os.getpid():
            self._start()  # in a forked child: what the parent had not sent is the parent's
        if self._is_closed:
            raise WriterClosedError("this writer was closed: ask the buffer for another one")

    @contextmanager
    def _sending(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriterClosedError(
                f"the shared buffer takes no more steps: it was closed, or its process has ended ({error}); "
                f"{len(self._buffer)} steps were not sent"
            ) from error


def _close(writer: weakref.ref[Writer], process: int) -> None:
    """Sends what a writer has when its process ends."""
    there = writer()
    if there is not None and os.getpid() == process:
        there.close()


def _after_fork() -> None:
    """Closes a child's copies of connections, or the buffer could not tell that a writer's process has ended."""
    for writer in list(_writers):
        writer._sender.close()


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)
