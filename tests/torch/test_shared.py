"""Buffers that several processes write to hold every step once and whole, in order, whatever becomes of the writers."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import socket
import threading
import time
import warnings
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array_torch as cat
from compressed_array_torch import _wire
from compressed_array_torch._wire import HELLO, SIZE, Address, Sender
from core_helpers.interruptions import SOURCES, Interruption
from torch_helpers.acting import FAR, act, act_for_ever, shown
from torch_helpers.histories import SHAPES, History, assert_same, dtype_of, numbers_of

PACKAGE = str(Path(cat.__file__).parent)


def shared(
    kind: str = "images", lanes: int = 2, rows: int = 60, cls: Any = cat.SharedReplayBuffer, **options: Any
) -> Any:
    shape, dtype = SHAPES[kind][0], dtype_of(kind)
    return cls(rows, lanes, shape, (), obs_dtype=dtype, action_dtype=torch.int64, **options)


def histories(count: int, kind: str = "images", lanes: int = 2, ends: float = 0.1) -> list[History]:
    return [History(kind, lanes, seed=i, ends=ends, first=i * FAR) for i in range(count)]


def rows_of(buffer: Any) -> list[int]:
    """What is held in each row, from the oldest on: the number of the first environment's step."""
    ring = buffer._ring
    rows = torch.arange(ring.oldest, ring.steps) % ring.capacity
    return buffer._storage.rows.fields["actions"][rows * ring.lanes].tolist()


