"""n-step returns against one transition at a time, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressed_array.sampling import n_step


def slowly(rewards: list[float], ends: list[tuple[bool, bool, bool]], gamma: float) -> tuple[float, float, int]:
    """One row: `ends` are, for each step, whether it is held, terminates and truncates."""
    total, steps = 0.0, 0
    for reward, (is_held, terminates, truncates) in zip(rewards, ends, strict=True):
        if steps and not is_held:
            break
        total += gamma**steps * reward
        steps += 1
        if terminates:
            return total, 0.0, steps
        if truncates:
            break
    return total, gamma**steps, steps


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(
                st.tuples(st.floats(-10, 10), st.tuples(st.booleans(), st.booleans(), st.booleans())),
                min_size=n,
                max_size=n,
            ),
            min_size=1,
            max_size=8,
        )
    ),
    st.sampled_from([1.0, 0.99, 0.5, 0.0]),
)
def test_sums_stop_where_they_should(rows: list[list[tuple[float, tuple[bool, bool, bool]]]], gamma: float) -> None:
    rewards = np.array([[reward for reward, _ in row] for row in rows])
    flags = np.array([[ends for _, ends in row] for row in rows])
    returns, discounts, lengths = n_step(rewards, flags[..., 1], flags[..., 2], gamma, flags[..., 0])
    expected = [slowly([r for r, _ in row], [e for _, e in row], gamma) for row in rows]
    np.testing.assert_allclose(returns, [e[0] for e in expected], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(discounts, [e[1] for e in expected], rtol=1e-12)
    assert lengths.tolist() == [e[2] for e in expected]


def test_a_truncation_bootstraps_and_a_termination_does_not() -> None:
    rewards, false = np.ones((3, 3), np.float32), np.zeros((3, 3), bool)
    terminated, truncated = false.copy(), false.copy()
    terminated[0, 1] = truncated[1, 1] = True
    returns, discounts, lengths = n_step(rewards, terminated, truncated, 0.5)
    assert returns.tolist() == [1.5, 1.5, 1.75]
    assert discounts.tolist() == [0.0, 0.25, 0.125]
    assert lengths.tolist() == [2, 2, 3]
    assert returns.dtype == discounts.dtype == np.float32


def test_what_does_not_count_may_be_anything() -> None:
    rewards = np.array([[1.0, np.nan, np.inf]])
    ends = np.array([[True, False, False]])
    assert n_step(rewards, ends, ~ends, 0.9).returns.tolist() == [1.0]


@pytest.mark.parametrize("n", [1, 2])
def test_the_arrays_given_stay_as_they_are(n: int) -> None:
    rewards, flags = np.ones((2, n)), np.zeros((2, n), bool)
    returns = n_step(rewards, flags, flags, 0.9).returns
    assert rewards.tolist() == np.ones((2, n)).tolist()
    assert returns.shape == (2,)
