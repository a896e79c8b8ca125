"""Replay buffers that other processes write to: each compresses its own steps, and sends them compressed."""

from __future__ import annotations

import os
import pickle
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from compressed_array_torch._base import ResetStrategy
from compressed_array_torch._items import check_tensor
from compressed_array_torch._storage import Prepared
from compressed_array_torch._tensors import as_host
from compressed_array_torch._wire import Event, Message, Receiver
from compressed_array_torch.errors import BufferOptionError, WriterLostWarning
from compressed_array_torch.fields import SMALL
from compressed_array_torch.prioritized_replay_buffer import PrioritizedReplayBuffer
from compressed_array_torch.replay_buffer import Mask, ReplayBuffer
from compressed_array_torch.sequence_replay_buffer import SequenceReplayBuffer
from compressed_array_torch.writers import Shipment, Writer

__all__ = ["SharedPrioritizedReplayBuffer", "SharedReplayBuffer", "SharedSequenceReplayBuffer", "WriterStatus"]

CHUNK_STEPS = 128


@dataclass
class WriterStatus:
    """What is known of a process that writes."""

    process: int
    steps: int = 0  # that were taken in
    is_closed: bool = False
    is_lost: bool = False  # its process ended before it was closed
    next_serial: int = field(default=0, repr=False)
    has_ended: Mask = field(default_factory=lambda: np.empty(0, bool), repr=False)  # the last step, by environment


class Taking(NamedTuple):
    """The shipment that is being stored; after an interrupt, the next call goes on with it."""

    writer: WriterStatus
    serial: int
    first: int  # the number of its first step, as the ring counts steps


