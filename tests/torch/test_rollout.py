"""`RolloutBuffer`: advantages against a slow reference, and all steps once an epoch."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
import torch

import compressed_array_torch as cat
from compressed_array_torch import ResetStrategy, RolloutBuffer, StepError, explained_variance


def filled(
    steps: int = 12, size: int = 12, lanes: int = 3, **options: Any
) -> tuple[RolloutBuffer, list[dict[str, Any]]]:
    """A buffer whose actions are numbers of steps, and the steps."""
    rng, record = torch.Generator().manual_seed(0), []
    options = {"obs_dtype": torch.uint8, "action_dtype": torch.int64, "gamma": 0.9, "gae_lambda": 0.8} | options
    buffer = RolloutBuffer(size, lanes, (4, 12, 12), (), **options)
    for step in range(steps):
        terminated, truncated = (torch.rand(lanes, generator=rng) < 0.2 for _ in range(2))
        record.append(
            {
                "obs": torch.randint(0, 255, (lanes, 4, 12, 12), generator=rng).byte(),
                "action": torch.arange(step * lanes, (step + 1) * lanes),
                "reward": torch.randn(lanes, generator=rng),
                "value": torch.randn(lanes, generator=rng),
                "log_prob": torch.randn(lanes, generator=rng),
                "terminated": terminated,
                "truncated": truncated,
                "final_value": torch.randn(lanes, generator=rng),
            }
        )
        buffer.add(**record[-1])
    return buffer, record


def slow_advantages(record: list[dict[str, Any]], last: torch.Tensor, gamma: float, lam: float) -> list[list[float]]:
    """By the definition: sums of discounted errors up to the end of the episode."""
    steps, lanes = len(record), len(last)
    advantages = [[0.0] * lanes for _ in range(steps)]
    for lane in range(lanes):
        for start in range(steps):
            total, factor = 0.0, 1.0
            for t in range(start, steps):
                step = {key: part[lane].item() for key, part in record[t].items() if key not in ("obs", "action")}
                after = record[t + 1]["value"][lane].item() if t + 1 < steps else last[lane].item()
                if step["terminated"]:
                    after = 0.0
                elif step["truncated"]:
                    after = step["final_value"]
                total += factor * (step["reward"] + gamma * after - step["value"])
                factor *= gamma * lam
                if step["terminated"] or step["truncated"]:
                    break
            advantages[start][lane] = total
    return advantages


@pytest.mark.parametrize("codec", [None, "auto", "delta"])
def test_advantages_stop_at_ends_and_bootstrap_at_truncations(codec: Any) -> None:
    buffer, record = filled(codec=codec)
    last = torch.randn(3)
    buffer.compute_returns_and_advantages(last)
    expected = torch.tensor(slow_advantages(record, last, 0.9, 0.8)).reshape(-1)
    values = torch.cat([step["value"] for step in record])
    for _ in range(3):
        seen = []
        for batch in buffer.get(10):
            numbers = batch.actions
            seen += numbers.tolist()
            torch.testing.assert_close(batch.advantages, expected[numbers], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(batch.returns, (expected + values)[numbers], rtol=1e-4, atol=1e-5)
            assert torch.equal(batch.values, values[numbers])
            assert torch.equal(batch.observations, torch.cat([step["obs"] for step in record])[numbers])
        assert sorted(seen) == list(range(36))


def test_last_dones_end_what_add_was_not_told_of() -> None:
    buffer = RolloutBuffer(2, 2, (1,), (), gamma=1.0, gae_lambda=1.0)
    for _ in range(2):
        buffer.add(torch.zeros(2, 1), torch.zeros(2), torch.ones(2), torch.zeros(2), torch.zeros(2), torch.zeros(2))
    buffer.compute_returns_and_advantages(torch.full((2,), 10.0), torch.tensor([True, False]))
    (batch,) = buffer.get(shuffle=False)
    assert batch.returns.tolist() == [2.0, 12.0, 1.0, 11.0]


def test_a_rollout_that_is_not_full_has_the_steps_that_it_has() -> None:
    buffer, _ = filled(steps=5)
    buffer.compute_returns_and_advantages(torch.zeros(3))
    (batch,) = buffer.get(shuffle=False)
    assert batch.actions.tolist() == list(range(15))
    buffer.normalize_advantages()
    assert abs(buffer.advantages_mean) < 1e-6
    assert buffer.advantages_std == pytest.approx(1.0, abs=1e-4)
    buffer.normalize_returns()
    assert abs(buffer.returns_mean) < 1e-6
    assert buffer.returns_std == pytest.approx(1.0, abs=1e-4)


def test_explained_variance_is_of_the_returns() -> None:
    truth, forecast = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 2.0, 3.0, 8.0])
    assert explained_variance(forecast, truth) == pytest.approx(1 - 3.0 / 1.25)
    assert explained_variance(truth, truth) == 1.0
    assert explained_variance(torch.zeros(4), truth) == 0.0
    assert math.isnan(explained_variance(truth, torch.ones(4)))
    buffer, record = filled()
    buffer.compute_returns_and_advantages(torch.zeros(3))
    values = torch.cat([step["value"] for step in record])
    (batch,) = buffer.get(shuffle=False)
    assert buffer.explained_variance == pytest.approx(explained_variance(values, batch.returns), rel=1e-5)


def test_what_is_asked_for_too_early_is_refused() -> None:
    buffer, _ = filled(steps=0)
    with pytest.raises(cat.NothingToSampleError):
        buffer.get(4)
    with pytest.raises(cat.NothingToSampleError):
        buffer.compute_returns_and_advantages(torch.zeros(3))
    buffer, record = filled(steps=3)
    with pytest.raises(RuntimeError, match="compute_returns_and_advantages"):
        buffer.get(4)
    buffer.compute_returns_and_advantages(torch.zeros(3))
    buffer.add(**record[0])
    with pytest.raises(RuntimeError, match="compute_returns_and_advantages"):
        buffer.get(4)
    buffer.compute_returns_and_advantages(torch.zeros(3))
    with pytest.raises(ValueError, match="at least one"):
        buffer.get(0)


def test_a_full_rollout_is_reset_before_the_next() -> None:
    buffer, record = filled()
    with pytest.raises(cat.BufferFullError):
        buffer.add(**record[0])
    buffer.reset()
    assert len(buffer) == 0
    for step in record:
        buffer.add(**step)
    buffer.compute_returns_and_advantages(torch.zeros(3))
    assert sum(len(batch.actions) for batch in buffer.get(8)) == 36
    buffer, record = filled(reset_strategy=ResetStrategy.AUTO)
    buffer.add(**record[0])
    assert len(buffer) == 1
    with pytest.raises(cat.BufferOptionError):
        filled(reset_strategy=ResetStrategy.RECURRENT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"final_value": None, "truncated": torch.ones(3)}, "give final_value"),
        ({"value": None}, "value and log_prob"),
        ({"done": torch.zeros(3)}, "either terminated, or done"),
        ({"log_prob": torch.zeros(2)}, "log_probs is of shape"),
    ],
)
def test_steps_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    buffer, record = filled(steps=3)
    with pytest.raises(StepError, match=message):
        buffer.add(**record[0] | change)
    assert len(buffer) == 3


def test_a_compressed_rollout_gives_memory_back() -> None:
    buffer, record = filled(size=12, codec="delta")
    first = buffer.memory_usage().stored
    for _ in range(5):
        buffer.reset()
        for step in record:
            buffer.add(**step)
    assert buffer.memory_usage().stored < 2 * first


def test_a_state_keeps_returns() -> None:
    buffer, _ = filled()
    buffer.compute_returns_and_advantages(torch.zeros(3))
    file = io.BytesIO()
    torch.save(buffer.state_dict(), file)
    file.seek(0)
    other, _ = filled(steps=2)
    other.load_state_dict(torch.load(file, weights_only=True))
    (one,), (two,) = buffer.get(shuffle=False), other.get(shuffle=False)
    assert torch.equal(one.returns, two.returns)
    assert torch.equal(one.observations, two.observations)
