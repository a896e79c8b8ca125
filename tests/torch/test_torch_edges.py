"""Odd values, odd names and odd moments: what a buffer is given comes back, or is refused and changes nothing."""

from __future__ import annotations

import copy
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array_torch as cat
from compressed_array_torch._wire import Receiver
from torch_helpers.acting import act_for_ever
from torch_helpers.histories import History, assert_same

Z = torch.zeros(2)


def step(buffer: Any, value: Any = 0, **more: Any) -> None:
    """A step of two environments that show one value everywhere."""
    shape, dtype = buffer.obs_shape, buffer._storage._observations["observations"].dtype
    obs = torch.full((2, *shape), value).to(dtype)
    given = {"terminated": Z, "truncated": Z, "next_obs": obs} | more
    buffer.add(obs, Z, given.pop("reward", Z), **given)


@pytest.mark.parametrize("codec", [None, "zstd-3"])
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.complex128])
def test_dtypes_of_which_torch_can_do_little(dtype: torch.dtype, codec: Any) -> None:
    buffer = cat.SequenceReplayBuffer(
        6, 2, (3,), (), obs_dtype=dtype, codec=codec, length=2, boundary="pad", fields={"h": cat.Field((2,), dtype)}
    )
    for value in range(10):
        step(buffer, value, h=torch.full((2, 2), value).to(dtype), terminated=torch.tensor([value % 3 == 2, False]))
    batch = buffer.get(40)
    assert_same(batch.observations[..., :2][batch.is_valid], batch.h[batch.is_valid])
    numbers = batch.indices // 2
    expected = numbers[batch.is_valid][:, None].expand(-1, 3).to(dtype)
    assert_same(batch.observations[batch.is_valid], expected.contiguous())
    assert not batch.observations[~batch.is_valid].to(torch.complex128).any()
    buffer.update(batch.indices[:1], h=torch.full((1, 2, 2), 5).to(dtype))


def test_numbers_are_not_taken_for_the_bits_of_others() -> None:
    buffer = cat.ReplayBuffer(3, 2, (200,), (), obs_dtype=torch.bfloat16, codec="zstd-3")
    ones = np.ones((2, 200), np.int16)
    buffer.add(ones, Z, Z, terminated=Z, truncated=Z, next_obs=ones)
    assert (buffer.get(4).observations == 1).all()


def test_errors_in_bfloat16_are_errors() -> None:
    buffer = cat.PrioritizedReplayBuffer(4, 2, (3,), (), alpha=1.0, epsilon=0.0)
    for _ in range(4):
        step(buffer)
    buffer.update_priorities(torch.arange(4), torch.tensor([1.0, -2.0, 0.5, 3.0]).bfloat16())
    assert buffer.priorities[np.arange(4)].tolist() == [1.0, 2.0, 0.5, 3.0]


def test_errors_of_what_is_no_more_change_nothing() -> None:
    buffer = cat.PrioritizedReplayBuffer(4, 2, (3,), ())
    for _ in range(4):
        step(buffer)
    old = buffer.get(4)
    for _ in range(4):
        step(buffer)
    with pytest.raises(ValueError, match="finite"):
        buffer.update_priorities(old.indices, np.full(4, np.inf))
    buffer.update_priorities(old.indices, np.full(4, 1e300))
    step(buffer)
    assert buffer.priorities.max == 1.0


@pytest.mark.parametrize("name", ["rows", "items"])
def test_a_field_may_be_called_as_a_state_is(name: str) -> None:
    buffers = [cat.ReplayBuffer(4, 2, (3,), (), fields={name: cat.Field((100,))}) for _ in range(2)]
    step(buffers[0], 1, reward=Z + 5, **{name: torch.ones(2, 100)})
    buffers[1].load_state_dict(buffers[0].state_dict())
    batch = buffers[1].get(3)
    assert batch.rewards.tolist() == [5, 5, 5]
    assert (batch.extras[name] == 1).all()


@pytest.mark.parametrize("bad", ["self", "obs", "not a name"])
def test_names_that_a_field_cannot_have(bad: str) -> None:
    with pytest.raises(cat.BufferOptionError, match="cannot be called"):
        cat.ReplayBuffer(4, 2, (3,), (), fields={bad: cat.Field()})


