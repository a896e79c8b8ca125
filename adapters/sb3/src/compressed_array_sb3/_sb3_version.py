"""Which SB3 this is."""

from __future__ import annotations

import re

import stable_baselines3


def sb3_version() -> tuple[int, int, int]:
    """Major, minor and patch of SB3's version, as numbers; whatever else it says, such as `a0`, is left out."""
    found = [re.match(r"\d+", part) for part in stable_baselines3.__version__.split(".")]
    major, minor, patch, *_ = [*(int(part.group()) if part else 0 for part in found), 0, 0, 0]
    return major, minor, patch
