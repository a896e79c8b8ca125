"""`SequenceReplayBuffer` against a record of every step."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch

import compressed_array_torch as cat
from compressed_array_torch import Field, SequenceReplayBuffer, StepError
from torch_helpers.histories import History, assert_same, at

FIELDS = {"state": Field((16,)), "latent": Field((100,), torch.float32, "zstd1")}


def new_buffer(size: int = 30, lanes: int = 3, length: int = 5, **options: Any) -> SequenceReplayBuffer:
    options = {"obs_dtype": torch.uint8, "action_dtype": torch.int64, "fields": FIELDS} | options
    generator = torch.Generator().manual_seed(5)
    return SequenceReplayBuffer(size, lanes, (4, 12, 12), (), length=length, generator=generator, **options)


def add(history: History, *buffers: Any) -> None:
    number = len(history.steps) * history.lanes
    values = torch.arange(number, number + history.lanes).float()[:, None]
    history.add_to(*buffers, state=values.expand(-1, 16), latent=values.expand(-1, 100) + 0.5)


def check(history: History, buffer: SequenceReplayBuffer, batch: cat.SequenceBatch) -> None:
    windows, steps = batch.actions.shape
    assert steps == buffer.burn_in + buffer.length
    for row in range(windows):
        first, valid = int(batch.actions[row, 0]), int(batch.is_valid[row].sum())
        assert batch.is_valid[row, :valid].all()
        assert first // history.lanes >= len(history.steps) - len(buffer)
        for k in range(steps):
            number = first + k * history.lanes
            if k >= valid:
                assert not batch.is_first[row, k]
                assert not batch.learning_mask[row, k]
                assert int(batch.indices[row, k]) == -1
                assert not at(batch.observations, (row, k)).any()
                assert (batch.rewards[row, k], batch.actions[row, k]) == (0, 0)
                continue
            step = history.step(number)
            assert int(batch.actions[row, k]) == int(batch.indices[row, k]) == number
            assert_same(batch.observations[row, k], step.obs)
            assert (bool(batch.terminated[row, k]), bool(batch.truncated[row, k])) == (step.terminated, step.truncated)
            assert bool(batch.learning_mask[row, k]) == (k >= buffer.burn_in)
            begins = number < history.lanes or ended(history, number - history.lanes)
            assert bool(batch.is_first[row, k]) == begins
            if buffer.boundary != "cross" and k:
                assert not begins
        assert_same(batch.last_observations[row], history.step(first + (valid - 1) * history.lanes).next_obs)
        if valid < steps:
            last = first + (valid - 1) * history.lanes
            assert ended(history, last) or last // history.lanes == len(history.steps) - 1


def ended(history: History, number: int) -> bool:
    return history.step(number).terminated or history.step(number).truncated


@pytest.mark.parametrize("codec", [None, "auto", "delta-zstd"])
@pytest.mark.parametrize("boundary", ["stop", "pad", "cross"])
@pytest.mark.parametrize("burn_in", [0, 3])
def test_windows_are_steps_that_follow_each_other(boundary: str, burn_in: int, codec: Any) -> None:
    history = History("images", 3, ends=0.06)
    buffer = new_buffer(boundary=boundary, burn_in=burn_in, codec=codec)
    for step in range(100):
        add(history, buffer)
        if step % 9 == 0 and buffer.window_count:
            check(history, buffer, buffer.get(6))
    batch = buffer.get(40)
    check(history, buffer, batch)
    numbers = batch.actions.float()[..., None] * batch.is_valid[..., None]
    assert_same(batch.state, numbers.expand(-1, -1, 16).contiguous())


def test_states_to_begin_with_are_of_the_first_step() -> None:
    history, buffer = History("images", 3, ends=0.0), new_buffer(first_only=["state", "latent"])
    for _ in range(40):
        add(history, buffer)
    batch = buffer.get(7)
    assert_same(batch.state, batch.actions[:, :1].float().expand(-1, 16).contiguous())
    assert_same(batch.latent, batch.actions[:, :1].float().expand(-1, 100).contiguous() + 0.5)


def test_next_observations_come_when_asked_for() -> None:
    history = History("images", 3)
    plain, returns = new_buffer(next_observations=True), new_buffer(n_step=2)
    for _ in range(60):
        add(history, plain, returns)
    batch = plain.get(8)
    for row in range(8):
        for k in range(5):
            assert_same(batch.next_observations[row, k], history.step(int(batch.actions[row, k])).next_obs)
    batch = returns.get(8)
    assert batch.discounts is not None
    assert batch.discounts.shape == batch.rewards.shape == (8, 5)
    assert_same(
        batch.next_observations.new_tensor(batch.next_observations.shape), torch.tensor([8, 5, 4, 12, 12]).byte()
    )


@pytest.mark.parametrize("names", [["state"], ["latent"], ["state", "latent"]])
def test_what_is_written_back_is_drawn_and_old_steps_stay_as_they_are(names: list[str]) -> None:
    history, buffer = History("images", 3, ends=0.05), new_buffer(boundary="pad")
    for _ in range(50):
        add(history, buffer)
    batch = buffer.get(10)
    for _ in range(15):  # half of the buffer is written over
        add(history, buffer)
    values = {name: torch.full((10, 5, *FIELDS[name].shape), -1.0) for name in names}
    held = {int(n) for n in batch.indices.reshape(-1) if n >= 35 * 3}
    assert 0 < len(held) < len(set(batch.indices.reshape(-1).tolist()))
    assert buffer.update(batch.indices, **values) == len(held)
    drawn = buffer.get(300)
    for number, is_valid, state, latent in zip(
        drawn.actions.reshape(-1).tolist(),
        drawn.is_valid.reshape(-1).tolist(),
        drawn.state.reshape(-1, 16),
        drawn.latent.reshape(-1, 100),
        strict=True,
    ):
        if is_valid:
            assert (state == (-1.0 if number in held and "state" in names else number)).all()
            assert (latent == (-1.0 if number in held and "latent" in names else number + 0.5)).all()


def test_the_last_of_two_values_for_a_step_stays() -> None:
    history, buffer = History("images", 1), new_buffer(lanes=1, length=1)
    add(history, buffer)
    indices = torch.tensor([0, 0, 0])
    assert buffer.update(indices, state=torch.arange(3.0)[:, None].expand(-1, 16)) == 1
    assert (buffer.get(1).state == 2.0).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"rewards": torch.zeros(2)}, "own fields"), ({"state": torch.zeros(2)}, "shape"), ({"nothing": 1}, "own fields")],
)
def test_updates_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    history, buffer = History("images", 3), new_buffer(length=1)
    add(history, buffer)
    with pytest.raises(StepError, match=message):
        buffer.update(torch.arange(2), **fields)


def test_a_state_goes_on_where_the_buffer_was() -> None:
    history, buffer, other = History("images", 3), new_buffer(), new_buffer()
    for _ in range(40):
        add(history, buffer)
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    with pytest.raises(cat.BufferStateError):
        other.load_state_dict(state | {"windows": {}})
    other.load_state_dict(state)
    for _ in range(20):
        add(history, buffer, other)
        one, two = buffer.get(4), other.get(4)
        check(history, other, two)
        assert torch.equal(one.indices, two.indices)


def test_too_short_a_history_has_no_windows() -> None:
    history, buffer = History("images", 3), new_buffer()
    add(history, buffer)
    with pytest.raises(cat.NothingToSampleError, match="no window of 5 steps"):
        buffer.get(1)
    buffer.reset()
    assert buffer.window_count == 0


@pytest.mark.parametrize(
    "options", [{"length": 0}, {"burn_in": -1}, {"length": 31}, {"boundary": "wrap"}, {"first_only": ["reward"]}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(cat.BufferOptionError):
        new_buffer(**options)