def check(buffer: Any, sources: list[History]) -> None:
    """All that is held is what the histories say."""
    ring = buffer._ring
    positions = torch.arange(ring.oldest * ring.lanes, ring.steps * ring.lanes) % ring.size
    batch = cat.ReplayBatch(**cat.ReplayBuffer._parts(buffer, positions))
    for i, number in enumerate(numbers_of(batch)):
        step = sources[number // FAR].step(number)
        assert_same(at(batch.observations, i), step.obs)
        assert_same(at(batch.next_observations, i), step.next_obs)
        assert batch.rewards[i] == np.float32(step.reward)
        assert bool(batch.terminated[i]) == step.terminated
        assert bool(batch.truncated[i]) == step.truncated


def at(tree: Any, index: int) -> Any:
    return {key: at(part, index) for key, part in tree.items()} if isinstance(tree, dict) else tree[index]


def follows(source: History, row: int, other: int) -> bool:
    return other == row + source.lanes


@pytest.mark.parametrize("codec", ["auto", None, "delta", "zstd-3"])
@pytest.mark.parametrize("kind", SHAPES)
def test_what_writers_send_is_held(kind: str, codec: Any) -> None:
    if codec == "delta" and kind == "numbers":
        codec = {"observations": "delta"}
    buffer, sources = shared(kind, codec=codec), histories(3, kind)
    writers = [buffer.writer(chunk) for chunk in (7, 16, 1)]
    for turn in range(90):
        which = turn // 9 % 3
        sources[which].add_to(writers[which], as_numpy=turn % 2 == 0)
    for writer in writers:
        writer.close()
    buffer.take_in()
    assert len(buffer) == 60
    check(buffer, sources)
    assert sum(status.steps for status in buffer.writers) == 90
    assert all(status.is_closed and not status.is_lost for status in buffer.writers)
    assert buffer.get(8).observations is not None


def test_steps_of_one_writer_stay_in_order_and_none_is_missing() -> None:
    buffer, sources = shared(rows=500), histories(2)
    writers = [buffer.writer(10), buffer.writer(7)]
    for turn in range(200):
        sources[turn % 2].add_to(writers[turn % 2])
        if turn % 5 == 0:
            buffer.take_in()
    for writer in writers:
        writer.flush()
    buffer.take_in()
    for i in range(2):
        assert [row for row in rows_of(buffer) if row // FAR == i] == [i * FAR + 2 * k for k in range(100)]


def test_own_steps_beside_those_of_writers() -> None:
    buffer, sources = shared(), histories(2)
    sources[0].add_to(buffer)
    writer = buffer.writer(4)
    for _ in range(50):
        sources[0].add_to(buffer)
        sources[1].add_to(writer)
    writer.close()
    buffer.take_in()
    check(buffer, sources)


def reference_return(rows: list[int], row: int, lane: int, sources: list[History], n: int, gamma: float) -> Any:
    """The slow way: from row to row of one writer, until something ends."""
    source = sources[rows[row] // FAR]
    total, factor, steps = 0.0, 1.0, 0
    while True:
        step = source.step(rows[row + steps] + lane)
        total, factor, steps = total + factor * step.reward, factor * gamma, steps + 1
        at_seam = row + steps == len(rows) or not follows(source, rows[row + steps - 1], rows[row + steps])
        if step.terminated or step.truncated or steps == n or at_seam:
            return total, 0.0 if step.terminated else factor, step


@pytest.mark.parametrize("rows", [70, 200])
def test_returns_stop_where_another_writer_begins(rows: int) -> None:
    buffer, sources = shared("vectors", rows=rows, n_step=3, gamma=0.9, codec=None), histories(3, "vectors")
    writers = [buffer.writer(4), buffer.writer(5)]
    rng = np.random.default_rng(0)
    for _ in range(150):
        which = int(rng.integers(3))
        sources[which].add_to([*writers, buffer][which])
        if rng.random() < 0.3:
            buffer.take_in()
    for writer in writers:
        writer.close()
    buffer.take_in()
    held = rows_of(buffer)
    assert any(not follows(sources[0], a, b) for a, b in pairwise(held))
    ring = buffer._ring
    for row in range(len(held)):
        for lane in range(2):
            position = torch.tensor([(ring.oldest + row) % ring.capacity * 2 + lane])
            batch = cat.ReplayBatch(**buffer._parts(position))
            total, discount, last = reference_return(held, row, lane, sources, 3, 0.9)
            assert batch.rewards.item() == pytest.approx(total, rel=1e-5, abs=1e-5)
            assert batch.discounts is not None
            assert batch.discounts.item() == pytest.approx(discount)
            assert_same(batch.next_observations[0], last.next_obs)


@pytest.mark.parametrize("boundary", ["stop", "cross", "pad"])
def test_windows_have_steps_of_one_writer(boundary: str) -> None:
    cls = cat.SharedSequenceReplayBuffer
    buffer = shared("vectors", cls=cls, rows=80, length=4, boundary=boundary, codec=None)
    sources = histories(3, "vectors", ends=0.05)
    writers, rng = [buffer.writer(6), buffer.writer(3)], np.random.default_rng(1)
    for _ in range(160):
        which = int(rng.integers(3))
        sources[which].add_to([*writers, buffer][which])
        if rng.random() < 0.3:
            buffer.take_in()
    for writer in writers:
        writer.close()
    buffer.take_in()
    held = rows_of(buffer)

    def length_from(row: int, lane: int) -> int:
        source, steps = sources[held[row] // FAR], 1
        while steps < 4 and row + steps < len(held) and follows(source, held[row + steps - 1], held[row + steps]):
            step = source.step(held[row + steps - 1] + lane)
            if boundary != "cross" and (step.terminated or step.truncated):
                break
            steps += 1
        return steps

    lengths = {held[row] + lane: length_from(row, lane) for row in range(len(held)) for lane in range(2)}
    expected = {n: k for n, k in lengths.items() if boundary == "pad" or k == 4}
    assert buffer.window_count == len(expected)
    seen = set()
    for _ in range(60):
        batch = buffer.get(64)
        for i in range(64):
            valid = batch.actions[i][batch.is_valid[i]].tolist()
            assert valid == [valid[0] + 2 * k for k in range(expected[valid[0]])]
            seen.add(valid[0])
            for k, number in enumerate(valid):
                source = sources[number // FAR]
                before = number - 2
                is_first = before < source.first or source.step(before).terminated or source.step(before).truncated
                assert bool(batch.is_first[i, k]) == is_first
    assert seen == expected.keys()


def test_priorities_of_steps_that_came_in_chunks() -> None:
    buffer = shared(cls=cat.SharedPrioritizedReplayBuffer, rows=20, alpha=1.0, beta=0.0, epsilon=0.0)
    source = histories(1)[0]
    writer = buffer.writer(8)
    for _ in range(16):
        source.add_to(writer)
    buffer.take_in()
    first = buffer.get(64)
    assert set(numbers_of(first)) == set(range(32))
    buffer.update_priorities(first.indices, torch.zeros(64))
    for _ in range(8):
        source.add_to(writer)
    buffer.take_in()
    batch = buffer.get(64)
    assert set(numbers_of(batch)) == set(range(32, 48))  # all others have a priority of zero, or are no more
    buffer.update_priorities(first.indices, torch.ones(64))  # of those that are still there
    assert buffer.priorities.total == 24 + 16
    check(buffer, [source])


def test_statistics_of_all_writers() -> None:
    tracker = cat.StatsTracker(2, extra_metrics_keys=["score"], done_reason_keys=["won"])
    alone = cat.StatsTracker(2, extra_metrics_keys=["score"], done_reason_keys=["won"])
    buffer = shared("vectors", stats_tracker=tracker, codec=None)
    obs, nothing = torch.zeros(2, 5), torch.zeros(2)
    with buffer.writer(5) as writer:
        for turn in range(23):
            ended = torch.tensor([turn % 4 == 3, turn % 6 == 5])
            infos, reasons = {"score": np.array([turn, 1.0])}, ["won" if e else None for e in ended.tolist()]
            given = {"next_obs": obs, "infos": infos, "done_reasons": reasons}
            writer.add(obs, nothing.long(), nothing + turn, terminated=ended, truncated=~ended & ended, **given)
            alone.update(ended, nothing + turn, infos, reasons)
    buffer.take_in()
    assert tracker.get_statistics() == alone.get_statistics()
    assert tracker.trajectory_num == alone.trajectory_num == 5 + 3


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_and_one_that_is_killed(method: str) -> None:
    context = mp.get_context(method)
    buffer = shared(rows=400)
    ready = context.Event()
    processes = [
        context.Process(target=act, args=(buffer.writer(16), i, 70, ready), kwargs={"dies": i == 1}) for i in range(3)
    ]
    for process in processes:
        process.start()
    assert ready.wait(120)
    processes[1].kill()
    for process in processes:
        process.join()
    with pytest.warns(cat.WriterLostWarning, match=rf"process {processes[1].pid} .* 64 were"):
        buffer.take_in()
    assert len(buffer) == 70 + 64 + 70
    sources = histories(3)
    for source in sources:
        for _ in range(70):
            source.add_to()
    check(buffer, sources)
    assert sorted((s.steps, s.is_closed, s.is_lost) for s in buffer.writers) == [
        (64, False, True),
        (70, True, False),
        (70, True, False),
    ]
    with buffer.writer(4) as writer:
        History("images", 2, first=3 * FAR).add_to(writer)
    assert buffer.take_in() == 1


def fork_and_write(writer: Any, source: History) -> None:
    source.add_to(writer)
    child = os.fork()
    if child == 0:
        try:
            other = History("images", 2, seed=1, first=FAR)
            for _ in range(3):
                other.add_to(writer)
            writer.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def test_a_forked_child_has_a_writer_of_its_own() -> None:
    buffer, sources = shared(), histories(2)
    writer = buffer.writer(2)
    for _ in range(3):
        sources[0].add_to(writer)  # two of which are sent
    fork_and_write(writer, sources[0])
    for _ in range(3):
        sources[1].add_to()
    writer.close()
    buffer.take_in()
    assert sorted(rows_of(buffer)) == [0, 2, 4, 6, FAR, FAR + 2, FAR + 4]
    check(buffer, sources)


def test_a_child_that_only_inherits_a_writer_hides_no_death() -> None:
    """The end of a writer's process is seen though a child of it lives on."""
    buffer = shared()
    context, writer = mp.get_context("fork"), buffer.writer(1)
    child_lives = context.Event()

    def die() -> None:
        History("images", 2).add_to(writer)
        if os.fork() == 0:
            child_lives.wait(60)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    process = context.Process(target=die)
    process.start()
    process.join()
    with pytest.warns(cat.WriterLostWarning):
        wait_for_a_loss(buffer)
    child_lives.set()
    assert len(buffer) == 1


def wait_for_a_loss(buffer: Any) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not any(status.is_lost for status in buffer.writers):
        buffer.take_in(0.1)


def test_half_a_message_is_dropped() -> None:
    buffer, sources = shared(), histories(2)
    with buffer.writer(3) as writer:
        for _ in range(3):
            sources[0].add_to(writer)
    whole = buffer.writer(3)
    for _ in range(2):
        sources[1].add_to(whole)
    _, data = whole._packed()
    address = buffer._receiver.address
    for length in (0, 5, len(data) - 1):
        dying = socket.socket(socket.AF_UNIX)
        dying.connect(address.path)
        dying.sendall(HELLO.pack(address.secret, os.urandom(16), 7) + SIZE.pack(len(data)) + data[:length])
        dying.close()
    with pytest.warns(cat.WriterLostWarning, match="process 7") as told:
        assert buffer.take_in() == 3
    assert len(told) == 3
    whole.close()
    assert buffer.take_in() == 2
    check(buffer, sources)


def test_strangers_are_not_believed() -> None:
    buffer = shared()
    buffer.writer()
    address = buffer._receiver.address

    class Evil:
        def __reduce__(self) -> Any:
            return os._exit, (3,)

    stranger = Sender(Address(address.path, b"x" * 32))
    with suppress(OSError):  # it may have been shut out by then
        stranger.send(pickle.dumps(Evil()))
    stranger.close()
    short = socket.socket(socket.AF_UNIX)
    short.connect(address.path)
    short.sendall(b"abc")
    short.close()
    assert buffer.take_in() == 0
    assert not buffer.writers
    assert Path(address.path).parent.stat().st_mode & 0o077 == 0  # no other user finds it


def test_writers_wait_for_a_buffer_that_does_not_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_wire, "MOST_WAITING", 20_000)
    buffer, source = shared("wide", rows=3000, codec="none"), histories(1, "wide")[0]

    def write() -> None:
        with buffer.writer(20) as writer:
            for _ in range(1000):
                source.add_to(writer)

    thread = threading.Thread(target=write)
    thread.start()
    time.sleep(0.5)
    assert len(source.steps) < 1000
    most = 0
    while thread.is_alive():
        waiting = sum(len(message.data or b"") for message in tuple(buffer._receiver.messages))
        most = max(most, waiting)
        buffer.take_in(0.1)
    thread.join()
    buffer.take_in()
    assert len(buffer) == 1000
    check(buffer, [source])
    assert most < 20_000 + 4 * 100_000  # what one look at the connections brings


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("cls", [cat.SharedReplayBuffer, cat.SharedSequenceReplayBuffer])
def test_an_interrupt_while_steps_are_taken_in(cls: Any) -> None:
    """At any point: what was sent is there once, and in order."""
    options = {"length": 3} if cls is cat.SharedSequenceReplayBuffer else {}
    buffer, sources = shared("vectors", 1, 50, cls, codec=None, **options), histories(2, "vectors", 1)
    writers = [buffer.writer(5), buffer.writer(5)]
    for nth in range(1, 3000):
        for source, writer in zip(sources, writers, strict=True):
            for _ in range(5):
                source.add_to(writer)
        assert buffer._receiver.is_answered(buffer._receiver.ask())
        with suppress(KeyboardInterrupt), Interruption(nth, interrupt, sources=(PACKAGE, SOURCES)) as interruption:
            buffer._take_waiting()
        buffer._take_waiting()
        held, last = rows_of(buffer), len(sources[0].steps)
        assert len(held) == min(10 * nth, 50), interruption.where
        for i in range(2):
            mine = [row - i * FAR for row in held if row // FAR == i]
            assert mine == list(range(last - len(mine), last)), interruption.where
        if interruption.left > 0:
            break
    assert nth > 100
    check(buffer, sources)
    if cls is cat.SharedSequenceReplayBuffer:
        again = shared("vectors", 1, 50, cls, codec=None, **options)
        again.load_state_dict(buffer.state_dict())
        assert again.window_count == buffer.window_count


def test_an_interrupt_while_steps_are_sent() -> None:
    buffer, source = shared("vectors", 1, 4000, codec=None), histories(1, "vectors", 1)[0]
    writer = buffer.writer(2000)  # so that nothing is sent but what is asked for
    interrupted = 0
    for nth in range(1, 1000):
        source.add_to()
        step = source.steps[-1][0]
        count = len(source.steps)
        arguments = step.obs[None], torch.tensor([count - 1]), torch.tensor([step.reward])
        ends = {"terminated": torch.tensor([step.terminated]), "truncated": torch.tensor([step.truncated])}
        writer.add(*arguments, **ends, next_obs=step.next_obs[None])
        with Interruption(nth, interrupt, sources=(PACKAGE, SOURCES)) as interruption:
            try:
                writer.flush()
            except KeyboardInterrupt:
                interrupted += 1
        if interruption.left > 0:
            break
    writer.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cat.WriterLostWarning)  # a connection that was given up and made again
        buffer.take_in()
    assert interrupted > 40
    assert rows_of(buffer) == list(range(len(source.steps)))
    check(buffer, [source])


def test_states_know_where_writers_change(tmp_path: Path) -> None:
    buffer, sources = shared("vectors", rows=30, n_step=3, codec=None), histories(2, "vectors", ends=0.0)
    writers = [buffer.writer(4), buffer.writer(4)]
    for _ in range(8):
        for source, writer in zip(sources, writers, strict=True):
            source.add_to(writer)
    buffer.take_in()
    torch.save(buffer.state_dict(), tmp_path / "state.pt")
    again = shared("vectors", rows=30, n_step=3, codec=None)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    positions = torch.arange(32 - 2)
    for name, part in buffer._parts(positions).items():
        if name != "extras":
            assert_same(again._parts(positions)[name], part)
    sources[1].add_to(again)
    last = torch.tensor([15 * 2])
    assert again._parts(last)["discounts"].item() == pytest.approx(0.99)  # not over to what was added since


def test_refusals(tmp_path: Path) -> None:
    buffer, source = shared(), histories(1)[0]
    with pytest.raises(cat.BufferOptionError, match="from 1 to buffer_size, 60, not 61"):
        buffer.writer(61)
    with pytest.raises(cat.BufferOptionError, match="RECURRENT"):
        shared(reset_strategy=cat.ResetStrategy.ERROR).writer()
    writer = buffer.writer(10)
    assert isinstance(pickle.loads(pickle.dumps(writer)), cat.Writer)
    source.add_to(writer)
    with pytest.raises(cat.WriterClosedError, match="flush"):
        pickle.dumps(writer)
    with pytest.raises(cat.StepError, match="lacks"):
        writer.add(
            torch.zeros(2, 4, 12, 12, dtype=torch.uint8),
            torch.zeros(2),
            torch.zeros(2),
            next_obs={},
            done=torch.zeros(2),
        )
    writer.close()
    writer.close()
    with pytest.raises(cat.WriterClosedError, match="closed"):
        source.add_to(writer)
    with pytest.raises(cat.NothingToSampleError):
        shared().get(4)
    left = buffer.writer(10)
    source.add_to(left)
    address = buffer._receiver.address
    buffer.close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and Path(address.path).exists():
        time.sleep(0.01)
    with pytest.raises(cat.WriterClosedError, match="1 steps were not sent"):
        left.flush()
    left._buffer.reset()
    left._unsent = None
    assert len(buffer) == 1
    buffer.get(2)


def test_a_forked_copy_of_a_buffer_is_refused() -> None:
    buffer = shared()
    buffer.writer()
    child = os.fork()
    if child == 0:
        try:
            buffer.get(1)
        except cat.BufferOptionError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with buffer.writer() as writer:
        History("images", 2).add_to(writer)
    assert buffer.take_in() == 1


def test_nothing_stays_behind() -> None:
    before = {thread.name for thread in threading.enumerate()}
    buffer = shared()
    with buffer.writer() as writer:
        History("images", 2).add_to(writer)
    path = Path(buffer._receiver.address.path)
    buffer.take_in()
    del buffer
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and {thread.name for thread in threading.enumerate()} - before:
        time.sleep(0.01)
    assert {thread.name for thread in threading.enumerate()} <= before
    assert not path.parent.exists()


@pytest.mark.slow
def test_a_million_steps_of_writers_that_are_killed() -> None:
    """Of each writer there are its first steps, whole chunks of them and none twice, whenever it was killed."""
    context, rng = mp.get_context("fork"), np.random.default_rng(0)
    buffer = cat.SharedReplayBuffer(5000, 1, (12, 12), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
    writers = 0

    def start() -> Any:
        nonlocal writers
        process = context.Process(target=act_for_ever, args=(buffer.writer(100), writers))
        process.start()
        writers += 1
        return process

    processes, lost = [start() for _ in range(4)], 0
    while sum(status.steps for status in buffer.writers) < 1_000_000:
        end = time.monotonic() + float(rng.uniform(0.1, 3.0))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            while time.monotonic() < end:
                buffer.take_in(0.05)
            batch = buffer.get(64)
        lost += sum(issubclass(w.category, cat.WriterLostWarning) for w in told)
        for i, number in enumerate(numbers_of(batch)):
            assert_same(batch.observations[i], torch.from_numpy(shown(number))[0])
            assert_same(batch.next_observations[i], torch.from_numpy(shown(number + 1))[0])
        rows = np.array(rows_of(buffer))
        for index in np.unique(rows // FAR):
            assert (np.diff(rows[rows // FAR == index]) == 1).all()
        which = int(rng.integers(4))
        processes[which].kill()
        processes[which].join()
        processes[which] = start()
    for process in processes:
        process.kill()
        process.join()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        buffer.take_in()
    lost += sum(issubclass(w.category, cat.WriterLostWarning) for w in told)
    assert lost == len(buffer.writers)
    assert all(status.steps % 100 == 0 for status in buffer.writers)
    assert sum(status.steps for status in buffer.writers) == buffer._ring.steps
