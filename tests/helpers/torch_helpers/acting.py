"""What writers of a shared buffer do in processes of their own, which import it by name."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from torch_helpers.histories import History

FAR = 1_000_000  # between the numbers of two writers' steps


def act(writer: Any, index: int, steps: int, ready: Any, *, dies: bool) -> None:
    """Adds steps; then waits to be killed, or ends without closing the writer."""
    source = History("images", 2, seed=index, first=index * FAR)
    for _ in range(steps):
        source.add_to(writer)
    if dies:
        ready.set()
        time.sleep(60)


def shown(number: int) -> Any:
    """What an environment shows in a step: the step's number, as a picture of its bits."""
    bits = np.array([number >> bit & 1 for bit in range(24)], np.uint8)
    return np.repeat(bits, 6).reshape(1, 12, 12) * np.uint8(255)


def act_for_ever(writer: Any, index: int) -> None:
    """Adds steps until the process is ended from outside."""
    number, zero = index * FAR, np.zeros(1, bool)
    obs = shown(number)
    while True:
        after = shown(number + 1)
        writer.add(obs, np.array([number]), np.zeros(1, np.float32), terminated=zero, truncated=zero, next_obs=after)
        number, obs = number + 1, after