@pytest.mark.parametrize("names", [{"a.b": (2,)}, {1: (2,)}])
def test_names_that_an_observation_cannot_have(names: Any) -> None:
    with pytest.raises(cat.BufferOptionError, match="strings without dots"):
        cat.ReplayBuffer(4, 2, names, ())


def test_a_field_with_a_name_like_that_of_observations() -> None:
    buffer = cat.ReplayBuffer(4, 2, (300,), (), codec="zstd-3", fields={"observations2": cat.Field((300,), codec=None)})
    assert buffer.memory_usage().keys["observations2"].codec == "plain"


@pytest.mark.parametrize("name", ["rewards", "terminated", "truncated"])
def test_what_the_buffer_itself_reads_has_no_codec(name: str) -> None:
    with pytest.raises(cat.BufferOptionError, match="codecs for"):
        cat.ReplayBuffer(4, 2, (3,), (), codec={name: "zstd-3"})


@pytest.mark.parametrize("value", [["a", "b"], [[1, 2], [3]], [object(), object()]])
def test_values_that_are_no_numbers(value: Any) -> None:
    buffer = cat.ReplayBuffer(4, 2, (3,), ())
    with pytest.raises(cat.StepError, match="numbers"):
        step(buffer, reward=value)
    assert len(buffer) == 0


def test_what_the_tracker_refuses_is_not_stored() -> None:
    for cls, more in (
        (cat.ReplayBuffer, {"next_obs": torch.zeros(2, 3)}),
        (cat.RolloutBuffer, {"value": Z, "log_prob": Z}),
    ):
        tracker = cat.StatsTracker(2, extra_metrics_keys=["score"])
        buffer = cls(4, 2, (3,), (), tracker)
        for bad in ({"infos": {"score": np.zeros(3)}}, {"done_reasons": ["won"]}):
            given = {"terminated": Z, "truncated": Z, **bad, **more}
            with pytest.raises(cat.StepError):
                buffer.add(torch.zeros(2, 3), Z, Z, **given)
        assert len(buffer) == 0
    with pytest.raises(cat.BufferOptionError, match="1 environments, not 2"):
        cat.ReplayBuffer(4, 2, (3,), (), cat.StatsTracker(1))


def test_rewards_of_bfloat16_and_reasons_in_an_array_are_tracked() -> None:
    tracker = cat.StatsTracker(2, done_reason_keys=["won"])
    buffer = cat.ReplayBuffer(4, 2, (3,), (), tracker)
    ends = torch.tensor([True, False])
    step(buffer, reward=torch.tensor([1.5, 2]).bfloat16(), terminated=ends, done_reasons=np.array(["won", None]))
    assert tracker.get_statistics()["Rollout/rewards"] == 1.5
    assert tracker.get_statistics()["Rollout/Done/won_rate"] == 1.0


@pytest.mark.parametrize(
    ("size", "shape"), [(3, (3, 1)), (1, ()), (1, (1,)), (1, (1, 1))], ids=["columns", "scalars", "ones", "column"]
)
def test_the_other_order_is_named_whatever_the_flags_look_like(size: int, shape: tuple[int, ...]) -> None:
    buffer = cat.ReplayBuffer(4, size, (5,), ())
    obs, flags = torch.zeros(size, 5), torch.zeros(shape)
    with pytest.raises(cat.StepError, match="the order of arguments is"):
        buffer.add(obs, torch.zeros(size), torch.zeros(size), flags, flags, obs)


@pytest.mark.parametrize("codec", [None, "delta"])
def test_a_buffer_that_was_emptied_is_saved_and_loaded(codec: Any) -> None:
    buffer, again = (cat.ReplayBuffer(4, 2, (300,), (), codec=codec) for _ in range(2))
    for value in range(6):
        step(buffer, value, next_obs=torch.full((2, 300), value + 0.5))
    buffer.reset()
    step(buffer, 7)
    again.load_state_dict(buffer.state_dict())
    assert (again.get(5).observations == 7).all()