class SharedBuffer(ReplayBuffer):
    """What shared buffers have in common.

    Where the steps of one writer end, those of another may follow. Returns and windows do not go from one to the other,
    no more than over the end of an episode.
    """

    def _set_up(self) -> None:
        super()._set_up()
        self._process = os.getpid()
        self._receiver: Receiver | None = None
        self._own, self._statuses = self._new_status(self._process), dict[bytes, WriterStatus]()
        self._last: WriterStatus | None = None  # whose step was written last
        self._taking: Taking | None = None
        self._cuts = torch.zeros(self.capacity, dtype=torch.bool, device=self.store_device)  # behind these rows

    def writer(self, chunk_steps: int | None = None) -> Writer:
        """Returns a `Writer`, which can be pickled for another process and adds steps there.

        Args:
            chunk_steps: How many steps are sent at a time; a process that is killed loses fewer than that. By default
                128, or as many as the buffer holds if that is less.
        """
        if chunk_steps is None:
            chunk_steps = min(CHUNK_STEPS, self.capacity)
        if self.reset_strategy is not ResetStrategy.RECURRENT:
            raise BufferOptionError("writers do not know when a shared buffer is full: its strategy is RECURRENT")
        if not 1 <= chunk_steps <= self.capacity:
            raise BufferOptionError(f"chunk_steps is from 1 to buffer_size, {self.capacity}, not {chunk_steps}")
        self._check_process()
        if self._receiver is None:
            self._receiver = Receiver()
        # What is kept uncompressed may be sent compressed, but what is in `Rows` here must be in a writer's `Rows`.
        codecs = {
            name: "auto" if codec is None and kind.nbytes > SMALL else codec
            for name, (kind, codec) in self._storage.chosen.items()
        }
        options = self._options | {"codec": codecs}
        tracker = None
        if self.stats_tracker is not None:
            tracker = {
                "num_envs": self.num_envs,
                "max_ep_info_buffer": None,
                "extra_metrics_keys": self.stats_tracker.metrics_keys,
            }
        return Writer(self._receiver.address, options, chunk_steps, tracker)

    @property
    def writers(self) -> list[WriterStatus]:
        """Returns what is known of all writers that have sent something."""
        return list(self._statuses.values())

    def take_in(self, timeout: float = 0.0) -> int:
        """Takes in all steps that writers have sent so far, as `get` does too, and returns how many.

        Args:
            timeout: For how many seconds to wait if there are none.
        """
        receiver, end = self._receiver, time.monotonic() + timeout
        if receiver is None:
            return 0
        self._check_process()
        taken, number, is_all = 0, receiver.ask(), False
        while not is_all:
            is_all = receiver.is_answered(number)
            taken += self._take_all()
        while not taken and (left := end - time.monotonic()) > 0 and receiver.wait(left):
            taken += self._take_all()
        return taken

    def _take_all(self) -> int:
        with self._lock.held():
            return self._take_waiting()

    def close(self) -> None:
        """Takes in what was sent so far, and nothing after that. Writers get an error when they next send."""
        if self._receiver is not None:
            self.take_in()
            self._receiver.close()

    def _empty(self) -> None:
        super()._empty()
        self._last = self._taking = None

    def _words(self, count: int) -> torch.Tensor:
        self._take_waiting()
        return super()._words(count)

    def _take_waiting(self) -> int:
        """Takes in the messages that are here already. Not those that come meanwhile: there may be no end to them."""
        receiver, taken = self._receiver, 0
        if receiver is None:
            return taken
        self._check_process()
        for _ in range(len(receiver.messages)):
            message = receiver.messages[0]
            try:
                taken += self._take(message)
            except MemoryError:
                raise  # it stays, and can be taken in when there is room for it
            except Exception:
                receiver.messages.popleft()  # or nothing would ever be taken in again
                raise
            receiver.messages.popleft()
            receiver.let_in()
            status = self._statuses[message.sender]
            if message.event is Event.ENDED and not status.is_closed and not status.is_lost:
                status.is_lost = True
                text = f"the writer of process {status.process} has ended without being closed: the steps are lost that"
                warnings.warn(f"{text} it had not sent; {status.steps} were", WriterLostWarning, stacklevel=4)
        return taken

    def _take(self, message: Message) -> int:
        """Takes in one message, and returns how many steps it has. After an interrupt the next call goes on."""
        status = self._statuses.get(message.sender)
        if status is None:
            status = self._statuses[message.sender] = self._new_status(message.process)
        if message.event is not Event.SENT:
            return 0
        if not message.data:
            status.is_closed = True
            return 0
        status.is_lost = False
        shipment: Shipment = pickle.loads(message.data)  # trusted: the sender knew the secret
        if shipment.serial < status.next_serial:
            return 0
        taking, steps = self._taking, shipment.chunk.steps
        if taking is None or taking.writer is not status or taking.serial != shipment.serial:
            taking = self._taking = Taking(status, shipment.serial, self._ring.steps)
        first = taking.first
        if self._ring.steps == first:
            self._switch_to(status, steps)
            self._write_chunk(shipment.chunk)
        self._count_steps(first, shipment.ended)
        status.has_ended, self._last = shipment.ended[-1], status
        status.steps, status.next_serial, self._taking = status.steps + steps, shipment.serial + 1, None
        if self.stats_tracker is not None:
            self.stats_tracker.add_episodes(shipment.episodes)
        return steps

    def _switch_to(self, status: WriterStatus, steps: int) -> None:
        """Prepares for the next steps to be those of a writer, which may not follow what was written last."""
        ring = self._ring
        self._begins = None
        if self._last is not status:
            self._begins = status.has_ended
            if len(ring):
                last = (ring.steps - 1) % ring.capacity
                self._cuts[last : last + 1] = True
        ring.make_room(steps)
        for rows in ring.next_rows(steps):
            self._cuts[rows] = False

    def _add(self, step: Prepared) -> None:
        self._take_waiting()
        self._switch_to(self._own, 1)
        super()._add(step)
        self._own.has_ended, self._last = as_host(step.ended), self._own

    def _is_cut(self, positions: torch.Tensor) -> torch.Tensor:
        return self._cuts[positions // self.num_envs]

    def _new_status(self, process: int) -> WriterStatus:
        return WriterStatus(process, has_ended=np.ones(self.num_envs, bool))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise BufferOptionError(
                f"this is a copy of the buffer of process {self._process}, which nobody writes to: have that process "
                "sample, and others write with what its writer() returns"
            )

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"cuts": self._cuts.clone()}

    def _prepare_load(self, state: Mapping[str, Any]) -> list[Callable[[], Any]]:
        ready = super()._prepare_load(state)
        cuts: Any = state.get("cuts")
        check_tensor(cuts, self._cuts, "cuts")
        return [*ready, partial(self._take_cuts, cuts)]

    def _take_cuts(self, cuts: torch.Tensor) -> None:
        self._cuts.copy_(cuts)
        self._last = self._taking = None


class SharedReplayBuffer(SharedBuffer):
    """A `ReplayBuffer` that other processes write to. It takes all arguments of `ReplayBuffer`.

    >>> import torch
    >>> buffer = SharedReplayBuffer(1000, 2, (3,), ())
    >>> writer = buffer.writer()  # for another process, of which each has `num_envs` environments
    >>> zeros = torch.zeros(2)
    >>> writer.add(torch.ones(2, 3), zeros, zeros, terminated=zeros, truncated=zeros, next_obs=torch.ones(2, 3))
    >>> writer.close()
    >>> buffer.take_in()
    1
    """


class SharedPrioritizedReplayBuffer(SharedBuffer, PrioritizedReplayBuffer):
    """A `PrioritizedReplayBuffer` that other processes write to.

    It takes all arguments of `ReplayBuffer` and `PrioritizedReplayBuffer`.
    """


class SharedSequenceReplayBuffer(SharedBuffer, SequenceReplayBuffer):
    """A `SequenceReplayBuffer` that other processes write to. No window has steps of two of them.

    It takes all arguments of `ReplayBuffer` and `SequenceReplayBuffer`.
    """
