"""Batches that are decoded ahead are those that would have been drawn without it."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import compressed_array_torch as cat
from compressed_array_torch import BufferOptionError, Field, PrioritizedReplayBuffer, ReplayBuffer, SequenceReplayBuffer
from torch_helpers.histories import History, assert_same


def new_buffer(cls: Any = ReplayBuffer, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(11)
    dtypes = {"obs_dtype": torch.uint8, "action_dtype": torch.int64}
    return cls(40, 3, (4, 12, 12), (), generator=generator, **dtypes, **options)


def assert_same_batch(one: Any, two: Any) -> None:
    for name in ("observations", "actions", "rewards", "terminated", "truncated", "next_observations", "discounts"):
        first, second = getattr(one, name), getattr(two, name)
        if first is None:
            assert second is None
        else:
            assert_same(first, second)


@pytest.mark.parametrize("codec", [None, "auto", "delta"])
@pytest.mark.parametrize("n_step", [None, 3])
@pytest.mark.parametrize("every", [0, 1, 5])
def test_batches_are_the_same_with_and_without(codec: Any, n_step: int | None, every: int) -> None:
    history = History("images", 3)
    plain, ahead = new_buffer(codec=codec, n_step=n_step), new_buffer(codec=codec, n_step=n_step)
    for _ in range(20):
        history.add_to(plain, ahead)
    with ahead.prefetch(16, 3) as batches:
        for step in range(120):  # past the first round of the ring
            if every and step % every == 0:
                history.add_to(plain, ahead)
            assert_same_batch(next(batches), plain.get(16))


def test_a_full_buffer_needs_little_again() -> None:
    """Of a full ring most batches are handed out as they were decoded ahead."""
    history, buffer, decoded = History("images", 3), new_buffer(), []
    for _ in range(60):
        history.add_to(buffer)
    real = buffer._batch
    buffer._batch = lambda drawn: decoded.append(threading.current_thread()) or real(drawn)
    with buffer.prefetch(2, 1) as batches:
        for _ in range(30):
            history.add_to(buffer)
            next(batches)
    here = [thread for thread in decoded if thread is threading.current_thread()]
    assert len(here) < 15


def test_windows_are_the_same_with_and_without() -> None:
    history, fields = History("images", 3, ends=0.03), {"state": Field((8,))}
    plain = new_buffer(SequenceReplayBuffer, length=4, fields=fields)
    ahead = new_buffer(SequenceReplayBuffer, length=4, fields=fields)
    for _ in range(30):
        history.add_to(plain, ahead, state=torch.zeros(3, 8))
    with ahead.prefetch(5) as batches:
        for step in range(60):
            one, two = next(batches), plain.get(5)
            assert_same_batch(one, two)
            assert_same(one.state, two.state)
            if step % 3 == 0:
                for buffer in (plain, ahead):
                    buffer.update(one.indices, state=torch.full((5, 4, 8), float(step)))
            if step % 4 == 0:
                history.add_to(plain, ahead, state=torch.zeros(3, 8))


def test_a_state_that_is_loaded_is_seen() -> None:
    history, buffer, other = History("images", 3), new_buffer(), new_buffer()
    other_history = History("images", 3, seed=9)
    for _ in range(50):
        history.add_to(buffer)
        other_history.add_to(other)
    state = other.state_dict() | {"generator": None}
    with buffer.prefetch(8, 4) as batches:
        next(batches)
        buffer.load_state_dict(state)
        batch = next(batches)
        for row, number in enumerate(batch.actions.tolist()):
            assert_same(batch.observations[row], other_history.step(number).obs)


def test_errors_are_the_callers() -> None:
    buffer = new_buffer()
    with buffer.prefetch(4) as batches, pytest.raises(cat.NothingToSampleError):
        next(batches)
    with pytest.raises(BufferOptionError, match="at least one"):
        buffer.prefetch(4, 0)
    with pytest.raises(BufferOptionError, match="cannot be drawn ahead"):
        new_buffer(PrioritizedReplayBuffer).prefetch(4)


def test_the_thread_ends_with_the_prefetcher() -> None:
    # That of a test before this one may still be on its way out: only a new one counts.
    others = set(threading.enumerate())

    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "prefetch" and thread not in others]

    history, buffer = History("images", 3), new_buffer()
    history.add_to(buffer)
    batches = buffer.prefetch(4)
    next(batches)
    assert len(threads()) == 1
    del batches
    gc.collect()
    until = time.monotonic() + 30
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert not threads()


def test_a_loader_takes_the_dataset() -> None:
    history, plain, buffer = History("images", 3), new_buffer(), new_buffer()
    for _ in range(20):
        history.add_to(plain, buffer)
    batches = list(DataLoader(buffer.dataset(8, batches=5), batch_size=None))
    assert len(batches) == 5
    for batch in batches:
        assert_same_batch(batch, plain.get(8))
