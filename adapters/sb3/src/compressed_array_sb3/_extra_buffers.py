"""Compatibility only: names at the top of sb3-extra-buffers that nothing in this package needs."""

from __future__ import annotations

import re
from typing import Any

import stable_baselines3


class DummyCls:
    """Stands in for a class that a saved model names and that is not wanted any more: it does nothing.

    >>> DummyCls(1000, device="cpu") is not None
    True

    As in `DQN.load(path, custom_objects={"replay_buffer_class": DummyCls})`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


def sb3_version() -> tuple[int, int, int]:
    """Returns major, minor and patch of SB3's version as numbers, without whatever else it says, such as `a0`."""
    found = [re.match(r"\d+", part) for part in stable_baselines3.__version__.split(".")]
    major, minor, patch, *_ = [*(int(part.group()) if part else 0 for part in found), 0, 0, 0]
    return major, minor, patch