def test_dense_memory_is_taken_as_it_is_filled() -> None:
    """As a process sees it: what is allocated and never written to takes none, and next observations are there once."""
    program = """
import torch, compressed_array_torch as cat
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
buffer = cat.ReplayBuffer(10, 1, (1000,), (), codec=None)
zero, items = torch.zeros(1), [torch.full((1, 1000), float(i)) for i in range(2)]
for i in range(20):
    buffer.add(items[i % 2], zero, zero, terminated=zero, truncated=zero, next_obs=items[1 - i % 2])
before = resident()
buffer = cat.ReplayBuffer(50_000, 1, (1000,), (), codec=None)
print(resident() - before)
for i in range(50_000):
    buffer.add(items[i % 2], zero, zero, terminated=zero, truncated=zero, next_obs=items[1 - i % 2])
print(resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    empty, full = map(int, done.stdout.split())
    assert empty < 20e6
    assert 190e6 < full < 230e6


def test_a_prefetcher_that_was_closed_is_over() -> None:
    buffer = cat.ReplayBuffer(4, 2, (3,), ())
    step(buffer)
    batches = buffer.prefetch(2)
    next(batches)
    batches.close()
    with pytest.raises(StopIteration):
        next(batches)


def test_a_prefetcher_goes_on_in_a_forked_child() -> None:
    buffer = cat.ReplayBuffer(4, 2, (3,), (), generator=torch.Generator().manual_seed(0))
    twin = cat.ReplayBuffer(4, 2, (3,), (), generator=torch.Generator().manual_seed(0))
    for value in range(4):
        step(buffer, value)
        step(twin, value)
    with buffer.prefetch(2) as batches:
        assert_same(next(batches).observations, twin.get(2).observations)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            is_same = all((next(batches).observations == twin.get(2).observations).all() for _ in range(5))
            os._exit(0 if is_same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_rollout_that_goes_on_is_not_mixed_with_the_next() -> None:
    buffer = cat.RolloutBuffer(3, 2, (3,), (), reset_strategy=cat.ResetStrategy.AUTO)
    for _ in range(3):
        buffer.add(torch.zeros(2, 3), Z, Z, terminated=Z, value=Z, log_prob=Z)
    buffer.compute_returns_and_advantages(Z)
    batches = buffer.get(2)
    next(batches)
    buffer.add(torch.zeros(2, 3), Z, Z, terminated=Z, value=Z, log_prob=Z)
    with pytest.raises(RuntimeError, match="gone on"):
        next(batches)


def test_done_and_truncated_bootstrap_in_a_rollout() -> None:
    buffer = cat.RolloutBuffer(1, 1, (3,), (), gamma=1.0)
    one = torch.ones(1)
    buffer.add(torch.zeros(1, 3), one, one, done=one, truncated=one, value=one, log_prob=one, final_value=10 * one)
    buffer.compute_returns_and_advantages(one)
    assert next(buffer.get()).returns.item() == 11
    buffer.normalize_advantages()
    buffer.normalize_returns()
    assert next(buffer.get()).returns.isfinite().all()


def test_what_values_explain_is_not_changed_by_normalizing() -> None:
    buffer = cat.RolloutBuffer(50, 2, (3,), (), gae_lambda=1.0)
    rewards = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    for reward in rewards:
        buffer.add(torch.zeros(2, 3), Z, reward, terminated=torch.ones(2), value=reward + 0.1, log_prob=Z)
    buffer.compute_returns_and_advantages(Z)
    before = buffer.explained_variance
    assert before > 0.99
    buffer.normalize_returns()
    assert buffer.explained_variance == before


def test_a_handler_during_a_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = cat.ReplayBuffer(4, 2, (3,), ())
    step(buffer)
    read, refused = type(buffer._storage).transitions, []

    def handled(*arguments: Any) -> Any:
        for use in (lambda: buffer.get(1), lambda: step(buffer), buffer.reset, buffer.state_dict):
            with pytest.raises(cat.BusyBufferError, match="flag"):
                use()
            refused.append(use)
        return read(*arguments)

    monkeypatch.setattr(type(buffer._storage), "transitions", handled)
    buffer.get(2)
    assert len(refused) == 4
    monkeypatch.undo()
    assert len(buffer) == 1
    buffer.get(2)


@pytest.mark.parametrize("codec", [None, "delta"])
@pytest.mark.parametrize("cls", [cat.ReplayBuffer, cat.PrioritizedReplayBuffer, cat.SharedReplayBuffer])
def test_threads_see_whole_steps(cls: Any, codec: Any) -> None:
    buffer = cls(8, 2, (300,), (), codec=codec)
    step(buffer, 0, reward=Z)
    is_over, torn = threading.Event(), []

    def draw() -> None:
        while not is_over.is_set():
            batch = buffer.get(16)
            if not (batch.observations == batch.rewards[:, None]).all():
                torn.append(batch)

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for thread in threads:
        thread.start()
    for value in range(1, 400):
        step(buffer, value, reward=Z + value)
    is_over.set()
    for thread in threads:
        thread.join()
    assert not torn


def test_sampling_ends_though_writers_go_on() -> None:
    buffer = cat.SharedReplayBuffer(500, 1, (12, 12), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
    processes = [
        mp.get_context("fork").Process(target=act_for_ever, args=(buffer.writer(1), i), daemon=True) for i in range(2)
    ]
    for process in processes:
        process.start()
    while not buffer.take_in(1.0):
        pass
    time.sleep(0.5)
    for _ in range(5):
        buffer.get(4)
        buffer.take_in()
    for process in processes:
        process.kill()
        process.join()
    with pytest.warns(cat.WriterLostWarning):
        buffer.take_in()


def die_early(writer: Any) -> None:
    History("images", 2).add_to(writer)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_writer_that_is_killed_before_it_sent_anything() -> None:
    buffer = cat.SharedReplayBuffer(100, 2, (4, 12, 12), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
    process = mp.get_context("fork").Process(target=die_early, args=(buffer.writer(50),))
    process.start()
    process.join()
    with pytest.warns(cat.WriterLostWarning, match=f"process {process.pid} .* 0 were"):
        buffer.take_in()
    assert [status.is_lost for status in buffer.writers] == [True]


def test_a_writer_compresses_as_the_buffer_has_it() -> None:
    small = cat.Field((8,), codec="zstd-3")
    buffer = cat.SharedReplayBuffer(100, 2, (4,), (), codec=None, fields={"small": small, "large": cat.Field((900,))})
    with buffer.writer(4) as writer:
        for value in range(6):
            given = {"next_obs": torch.zeros(2, 4), "small": torch.full((2, 8), value), "large": torch.ones(2, 900)}
            writer.add(torch.zeros(2, 4), Z, Z + value, terminated=Z, truncated=Z, **given)
    assert buffer.take_in() == 6
    batch = buffer.get(20)
    assert (batch.small == batch.rewards[:, None]).all()
    assert (batch.large == 1).all()


@pytest.mark.parametrize("boundary", ["stop", "cross"])
def test_chunks_as_long_as_the_ring(boundary: str) -> None:
    buffer = cat.SharedSequenceReplayBuffer(11, 1, (2,), (), length=8, boundary=boundary)
    one = np.zeros(1)
    with buffer.writer(5) as writer:
        for i in range(60):
            writer.add(np.zeros((1, 2)), one, one + i, terminated=one, truncated=one, next_obs=np.zeros((1, 2)))
            buffer.take_in()
            held = len(buffer)
            assert buffer.window_count == max(held - 7, 0)
            if buffer.window_count:
                rewards = buffer.get(8).rewards
                assert (rewards.diff(dim=1) == 1).all()
                assert rewards.min() >= (i + 1) // 5 * 5 - held


def test_a_buffer_that_was_closed_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = cat.SharedReplayBuffer(10, 2, (3,), ())
    buffer.writer(1).close()
    buffer.close()
    wait, asked = Receiver.wait, []

    def counted(receiver: Receiver, seconds: float) -> bool:
        asked.append(seconds)
        return wait(receiver, seconds)

    monkeypatch.setattr(Receiver, "wait", counted)
    assert buffer.take_in(0.5) == 0
    assert len(asked) == 1  # and not again and again until the time is over


@pytest.mark.parametrize("codec", [None, "delta"])
def test_a_copy_is_another_buffer(codec: Any) -> None:
    buffer = cat.ReplayBuffer(4, 2, (300,), (), codec=codec)
    step(buffer, 1)
    again = copy.deepcopy(buffer)
    step(buffer, 2)
    assert len(again) == 1
    assert (again.get(4).observations == 1).all()
