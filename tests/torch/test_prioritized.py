"""`PrioritizedReplayBuffer`: what is drawn how often, and what weights make of it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array_torch as cat
from compressed_array.errors import PriorityError
from compressed_array_torch import PrioritizedReplayBuffer
from torch_helpers.histories import History, assert_same, numbers_of


def filled(steps: int = 25, size: int = 20, lanes: int = 2, **options: Any) -> tuple[History, PrioritizedReplayBuffer]:
    history = History("images", lanes)
    options = {"obs_dtype": torch.uint8, "action_dtype": torch.int64} | options
    generator = torch.Generator().manual_seed(3)
    buffer = PrioritizedReplayBuffer(size, lanes, (4, 12, 12), (), generator=generator, **options)
    for _ in range(steps):
        history.add_to(buffer)
    return history, buffer


def every(buffer: PrioritizedReplayBuffer) -> torch.Tensor:
    """The indices of all transitions that are held."""
    first = buffer._ring.oldest * buffer.num_envs
    return torch.arange(first, first + buffer.total_current_size)


def test_draws_follow_priorities_and_weights_undo_them() -> None:
    _, buffer = filled(alpha=0.7, epsilon=0.0)
    errors = torch.linspace(-3, 2, buffer.total_current_size) + 0.01
    buffer.update_priorities(every(buffer), errors)
    expected = errors.abs().double().numpy() ** 0.7
    expected /= expected.sum()
    counts, batches = np.zeros(len(expected)), 600
    for _ in range(batches):
        batch = buffer.get(100, beta=0.5)
        places = batch.indices.numpy() - int(every(buffer)[0])
        np.add.at(counts, places, 1)
        weights = (len(expected) * expected[places]) ** -0.5
        weights /= ((len(expected) * expected) ** -0.5).max()
        np.testing.assert_allclose(batch.weights.numpy(), weights, rtol=1e-5)
        assert numbers_of(batch) == batch.indices.tolist()  # the action is a step's number
    wanted = expected * batches * 100
    statistic = ((counts - wanted) ** 2 / wanted).sum()
    assert statistic < len(expected) + 6 * np.sqrt(2 * len(expected))


def test_without_alpha_all_are_as_likely_and_weigh_the_same() -> None:
    _, buffer = filled(alpha=0.0)
    buffer.update_priorities(every(buffer), torch.rand(40) * 100)
    batch = buffer.get(4000)
    assert (batch.weights == 1).all()
    counts = np.bincount(batch.indices.numpy() - 10, minlength=40)
    assert ((counts - 100) ** 2 / 100).sum() < 40 + 6 * np.sqrt(80)


def test_new_transitions_have_the_largest_priority_there_was() -> None:
    history, buffer = filled(alpha=1.0, epsilon=0.0)
    buffer.update_priorities(every(buffer), torch.full((40,), 0.5))
    history.add_to(buffer)
    newest = buffer.priorities[buffer._ring.positions(every(buffer).numpy()[-2:])]
    assert newest.tolist() == [1.0, 1.0]
    buffer.update_priorities(every(buffer)[:1], torch.tensor([9.0]))
    history.add_to(buffer)
    newest = buffer.priorities[buffer._ring.positions(every(buffer).numpy()[-2:])]
    assert newest.tolist() == [9.0, 9.0]


def test_what_was_written_over_is_not_given_a_priority() -> None:
    history, buffer = filled(alpha=1.0, epsilon=0.0)
    batch = buffer.get(40)
    for _ in range(20):
        history.add_to(buffer)
    before = buffer.priorities[np.arange(40)].copy()
    buffer.update_priorities(batch.indices, torch.full((40,), 77.0))
    np.testing.assert_array_equal(buffer.priorities[np.arange(40)], before)


@pytest.mark.parametrize("convert", [np.asarray, lambda tensor: tensor, lambda tensor: tensor.tolist()])
def test_errors_come_as_tensors_arrays_or_lists(convert: Any) -> None:
    _, buffer = filled()
    batch = buffer.get(8)
    buffer.update_priorities(convert(batch.indices), convert(torch.rand(8)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_errors_change_nothing(bad: float) -> None:
    _, buffer = filled()
    before = buffer.priorities[np.arange(40)].copy()
    with pytest.raises(PriorityError):
        buffer.update_priorities(every(buffer), torch.full((40,), bad))
    with pytest.raises(ValueError, match="3 errors for 40 transitions"):
        buffer.update_priorities(every(buffer), torch.ones(3))
    np.testing.assert_array_equal(buffer.priorities[np.arange(40)], before)


def test_beta_may_change_over_time() -> None:
    asked: list[int] = []

    def beta(batches: int) -> float:
        asked.append(batches)
        return 0.0 if batches < 2 else 1.0

    _, buffer = filled(beta=beta)
    buffer.update_priorities(every(buffer), torch.linspace(0.1, 5, 40))
    weights = [buffer.get(16).weights for _ in range(3)]
    assert asked == [0, 1, 2]
    assert (weights[0] == 1).all()
    assert (weights[1] == 1).all()
    assert (weights[2] < 1).any()


def test_an_empty_buffer_says_so_also_after_a_reset() -> None:
    _, buffer = filled(0)
    with pytest.raises(cat.NothingToSampleError):
        buffer.get(4)
    history, buffer = filled(25)
    buffer.reset()
    with pytest.raises(cat.NothingToSampleError):
        buffer.get(4)
    history.add_to(buffer)
    assert set(numbers_of(buffer.get(50))) == {50, 51}


def test_a_state_keeps_priorities() -> None:
    history, buffer = filled()
    buffer.update_priorities(every(buffer), torch.rand(40))
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    state, (_, other) = torch.load(file, weights_only=True), filled(0)
    for damaged in (
        {key: part for key, part in state.items() if key != "priorities"},
        state | {"priorities": torch.full((40,), float("nan"))},
        state | {"priorities": torch.ones(41)},
        state | {"largest": "much"},
    ):
        with pytest.raises(cat.BufferStateError):
            other.load_state_dict(damaged)
    other.load_state_dict(state)
    for _ in range(5):
        history.add_to(buffer, other)
        one, two = buffer.get(32), other.get(32)
        assert_same(one.observations, two.observations)
        assert_same(one.weights, two.weights)
        buffer.update_priorities(one.indices, one.rewards)
        other.update_priorities(two.indices, two.rewards)


def test_n_step_returns_come_with_priorities() -> None:
    _, buffer = filled(n_step=3)
    batch = buffer.get(16)
    assert batch.discounts is not None
    assert batch.discounts.shape == batch.weights.shape == (16,)


@pytest.mark.parametrize("options", [{"alpha": -0.1}, {"epsilon": -1.0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(cat.BufferOptionError):
        filled(0, **options)
