"""Messages from other processes: each sender has a connection of its own, so killing one tears no other's messages.

A sender says who it is once, without waiting for an answer, and then sends messages with their sizes in front. A thread
of the receiver takes them in: a signal's handler, which only the main thread runs, cannot come between what was read
and where it is kept. What a sender had not sent whole when it died is dropped.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import shutil
import socket
import struct
import tempfile
import threading
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

SIZE = struct.Struct("<Q")
HELLO = struct.Struct("<32s16sq")  # the secret, the sender's name, its process
READ, MOST_READ = 1 << 18, 1 << 22  # bytes at a time, and before another sender's turn: more than are ever in transit
# Of messages that were not taken out yet: bytes, and how many. Senders wait once there are more.
MOST_WAITING, MOST_MESSAGES = 1 << 26, 256
MOST_COMING = 128  # backlog of pending connections
LONGEST_ADDRESS = 100  # which all systems allow


class Address(NamedTuple):
    """Where a receiver is found, and the secret by which it trusts a sender."""

    path: str
    secret: bytes


class Event(Enum):
    """What a receiver may learn of a sender."""

    BEGAN = "began"  # it has a connection
    SENT = "sent"  # it has sent something
    ENDED = "ended"  # its connection is closed


class Message(NamedTuple):
    """What happened to a sender, and what it sent."""

    event: Event
    sender: bytes
    process: int
    data: bytes = b""


@dataclass
class Connection:
    """A sender's connection, and what has come so far of its next message."""

    socket: socket.socket
    unread: bytearray = field(default_factory=bytearray)
    hello: tuple[bytes, int] | None = None


class Sender:
    """Sends messages to one receiver. The connection is made when there is something to send."""

    def __init__(self, address: Address) -> None:
        self._address, self._name = address, secrets.token_bytes(16)
        self._socket: socket.socket | None = None

    def send(self, data: bytes) -> None:
        """Sends a message whole; raises OSError if the receiver is gone.

        After an interrupt, the message may have come or not: send it again, which the other side has to recognise.
        """
        connection = self.connect()
        try:
            connection.sendall(SIZE.pack(len(data)))
            connection.sendall(data)
        except BaseException:
            self.close()  # a part may have come, behind which no message could be told from the next
            raise

    def close(self) -> None:
        """Ends the connection."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def connect(self) -> socket.socket:
        """Connects to the receiver, if that is not done, so that it knows of this sender."""
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._address.path)
                connection.sendall(HELLO.pack(self._address.secret, self._name, os.getpid()))
            except BaseException:
                connection.close()
                raise
            self._socket = connection
        return self._socket


class Receiver:
    """Takes in the messages of all senders that know its address."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="buffer-")
        if len(self._directory) > LONGEST_ADDRESS - 2:
            Path(self._directory).rmdir()
            self._directory = tempfile.mkdtemp(prefix="buffer-", dir="/tmp")
        self.address = Address(f"{self._directory}/s", secrets.token_bytes(32))
        self._state = Receiving(self.address)
        _receiving.add(self._state)
        self._thread = threading.Thread(target=self._state.run, name="receiver", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _end, self._state, self._directory, os.getpid())

    @property
    def messages(self) -> deque[Message]:
        """Returns what has come, in order for each sender. After taking a message out, call `let_in`."""
        return self._state.messages

    def let_in(self) -> None:
        """Lets more messages come in, now that some were taken out."""
        with self._state.changed:
            self._state.changed.notify_all()

    def ask(self) -> int:
        """Asks for all that was sent so far, and returns a number for `is_answered`, which tells whether it is here."""
        state = self._state
        with state.changed:
            state.asked += 1
            state.wake()
            return state.asked

    def is_answered(self, number: int) -> bool:
        """Waits until all that was asked for is here, or no more fits in; returns whether all is here."""
        state = self._state
        with state.changed:
            state.changed.wait_for(lambda: state.answered >= number or state.is_full or state.is_over)
            return state.answered >= number or state.is_over

    def wait(self, seconds: float) -> bool:
        """Waits until there is a message, at most for so many seconds, and returns whether there is one."""
        with self._state.changed:
            self._state.changed.wait_for(lambda: bool(self.messages) or self._state.is_over, seconds)
            return bool(self.messages)

    def close(self) -> None:
        """Takes in no more messages. Senders get an error when they next send."""
        self._end()
        self._thread.join()


