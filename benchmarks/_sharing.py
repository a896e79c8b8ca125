"""Steps of four processes taken in by a shared buffer, beside one process that adds as many itself.

    python -m benchmarks._sharing speed <codec>

The last line it prints is JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from benchmarks._measure import Times, busy_seconds
from benchmarks._recordings import stream as open_stream
from benchmarks._streams import Step, Stream
from benchmarks._torch_buffers import buffer_arguments, ends

GAME, WRITERS, STEPS, ROUNDS = "MsPacman", 4, 512, 11  # steps of each writer in a round
SECONDS = 120.0  # in which a round is over, or something is wrong


def steps_of(stream: Stream, number: int) -> Iterator[Step]:
    """What one writer sees: the recording, from a place of its own on."""
    return islice(stream.play(), number * stream.steps // WRITERS, None)


def add_all(add: Callable[..., None], steps: list[Step]) -> None:
    for step in steps:
        terminated, truncated = ends(step)
        add(step.obs, step.action, step.reward, terminated=terminated, truncated=truncated, next_obs=step.next_obs)


def write(writer: Any, number: int, orders: Connection) -> None:
    """What a process does that writes: add some steps whenever it is told to, all of which it has at hand by then."""
    sent, send = 0, writer._sender.send

    def counted(data: bytes) -> None:
        nonlocal sent
        sent += len(data)
        send(data)

    writer._sender.send = counted
    steps = steps_of(open_stream(GAME), number)
    while True:
        at_hand = list(islice(steps, STEPS))
        orders.send((sent, time.process_time()))
        if not orders.recv():
            break
        add_all(writer.add, at_hand)
        writer.flush()
    writer.close()


class Shared:
    """A buffer and the processes that write to it."""

    def __init__(self, stream: Stream, codec: str) -> None:
        from compressed_array_torch import SharedReplayBuffer

        self.buffer = SharedReplayBuffer(**buffer_arguments(stream, stream.steps, codec))
        # Not forked: this process has threads.
        context = multiprocessing.get_context("spawn")
        self.orders, theirs = zip(*(context.Pipe() for _ in range(WRITERS)), strict=True)
        self.processes = [
            context.Process(target=write, args=(self.buffer.writer(), number, end), daemon=True)
            for number, end in enumerate(theirs)
        ]
        for process in self.processes:
            process.start()
        self.sent, self.worked = 0, 0.0
        self.wait()

    def wait(self) -> None:
        """Have all writers ready, and know what they have sent and worked so far."""
        assert all(order.poll(SECONDS) for order in self.orders), "a writer is not there"
        sent, worked = zip(*(order.recv() for order in self.orders), strict=True)
        self.sent, self.worked = sum(sent), sum(worked)

    def turn(self) -> float:
        """Seconds until all steps of a round are taken in."""
        start = time.perf_counter()
        for order in self.orders:
            order.send(True)
        taken = 0
        while taken < WRITERS * STEPS:
            taken += self.buffer.take_in(timeout=1.0)
            assert time.perf_counter() - start < SECONDS, f"{taken} steps came"
        spent = time.perf_counter() - start
        assert taken == WRITERS * STEPS
        self.wait()
        return spent

    def close(self) -> None:
        for order in self.orders:
            order.send(False)
        for process in self.processes:
            process.join(SECONDS)
        self.buffer.close()


class Alone:
    """A buffer whose process has all the steps, and adds them itself."""

    def __init__(self, stream: Stream, codec: str) -> None:
        from compressed_array_torch import ReplayBuffer

        self.buffer = ReplayBuffer(**buffer_arguments(stream, stream.steps, codec))
        self.sources = [steps_of(stream, number) for number in range(WRITERS)]

    def turn(self) -> float:
        spent = 0.0
        for source in self.sources:
            at_hand = list(islice(source, STEPS))
            start = time.perf_counter()
            add_all(self.buffer.add, at_hand)
            spent += time.perf_counter() - start
        return spent


def speed(codec: str) -> dict[str, Any]:
    stream = open_stream(GAME)
    shared, alone = Shared(stream, codec), Alone(stream, codec)
    shared.turn(), alone.turn()  # which warms up
    first, sent = shared.worked, shared.sent
    began, busy, own = time.perf_counter(), busy_seconds(), time.process_time()
    times = []
    for turn in range(ROUNDS):
        if turn % 2:
            ours = shared.turn()
            times.append((ours, alone.turn()))
        else:
            theirs = alone.turn()
            times.append((shared.turn(), theirs))
    others = busy_seconds() - busy - (time.process_time() - own) - (shared.worked - first)
    ours, ratio = statistics.median(a for a, _ in times), statistics.median(a / b for a, b in times)
    transitions = ROUNDS * WRITERS * STEPS * stream.envs
    raw = 2 * transitions * stream.frames[0, 0].nbytes * stream.stack
    found = {
        "sent": shared.sent - sent,
        "raw": raw,
        "take in": Times(ours / (WRITERS * STEPS), ratio, others / (time.perf_counter() - began)),
    }
    shared.close()
    return found


if __name__ == "__main__":
    _, codec = sys.argv[1:]
    print(json.dumps(speed(codec)))
