"""`n_step`: returns over several steps, with the discount of what is bootstrapped behind them."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np


class NStep(NamedTuple):
    """What n steps come to, for each row of a batch."""

    returns: Any  # discounted sums of rewards
    discounts: Any  # what a value of the observation after the last step counts; zero behind a termination
    lengths: Any  # how many steps the sums go over, from 1 to n


def n_step(rewards: Any, terminated: Any, truncated: Any, gamma: float, is_held: Any = None) -> NStep:
    """Returns discounted sums of rewards over up to n steps, and the discounts of what follows them.

    A sum stops with the step that terminates an episode, behind which nothing is worth anything, and with one that
    truncates it, behind which the value of its last observation counts. Where a step does both, it terminates.

    All arrays are (batch, n): of numpy, or tensors of torch on any one device, which is not waited for. Results are of
    the dtype of `rewards`.

    Args:
        rewards: Of each step, as floats.
        terminated: Whether an episode ended with the step by the rules of its environment.
        truncated: Whether it was cut off with the step, as by a limit of time.
        gamma: What a reward, or a value, counts less for each step that it comes later.
        is_held: Whether steps are there, if not all are, as beyond the newest one of a ring: a sum stops before them,
            and bootstraps. The first step of each row has to be there.

    >>> import numpy as np
    >>> no, rewards = np.zeros((1, 3), bool), np.ones((1, 3))
    >>> n_step(rewards, no, no, gamma=0.5)
    NStep(returns=array([1.75]), discounts=array([0.125]), lengths=array([3]))
    """
    # Both frameworks have all functions that are used here, by the same names.
    xp: Any = np if isinstance(rewards, np.ndarray) else sys.modules["torch"]
    if "float" not in str(rewards.dtype):
        raise TypeError(f"rewards are floats, and not {rewards.dtype}: a discount is between 0 and 1")
    ends = terminated | truncated
    returns = rewards[:, 0]
    nothing, lengths = xp.zeros_like(returns), xp.ones_like(ends[:, 0], dtype=xp.int64)
    discounts = xp.where(terminated[:, 0], nothing, xp.full_like(returns, gamma))
    goes_on = xp.ones_like(ends[:, 0])
    for step in range(1, rewards.shape[1]):
        goes_on = goes_on & ~ends[:, step - 1]
        if is_held is not None:
            goes_on = goes_on & is_held[:, step]
        # Not by multiplying with zero, which leaves a NaN of a step that does not count.
        returns = xp.where(goes_on, returns + gamma**step * rewards[:, step], returns)
        discount = xp.where(terminated[:, step], nothing, xp.full_like(returns, gamma ** (step + 1)))
        discounts = xp.where(goes_on, discount, discounts)
        lengths = lengths + goes_on
    return NStep(returns, discounts, lengths)