class Receiving:
    """What the thread of a receiver works on. It does not refer to the receiver, which else would never be freed."""

    def __init__(self, address: Address) -> None:
        self.messages: deque[Message] = deque()
        self.changed = threading.Condition()
        self.asked = self.answered = 0
        self.is_over = False
        self._secret = address.secret
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address.path)
        self._listener.listen(MOST_COMING)
        self._woken, self._wakes = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for end in (self._listener, self._woken, self._wakes):
            end.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._connections: list[Connection] = []

    @property
    def is_full(self) -> bool:
        # Counted each time: an interrupt could come between taking a message out and updating a count.
        messages = tuple(self.messages)
        return len(messages) > MOST_MESSAGES or sum(len(message.data) for message in messages) > MOST_WAITING

    def wake(self) -> None:
        """Wakes the thread up."""
        with suppress(OSError):  # it is about to look anyway, or has ended
            self._wakes.send(b"\0")

    def run(self) -> None:
        while not self.is_over:
            asked = self.asked
            for key, _ in self._selector.select(0 if asked > self.answered else None):
                if key.data is not None:
                    self._read(key.data)
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._woken.recv(READ)
            with self.changed:
                self.answered = asked  # all that had been sent when it was asked for is here
                self.changed.notify_all()
                self.changed.wait_for(lambda: not self.is_full or self.is_over)
        self.close_all()

    def close_all(self) -> None:
        """Closes what is open in this process."""
        self._selector.close()
        for end in (self._listener, self._woken, self._wakes, *(other.socket for other in self._connections)):
            end.close()

    def _accept(self) -> None:
        """Accepts all connections that are waiting, and reads what was sent over them."""
        for _ in range(MOST_COMING):
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return  # that was all, or there are too many open files for now
            accepted.setblocking(False)
            connection = Connection(accepted)
            self._connections.append(connection)
            self._selector.register(accepted, selectors.EVENT_READ, connection)
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        """Takes in what a sender has sent so far."""
        is_over = False
        for _ in range(MOST_READ // READ):
            try:
                data = connection.socket.recv(READ)
            except BlockingIOError:
                break
            except OSError:
                data = b""  # as good as ended
            connection.unread += data
            is_over = not data
            if is_over:
                break
        is_believed = self._said_hello(connection)
        while connection.hello is not None and len(connection.unread) >= SIZE.size:
            (size,) = SIZE.unpack_from(connection.unread)
            end = SIZE.size + size
            if len(connection.unread) < end:
                break
            message = bytes(memoryview(connection.unread)[SIZE.size : end])
            del connection.unread[:end]
            self._put(Message(Event.SENT, *connection.hello, message))
        if is_over or not is_believed:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            self._connections.remove(connection)
            if connection.hello is not None:
                self._put(Message(Event.ENDED, *connection.hello))

    def _said_hello(self, connection: Connection) -> bool:
        """Whether a connection has sent the secret, or may still do so. Before that, nothing from it is taken in."""
        if connection.hello is None and len(connection.unread) >= HELLO.size:
            secret, name, process = HELLO.unpack_from(connection.unread)
            if not hmac.compare_digest(secret, self._secret):
                return False
            del connection.unread[: HELLO.size]
            connection.hello = name, process
            self._put(Message(Event.BEGAN, *connection.hello))
        return True

    def _put(self, message: Message) -> None:
        with self.changed:
            self.messages.append(message)
            self.changed.notify_all()


def _end(state: Receiving, directory: str, process: int) -> None:
    """Ends a receiver's thread."""
    if os.getpid() != process:
        return  # in a forked child, which has a copy of all this
    with state.changed:
        state.is_over = True
        state.changed.notify_all()
    state.wake()
    shutil.rmtree(directory, ignore_errors=True)


def _after_fork() -> None:
    """Closes a child's copies of sockets: while they are open, senders cannot see that the receiver has ended."""
    for state in list(_receiving):
        state.close_all()


_receiving: weakref.WeakSet[Receiving] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)
